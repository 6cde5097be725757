/* Calls a library only through a variable of it. */
#define _GNU_SOURCE
#include "waiting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int square(int i)
{
    usleep(500);
    return i * i;
}

static void *add(void *count)
{
    return (void *)library_operations.sum(square, (int)(long)count);
}

/* ---- Locks and conditions that both use ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int inside, together, flag;

/* One side may lock it, and the other one unlock it. */
static void *lock_in_turns(void *number)
{
    long way = (long)number;
    for (int i = 0; i < 12; i++) {
        way % 2 ? library_lock(&mutex) : (void)pthread_mutex_lock(&mutex);
        together += inside++;
        usleep(10);
        inside--;
        way / 2 % 2 ? library_unlock(&mutex) : (void)pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *await(void *in_library)
{
    if (in_library) {
        library_await(&condition, &mutex, &flag);
        return NULL;
    }
    pthread_mutex_lock(&mutex);
    while (!flag)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *signal_both(void *unused)
{
    pthread_t thread;
    for (int way = 0; way < 4; way++) {
        flag = 0;
        pthread_create(&thread, NULL, await, way % 2 ? &flag : NULL);
        usleep(300);
        if (way / 2) {
            library_signal(&condition, &mutex, &flag);
        } else {
            pthread_mutex_lock(&mutex);
            flag = 1;
            pthread_cond_signal(&condition);
            pthread_mutex_unlock(&mutex);
        }
        pthread_join(thread, NULL);
    }
    return unused;
}

static void share_locks(void)
{
    pthread_t threads[8];
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, lock_in_turns, (void *)i);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    signal_both(NULL);
    pthread_create(&threads[0], NULL, signal_both, NULL);
    pthread_join(threads[0], NULL);
    printf("together %d\n", together);
}

/* What the C library gets when it starts is there before main, and in constructors. */
static int environments;

__attribute__((constructor)) static void look(void)
{
    environments += getenv("PATH") && *program_invocation_short_name;
}

int main(void)
{
    pthread_t threads[3];
    void *result;
    look();
    setenv("ANOTHER", "", 1);
    look();
    printf("%d of 3\n", environments);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, add, (void *)(long)(i + 3));
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &result);
        printf("%ld\n", (long)result);
    }
    share_locks();
    return 0;
}
