/* Mutexes and conditions that processes share, and robust mutexes. */
#include "program.h"

enum { ROUNDS = 20, COUNTS = 50 };

static struct shared {
    pthread_mutex_t mutex, robust;
    pthread_cond_t cond;
    int count, turn;
} *shared;

static void init_mutex(pthread_mutex_t *mutex, int is_shared, int is_robust, int kind)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (is_shared)
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (is_robust)
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_settype(&attributes, kind);
    if (pthread_mutex_init(mutex, &attributes))
        abort();
}

static void *count(void *argument)
{
    for (int i = 0; i < COUNTS; i++) {
        pthread_mutex_lock(&shared->mutex);
        int before = shared->count;
        if (i % 16 == 0)
            usleep(10);
        shared->count = before + 1;
        pthread_mutex_unlock(&shared->mutex);
    }
    return argument;
}

/* Each process waits for its turn. */
static void take_turns(int parity)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&shared->mutex);
        while (shared->turn % 2 != parity)
            pthread_cond_wait(&shared->cond, &shared->mutex);
        shared->turn++;
        pthread_cond_broadcast(&shared->cond);
        pthread_mutex_unlock(&shared->mutex);
    }
}

static void of_two_processes(void)
{
    pthread_t thread;
    pid_t child = fork();
    if (pthread_create(&thread, NULL, count, NULL))
        abort();
    take_turns(child == 0);
    pthread_join(thread, NULL);
    if (!child)
        _exit(0);
    waitpid(child, NULL, 0);
    printf("counted %d, turns %d\n", shared->count, shared->turn);
    struct timespec late;
    clock_gettime(CLOCK_REALTIME, &late);
    pthread_mutex_lock(&shared->mutex);
    printf("late: %s\n", strerror(pthread_cond_timedwait(&shared->cond, &shared->mutex, &late)));
    printf("again: %s\n", strerror(pthread_mutex_trylock(&shared->mutex)));
    pthread_mutex_unlock(&shared->mutex);
}

static void of_a_dead_process(void)
{
    pid_t child = fork();
    if (!child) {
        pthread_mutex_lock(&shared->robust);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("dead process: %s\n", strerror(pthread_mutex_lock(&shared->robust)));
    printf("consistent: %d", pthread_mutex_consistent(&shared->robust));
    printf(", unlock %d\n", pthread_mutex_unlock(&shared->robust));
    printf("then: %d", pthread_mutex_lock(&shared->robust));
    printf(" %d\n", pthread_mutex_unlock(&shared->robust));
}

static void *lock(void *mutex)
{
    printf("lock: %s\n", strerror(pthread_mutex_lock(mutex)));
    return NULL;
}

static void of_a_dead_thread(int kind)
{
    pthread_mutex_t mutex;
    pthread_t thread;
    init_mutex(&mutex, 0, 1, kind);
    pthread_create(&thread, NULL, lock, &mutex);
    pthread_join(thread, NULL);
    printf("dead thread: %s\n", strerror(pthread_mutex_trylock(&mutex)));
    printf("unlock %d\n", pthread_mutex_unlock(&mutex));
    printf("lost: %s\n", strerror(pthread_mutex_lock(&mutex)));
    printf("too late: %s\n", strerror(pthread_mutex_consistent(&mutex)));
    printf("not owned: %s\n", strerror(pthread_mutex_unlock(&mutex)));
    pthread_mutex_destroy(&mutex);
}

static void of_one_thread(void)
{
    pthread_mutex_t mutex;
    init_mutex(&mutex, 1, 0, PTHREAD_MUTEX_RECURSIVE);
    printf("recursive %d", pthread_mutex_lock(&mutex));
    printf(" %d", pthread_mutex_lock(&mutex));
    printf(" %d", pthread_mutex_unlock(&mutex));
    printf(" %d", pthread_mutex_unlock(&mutex));
    printf(" %s\n", strerror(pthread_mutex_unlock(&mutex)));
    pthread_mutex_destroy(&mutex);
    init_mutex(&mutex, 1, 0, PTHREAD_MUTEX_ERRORCHECK);
    printf("checked %d", pthread_mutex_lock(&mutex));
    printf(" %s\n", strerror(pthread_mutex_lock(&mutex)));
    pthread_mutex_unlock(&mutex);
    pthread_mutex_destroy(&mutex);
}

int main(void)
{
    pthread_condattr_t attributes;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    pthread_condattr_init(&attributes);
    pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared->cond, &attributes);
    init_mutex(&shared->mutex, 1, 0, PTHREAD_MUTEX_NORMAL);
    init_mutex(&shared->robust, 1, 1, PTHREAD_MUTEX_NORMAL);
    of_two_processes();
    of_a_dead_process();
    of_a_dead_thread(PTHREAD_MUTEX_NORMAL);
    of_a_dead_thread(PTHREAD_MUTEX_ERRORCHECK);
    of_one_thread();
    fflush(stdout);
    return 0;
}
