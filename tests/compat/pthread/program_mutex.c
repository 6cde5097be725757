/* Mutexes of all types, condition variables, reader-writer locks, barriers, semaphores, once. */
#include "tests/compat/pthread/program.h"

enum { THREADS = 8, ROUNDS = 2000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t semaphore;
static long count, written, spun, turn;
static atomic_int once_calls, serial_threads;
static atomic_bool is_held;
static __thread long own;

static void call_once(void)
{
    sleep_ms(2);
    once_calls++;
}

static void *work(void *argument)
{
    long me = (long)argument;
    pthread_once(&once, call_once);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        count++;
        pthread_mutex_unlock(&mutex);
        if (i % 16 == 0) {
            pthread_rwlock_wrlock(&rwlock);
            written++;
            pthread_rwlock_unlock(&rwlock);
        } else {
            pthread_rwlock_rdlock(&rwlock);
            own += written >= 0;
            pthread_rwlock_unlock(&rwlock);
        }
        pthread_spin_lock(&spinlock);
        spun++;
        pthread_spin_unlock(&spinlock);
        own++;
    }
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % THREADS != me)
            pthread_cond_wait(&changed, &mutex);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    for (int i = 0; i < 50; i++)
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            serial_threads++;
    sem_post(&semaphore);
    return (void *)own;
}

static void test_contention(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
    sem_init(&semaphore, 0, 0);
    for (long i = 0; i < THREADS; i++)
        threads[i] = start(work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        SHOW_ERROR(sem_wait(&semaphore));
    for (int i = 0; i < THREADS; i++)
        SHOW(finish(threads[i]));
    SHOW(count);
    SHOW(written);
    SHOW(spun);
    SHOW(turn);
    SHOW(once_calls);
    SHOW(serial_threads);
    SHOW(pthread_barrier_destroy(&barrier));
}

static void *try_lock(void *mutex_of)
{
    return (void *)(long)pthread_mutex_trylock(mutex_of);
}

static void *unlock_foreign(void *mutex_of)
{
    return (void *)(long)pthread_mutex_unlock(mutex_of);
}

static void test_type(int type, int protocol, int robust)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t of_type;
    pthread_mutexattr_init(&attributes);
    SHOW(pthread_mutexattr_settype(&attributes, type));
    SHOW(pthread_mutexattr_setprotocol(&attributes, protocol));
    SHOW(pthread_mutexattr_setrobust(&attributes, robust));
    SHOW(pthread_mutex_init(&of_type, &attributes));
    SHOW(pthread_mutex_lock(&of_type));
    SHOW(pthread_mutex_trylock(&of_type));
    if (type != PTHREAD_MUTEX_NORMAL)
        SHOW(pthread_mutex_lock(&of_type) == (type == PTHREAD_MUTEX_RECURSIVE ? 0 : EDEADLK));
    SHOW(finish(start(try_lock, &of_type)));
    if (type == PTHREAD_MUTEX_ERRORCHECK)
        SHOW(finish(start(unlock_foreign, &of_type)));
    struct timespec soon = after_ms(CLOCK_REALTIME, 20);
    (void)soon;
    SHOW(pthread_mutex_unlock(&of_type));
    if (type == PTHREAD_MUTEX_RECURSIVE) {
        SHOW(pthread_mutex_unlock(&of_type));
        SHOW(pthread_mutex_unlock(&of_type));
    }
    SHOW(pthread_mutex_destroy(&of_type));
}

static pthread_mutex_t timed = PTHREAD_MUTEX_INITIALIZER;

static void *lock_in_time(void *unused)
{
    struct timespec soon = after_ms(CLOCK_REALTIME, 20), monotonic = after_ms(CLOCK_MONOTONIC, 20);
    struct timespec invalid = {0, 2000000000};
    SHOW(pthread_mutex_timedlock(&timed, &soon));
    SHOW(pthread_mutex_clocklock(&timed, CLOCK_MONOTONIC, &monotonic));
    SHOW(pthread_mutex_timedlock(&timed, &invalid));
    return unused;
}

