/* Reader-writer locks and barriers that processes share. */
#include "program.h"

enum { PROCESSES = 2, THREADS = 2, ROUNDS = 10 };

static struct shared {
    pthread_rwlock_t lock;
    pthread_barrier_t barrier, pair;
    int count, torn, last, rounds[ROUNDS];
} *shared;

static void init(void)
{
    pthread_rwlockattr_t of_lock;
    pthread_barrierattr_t of_barrier;
    pthread_rwlockattr_init(&of_lock);
    pthread_rwlockattr_setpshared(&of_lock, PTHREAD_PROCESS_SHARED);
    pthread_barrierattr_init(&of_barrier);
    pthread_barrierattr_setpshared(&of_barrier, PTHREAD_PROCESS_SHARED);
    if (pthread_rwlock_init(&shared->lock, &of_lock) ||
        pthread_barrier_init(&shared->pair, &of_barrier, 2) ||
        pthread_barrier_init(&shared->barrier, &of_barrier, PROCESSES * THREADS))
        abort();
}

/* A writer waits between reading and writing; a reader sees a change if it is not kept out. */
static void write_and_read(void)
{
    pthread_rwlock_wrlock(&shared->lock);
    int before = shared->count;
    usleep(10);
    shared->count = before + 1;
    pthread_rwlock_unlock(&shared->lock);
    pthread_rwlock_rdlock(&shared->lock);
    before = shared->count;
    usleep(10);
    if (shared->count != before)
        shared->torn = 1;
    pthread_rwlock_unlock(&shared->lock);
}

/* Nobody begins a round before all have ended the one before. */
static void *run(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        write_and_read();
        __atomic_fetch_add(&shared->rounds[i], 1, __ATOMIC_SEQ_CST);
        int result = pthread_barrier_wait(&shared->barrier);
        if (result == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_fetch_add(&shared->last, 1, __ATOMIC_SEQ_CST);
        else if (result)
            abort();
        if (__atomic_load_n(&shared->rounds[i], __ATOMIC_SEQ_CST) != PROCESSES * THREADS)
            abort();
    }
    return argument;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, NULL))
            abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void of_two_processes(void)
{
    pid_t child = fork();
    run_threads();
    if (!child)
        _exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    printf("child %d, counted %d, torn %d, last %d\n", status, shared->count, shared->torn,
           shared->last);
}

static struct timespec now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time;
}

/* The child has the lock, for writing or for reading, between two waits for the barrier. */
static void while_another_has_it(int is_write)
{
    pid_t child = fork();
    if (!child) {
        if (is_write)
            pthread_rwlock_wrlock(&shared->lock);
        else
            pthread_rwlock_rdlock(&shared->lock);
        pthread_barrier_wait(&shared->pair);
        pthread_barrier_wait(&shared->pair);
        pthread_rwlock_unlock(&shared->lock);
        _exit(0);
    }
    struct timespec late = now();
    pthread_barrier_wait(&shared->pair);
    int can_read = pthread_rwlock_tryrdlock(&shared->lock);
    printf("read: %s\n", strerror(can_read));
    if (!can_read)
        pthread_rwlock_unlock(&shared->lock);
    printf("write: %s\n", strerror(pthread_rwlock_trywrlock(&shared->lock)));
    printf("late: %s\n", strerror(pthread_rwlock_timedwrlock(&shared->lock, &late)));
    pthread_barrier_wait(&shared->pair);
    printf("then: %d\n", pthread_rwlock_wrlock(&shared->lock));
    printf("twice: %s\n", strerror(pthread_rwlock_wrlock(&shared->lock)));
    printf("unlock %d\n", pthread_rwlock_unlock(&shared->lock));
    waitpid(child, NULL, 0);
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    init();
    of_two_processes();
    while_another_has_it(1);
    while_another_has_it(0);
    printf("destroyed %d", pthread_rwlock_destroy(&shared->lock));
    printf(" %d", pthread_barrier_destroy(&shared->pair));
    printf(" %d\n", pthread_barrier_destroy(&shared->barrier));
    fflush(stdout);
    return 0;
}
