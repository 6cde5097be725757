/* Waits with deadlines on both clocks, preferences of reader-writer locks, barriers, spin locks,
 * ceilings, and the errors of every synchronization object. */
#include "tests/compat/pthread/program.h"

#include <limits.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore, is_ready;

static long ms_since(const struct timespec *then)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - then->tv_sec) * 1000 + (now.tv_nsec - then->tv_nsec) / 1000000;
}

/* Waits with a deadline in 6 ms: the error, and that it was not before. */
#define SHOW_WAIT(clock_, expression_)                                                             \
    do {                                                                                           \
        struct timespec before_ = after_ms(CLOCK_MONOTONIC, 0), at = after_ms(clock_, 6);          \
        SHOW_ERROR(expression_);                                                                   \
        SHOW(ms_since(&before_) >= 5);                                                             \
    } while (0)

static void *wait_in_time(void *unused)
{
    const struct timespec past = {1, 0}, invalid = {1, 1000000000}, negative = {-1, 0};
    SHOW_WAIT(CLOCK_REALTIME, pthread_mutex_timedlock(&mutex, &at));
    SHOW_WAIT(CLOCK_REALTIME, pthread_mutex_clocklock(&mutex, CLOCK_REALTIME, &at));
    SHOW_WAIT(CLOCK_MONOTONIC, pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &at));
    SHOW(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &past));
    SHOW(pthread_mutex_timedlock(&mutex, &past));
    SHOW(pthread_mutex_timedlock(&mutex, &invalid));
    SHOW(pthread_mutex_timedlock(&mutex, &negative));
    SHOW_WAIT(CLOCK_REALTIME, pthread_rwlock_timedrdlock(&rwlock, &at));
    SHOW_WAIT(CLOCK_REALTIME, pthread_rwlock_timedwrlock(&rwlock, &at));
    SHOW_WAIT(CLOCK_MONOTONIC, pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &at));
    SHOW_WAIT(CLOCK_MONOTONIC, pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &at));
    SHOW(pthread_rwlock_timedwrlock(&rwlock, &past));
    SHOW(pthread_rwlock_timedrdlock(&rwlock, &invalid));
    SHOW_WAIT(CLOCK_REALTIME, sem_timedwait(&semaphore, &at));
    SHOW_WAIT(CLOCK_MONOTONIC, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &at));
    SHOW_ERROR(sem_timedwait(&semaphore, &past));
    SHOW_ERROR(sem_timedwait(&semaphore, &invalid));
    SHOW_ERROR(sem_trywait(&semaphore));
    return unused;
}

static void test_deadlines(void)
{
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    SHOW(finish(start(wait_in_time, NULL)));
    pthread_rwlock_unlock(&rwlock);
    SHOW_WAIT(CLOCK_REALTIME, pthread_cond_timedwait(&condition, &mutex, &at));
    SHOW_WAIT(CLOCK_MONOTONIC, pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &at));
    SHOW(pthread_cond_timedwait(&condition, &mutex, &(struct timespec){1, -1}));
    SHOW(pthread_cond_timedwait(&condition, &mutex, &(struct timespec){1, 0}));
    SHOW(pthread_mutex_unlock(&mutex));
    pthread_condattr_t attributes;
    pthread_cond_t monotonic;
    clockid_t clock;
    pthread_condattr_init(&attributes);
    SHOW(pthread_condattr_setclock(&attributes, CLOCK_PROCESS_CPUTIME_ID));
    SHOW(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    SHOW(pthread_condattr_getclock(&attributes, &clock));
    SHOW(clock == CLOCK_MONOTONIC);
    pthread_cond_init(&monotonic, &attributes);
    pthread_mutex_lock(&mutex);
    SHOW_WAIT(CLOCK_MONOTONIC, pthread_cond_timedwait(&monotonic, &mutex, &at));
    pthread_mutex_unlock(&mutex);
    SHOW(pthread_cond_destroy(&monotonic));
}

/* ---- Joins ---- */

static void *rest(void *end)
{
    sem_wait(end);
    return (void *)60;
}