static void test_timeouts(void)
{
    struct timespec soon = after_ms(CLOCK_REALTIME, 20), past = {1, 0};
    pthread_condattr_t attributes;
    pthread_cond_t monotonic;
    pthread_mutex_lock(&timed);
    finish(start(lock_in_time, NULL));
    SHOW(pthread_cond_timedwait(&changed, &timed, &soon));
    SHOW(pthread_cond_timedwait(&changed, &timed, &past));
    pthread_condattr_init(&attributes);
    SHOW(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    pthread_cond_init(&monotonic, &attributes);
    soon = after_ms(CLOCK_MONOTONIC, 20);
    SHOW(pthread_cond_timedwait(&monotonic, &timed, &soon));
    soon = after_ms(CLOCK_REALTIME, 20);
    SHOW_ERROR(sem_timedwait(&semaphore, &soon));
    SHOW_ERROR(sem_trywait(&semaphore));
    soon = after_ms(CLOCK_REALTIME, 20);
    pthread_rwlock_wrlock(&rwlock);
    SHOW(pthread_rwlock_timedrdlock(&rwlock, &soon));
    SHOW(pthread_rwlock_tryrdlock(&rwlock));
    SHOW(pthread_rwlock_unlock(&rwlock));
    pthread_mutex_unlock(&timed);
}

/* ---- Robust mutexes and those with priority inheritance ---- */

static void *die_with(void *mutex_of)
{
    pthread_mutex_lock(mutex_of);
    return NULL;
}

static void *lock_and_wait(void *mutex_of)
{
    int err = pthread_mutex_lock(mutex_of);
    if (err == EOWNERDEAD)
        pthread_mutex_consistent(mutex_of);
    pthread_mutex_unlock(mutex_of);
    return (void *)(long)err;
}

static void *hold(void *mutex_of)
{
    pthread_mutex_lock(mutex_of);
    is_held = true;
    sleep_ms(30);
    return NULL;
}

static void test_robust(int protocol)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t robust;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutex_init(&robust, &attributes);
    finish(start(die_with, &robust));
    SHOW(pthread_mutex_lock(&robust));
    SHOW(pthread_mutex_consistent(&robust));
    SHOW(pthread_mutex_unlock(&robust));
    is_held = false;
    pthread_t holder = start(hold, &robust);
    while (!is_held)
        sleep_ms(1);
    pthread_t waiter = start(lock_and_wait, &robust);
    finish(holder);
    SHOW(finish(waiter));
    SHOW(pthread_mutex_lock(&robust));
    SHOW(pthread_mutex_unlock(&robust));
    finish(start(die_with, &robust));
    SHOW(pthread_mutex_lock(&robust));
    SHOW(pthread_mutex_unlock(&robust));
    SHOW(pthread_mutex_lock(&robust));
}

static pthread_mutex_t inherited;

static void *work_inherited(void *unused)
{
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&inherited);
        count++;
        if (i % 50 == 0)
            sched_yield();
        pthread_mutex_unlock(&inherited);
    }
    return unused;
}

static void test_inherited(void)
{
    pthread_mutexattr_t attributes;
    pthread_t threads[THREADS];
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inherited, &attributes);
    count = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(work_inherited, NULL);
    for (int i = 0; i < THREADS; i++)
        finish(threads[i]);
    SHOW(count);
}

int main(void)
{
    test_contention();
    for (int protocol = PTHREAD_PRIO_NONE; protocol <= PTHREAD_PRIO_INHERIT; protocol++)
        for (int type = PTHREAD_MUTEX_NORMAL; type <= PTHREAD_MUTEX_ERRORCHECK; type++)
            for (int robust = 0; robust < 2; robust++)
                test_type(type, protocol, robust);
    test_timeouts();
    test_robust(PTHREAD_PRIO_NONE);
    test_inherited();
    return 5;
}
