/* Loops that wait for what another thread does, with the checks of a sanitizer in them. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LOCKS = 4 };
static pthread_mutex_t locks[LOCKS];
static atomic_int is_over;

/* An endless loop that only an error ends. */
static void *use_locks(void *number)
{
    char has[LOCKS] = {0};
    for (unsigned i = (unsigned)(long)number;; i = (i * 5 + 1) % LOCKS) {
        int err = has[i] ? pthread_mutex_unlock(&locks[i]) : pthread_mutex_trylock(&locks[i]);
        if (err && err != EBUSY) {
            printf("error %d\n", err);
            exit(1);
        }
        if (!err)
            has[i] = !has[i];
    }
}

/* It goes on until a time. */
static void wait_for_time(void)
{
    static volatile char seen[2];
    time_t start = time(NULL);
    while (time(NULL) - start < 20) {
        if (atomic_load(&is_over))
            break;
        seen[0] = 1;
    }
}

static void *end_it(void *unused)
{
    atomic_store(&is_over, 1);
    return unused;
}

int main(void)
{
    pthread_t thread;
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&locks[i], NULL);
    for (long i = 0; i < 2; i++)
        pthread_create(&thread, NULL, use_locks, (void *)i);
    pthread_create(&thread, NULL, end_it, NULL);
    wait_for_time();
    pthread_join(thread, NULL);
    printf("over %d\n", is_over);
    fflush(stdout);
    _Exit(0);
}