static void test_joins(void)
{
    void *result = NULL;
    sem_t end;
    sem_init(&end, 0, 0);
    pthread_t slow = start(rest, &end);
    SHOW(pthread_tryjoin_np(slow, &result));
    SHOW_WAIT(CLOCK_REALTIME, pthread_timedjoin_np(slow, &result, &at));
    SHOW_WAIT(CLOCK_MONOTONIC, pthread_clockjoin_np(slow, &result, CLOCK_MONOTONIC, &at));
    sem_post(&end);
    SHOW(pthread_join(slow, &result));
    SHOW((long)result);
    SHOW(pthread_join(pthread_self(), NULL));
    SHOW(pthread_tryjoin_np(pthread_self(), NULL));
}

/* ---- Preferences of reader-writer locks ---- */

static pthread_rwlock_t preferring;
static atomic_int order[4], ordered;

static void *write_it(void *number)
{
    pthread_rwlock_wrlock(&preferring);
    order[ordered++] = (int)(long)number;
    sleep_ms(2);
    pthread_rwlock_unlock(&preferring);
    return NULL;
}

static void *read_it(void *number)
{
    pthread_rwlock_rdlock(&preferring);
    order[ordered++] = (int)(long)number;
    pthread_rwlock_unlock(&preferring);
    return NULL;
}

/* Readers are admitted until the writer waits. */
static void await_preferred_writer(void)
{
    while (!pthread_rwlock_tryrdlock(&preferring)) {
        pthread_rwlock_unlock(&preferring);
        sleep_ms(1);
    }
}

/* A reader that comes while another one reads and a writer waits. */
static void test_preference(int kind)
{
    bool prefers_writer = kind == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
    pthread_rwlockattr_t attributes;
    int stored = -1;
    pthread_rwlockattr_init(&attributes);
    SHOW(pthread_rwlockattr_setkind_np(&attributes, kind));
    SHOW(pthread_rwlockattr_getkind_np(&attributes, &stored));
    SHOW(stored);
    pthread_rwlock_init(&preferring, &attributes);
    ordered = 0;
    pthread_rwlock_rdlock(&preferring);
    pthread_t writer = start(write_it, (void *)1);
    if (prefers_writer)
        await_preferred_writer();
    else
        sleep_ms(20);
    SHOW(pthread_rwlock_tryrdlock(&preferring));
    if (!prefers_writer)
        pthread_rwlock_unlock(&preferring);
    SHOW(pthread_rwlock_trywrlock(&preferring));
    pthread_t reader = start(read_it, (void *)2);
    if (prefers_writer)
        sleep_ms(20);
    else
        finish(reader);
    pthread_rwlock_unlock(&preferring);
    finish(writer);
    if (prefers_writer)
        finish(reader);
    printf("kind %d: %d %d\n", kind, order[0], order[1]);
    SHOW(pthread_rwlock_destroy(&preferring));
}

static void *lock_written(void *unused)
{
    SHOW(pthread_rwlock_wrlock(&rwlock));
    SHOW(pthread_rwlock_wrlock(&rwlock));
    SHOW(pthread_rwlock_rdlock(&rwlock));
    SHOW(pthread_rwlock_unlock(&rwlock));
    return unused;
}

/* ---- Barriers, spin locks, ceilings ---- */

static pthread_barrier_t barrier;
static atomic_int serials, rounds;
static pthread_spinlock_t spin;
static long spun;

static void *meet(void *unused)
{
    for (int i = 0; i < 50; i++) {
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            serials++;
        rounds++;
        for (int turn = 0; turn < 20; turn++) {
            pthread_spin_lock(&spin);
            spun++;
            pthread_spin_unlock(&spin);
        }
    }
    return unused;
}

