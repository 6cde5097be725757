/* Waits of random threads: for each other, and until a time. */
#include "tests/compat/pthread/program.h"
#include "tests/compat/pthread/program_fuzz.h"

static sem_t tokens;
static pthread_key_t key;
static atomic_long destroyed;

static void destroy(void *value)
{
    atomic_fetch_add((atomic_long *)value, 1);
}

void fuzz_start(void)
{
    sem_init(&tokens, 0, 0);
    pthread_key_create(&key, destroy);
}

/* Who takes a token has brought one before, so nobody waits for ever. */
static long bring_and_take(struct fuzz *fuzz)
{
    long n = 1 + fuzz_next(fuzz) % 8;
    for (long i = 0; i < n; i++)
        EXPECT(!sem_post(&tokens));
    for (long i = 0; i < n; i++)
        EXPECT(!RETRIED(sem_wait(&tokens)));
    return n;
}

/* Two threads that take turns. */
struct turns {
    pthread_mutex_t mutex;
    pthread_cond_t changed[2];
    long n, of;
};

static void take_turns(struct turns *turns, int side)
{
    pthread_mutex_lock(&turns->mutex);
    while (turns->n < turns->of) {
        if (turns->n % 2 == side) {
            turns->n++;
            pthread_cond_signal(&turns->changed[!side]);
        } else {
            pthread_cond_wait(&turns->changed[side], &turns->mutex);
        }
    }
    pthread_cond_broadcast(&turns->changed[!side]);
    pthread_mutex_unlock(&turns->mutex);
}

static void *other_side(void *turns)
{
    take_turns(turns, 1);
    return NULL;
}

static long play(struct fuzz *fuzz)
{
    struct turns turns = {PTHREAD_MUTEX_INITIALIZER,
                          {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER},
                          0,
                          fuzz_next(fuzz) % 40};
    pthread_t other = start(other_side, &turns);
    take_turns(&turns, 0);
    EXPECT(!finish(other));
    EXPECT(!pthread_cond_destroy(&turns.changed[0]) && !pthread_cond_destroy(&turns.changed[1]));
    EXPECT(!pthread_mutex_destroy(&turns.mutex));
    return turns.n;
}

static long wait_in_vain(struct fuzz *fuzz)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec at = after_ms(CLOCK_REALTIME, fuzz_next(fuzz) % 4);
    sem_t none;
    int err = 0;
    sem_init(&none, 0, 0);
    pthread_mutex_lock(&mutex);
    while (!err)
        err = pthread_cond_timedwait(&condition, &mutex, &at);
    pthread_mutex_unlock(&mutex);
    EXPECT(err == ETIMEDOUT);
    EXPECT(RETRIED(sem_timedwait(&none, &at)) == -1 && errno == ETIMEDOUT);
    pthread_cond_destroy(&condition);
    return err;
}

static void *meet(void *barrier)
{
    return pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD ? barrier : NULL;
}

static long meet_others(struct fuzz *fuzz)
{
    pthread_t threads[3];
    pthread_barrier_t barrier;
    unsigned n = fuzz_next(fuzz) % 4;
    long serial;
    EXPECT(!pthread_barrier_init(&barrier, NULL, n + 1));
    for (unsigned i = 0; i < n; i++)
        threads[i] = start(meet, &barrier);
    serial = meet(&barrier) != NULL;
    for (unsigned i = 0; i < n; i++)
        serial += finish(threads[i]) != 0;
    EXPECT(serial == 1);
    EXPECT(!pthread_barrier_destroy(&barrier));
    return n;
}

static void *keep(void *count)
{
    pthread_setspecific(key, count);
    sched_yield();
    return pthread_getspecific(key) == count ? count : NULL;
}

static long keep_values(struct fuzz *fuzz)
{
    atomic_long count = 0;
    long n = fuzz_next(fuzz) % 5;
    for (long i = 0; i < n; i++)
        EXPECT(finish(start(keep, &count)) == (long)&count);
    EXPECT(atomic_load(&count) == n);
    atomic_fetch_add(&destroyed, n);
    return n;
}

static void *hold_and_end(void *mutex)
{
    pthread_mutex_lock(mutex);
    return NULL;
}

static long inherit(struct fuzz *fuzz)
{
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (fuzz_next(fuzz) % 2)
        pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&mutex, &attributes);
    EXPECT(!finish(start(hold_and_end, &mutex)));
    EXPECT(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    EXPECT(!pthread_mutex_consistent(&mutex));
    EXPECT(!pthread_mutex_unlock(&mutex) && !pthread_mutex_destroy(&mutex));
    return 1;
}

static long rest(struct fuzz *fuzz)
{
    struct timespec left = {0, fuzz_next(fuzz) % 300000};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
    return 0;
}

const struct fuzz_action fuzz_waits[] = {
    {bring_and_take}, {play}, {wait_in_vain}, {meet_others}, {keep_values}, {inherit}, {rest}, {0},
};
