/* The library of program_loading.c. */
#include <pthread.h>
#include <unistd.h>

static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int library_started(void);

static void *start(void *unused)
{
    usleep(1000);
    pthread_mutex_lock(&lock);
    count++;
    pthread_mutex_unlock(&lock);
    return unused;
}

__attribute__((constructor)) static void load(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, start, NULL))
            return;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

__attribute__((visibility("default"))) int library_started(void)
{
    return count;
}