static void test_barrier(void)
{
    pthread_t threads[8];
    SHOW(pthread_barrier_init(&barrier, NULL, 0));
    SHOW(pthread_barrier_init(&barrier, NULL, 8));
    SHOW(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    for (int i = 0; i < 8; i++)
        threads[i] = start(meet, NULL);
    for (int i = 0; i < 8; i++)
        finish(threads[i]);
    SHOW(serials);
    SHOW(rounds);
    SHOW(spun);
    SHOW(pthread_barrier_destroy(&barrier));
    SHOW(pthread_spin_lock(&spin));
    SHOW(pthread_spin_trylock(&spin));
    SHOW(pthread_spin_unlock(&spin));
    SHOW(pthread_spin_destroy(&spin));
}

static void *lock_ceiling(void *unused)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t ceiling;
    int value = -1, policy = -1;
    struct sched_param parameters = {0};
    pthread_mutexattr_init(&attributes);
    SHOW(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT));
    SHOW(pthread_mutexattr_setprioceiling(&attributes, 1000));
    SHOW(pthread_mutexattr_setprioceiling(&attributes, 10));
    SHOW(pthread_mutexattr_getprioceiling(&attributes, &value));
    SHOW(value);
    SHOW(pthread_mutex_init(&ceiling, &attributes));
    SHOW(pthread_mutex_getprioceiling(&ceiling, &value));
    SHOW(pthread_mutex_lock(&ceiling));
    SHOW(pthread_getschedparam(pthread_self(), &policy, &parameters));
    SHOW(parameters.sched_priority);
    SHOW(pthread_mutex_trylock(&ceiling));
    SHOW(pthread_mutex_unlock(&ceiling));
    SHOW(pthread_mutex_setprioceiling(&ceiling, 12, &value));
    SHOW(value);
    SHOW(pthread_mutex_destroy(&ceiling));
    return unused;
}

/* ---- Semaphores ---- */

static void count(int number)
{
    (void)number;
    sem_post(&semaphore);
}

static void *post_back(void *unused)
{
    sem_post(&is_ready);
    while (sem_wait(&semaphore))
        ;
    return unused;
}

static void test_semaphores(void)
{
    int value = -1;
    sem_t many;
    SHOW_ERROR(sem_init(&many, 0, 0x80000000u));
    SHOW_ERROR(sem_init(&many, 0, SEM_VALUE_MAX));
    SHOW_ERROR(sem_post(&many));
    SHOW_ERROR(sem_getvalue(&many, &value));
    SHOW(value);
    SHOW_ERROR(sem_destroy(&many));
    signal(SIGUSR1, count);
    pthread_t waiting = start(post_back, NULL);
    sem_wait(&is_ready);
    sleep_ms(5);
    SHOW(pthread_kill(waiting, SIGUSR1));
    SHOW(finish(waiting));
}

static void *sleep_far(void *far)
{
    nanosleep(far, NULL);
    return NULL;
}

/* A time that must be over though nobody else runs, and one that is far away. */
static void test_sleeps(void)
{
    struct timespec before, far = {1L << 40, 0};
    clock_gettime(CLOCK_MONOTONIC, &before);
    struct timespec at = after_ms(CLOCK_MONOTONIC, 10);
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL));
    at = after_ms(CLOCK_REALTIME, 10);
    SHOW(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL));
    SHOW(ms_since(&before) >= 19);
    SHOW(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &before, NULL));
    SHOW(clock_nanosleep(77, 0, &before, NULL));
    SHOW_ERROR(nanosleep(&(struct timespec){0, 1000000000}, NULL));
    SHOW_ERROR(nanosleep(&(struct timespec){-1, 0}, NULL));
    SHOW_ERROR(usleep(100));
    pthread_t thread = start(sleep_far, &far);
    sleep_ms(5);
    SHOW(pthread_cancel(thread));
    SHOW(finish(thread));
}

int main(void)
{
    sem_init(&semaphore, 0, 0);
    sem_init(&is_ready, 0, 0);
    test_joins();
    test_preference(PTHREAD_RWLOCK_PREFER_READER_NP);
    test_preference(PTHREAD_RWLOCK_PREFER_WRITER_NP);
    test_preference(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    SHOW(finish(start(lock_written, NULL)));
    test_barrier();
    SHOW(finish(start(lock_ceiling, NULL)));
    test_semaphores();
    test_sleeps();
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    SHOW(finish(start(wait_in_time, NULL)));
    pthread_rwlock_unlock(&rwlock);
    pthread_mutex_unlock(&mutex);
    test_deadlines();
    return 0;
}
