/* Semaphores and barriers of the program without the signal, with the C library's protocols: its
 * own functions may be called for the same object. Those that processes share are left to them, and
 * so are all if the C library does not do what is expected of it.
 *
 * A semaphore has its value in the lower half of a word, and the number of its waiters in the upper
 * one: who adds to the value sees whether there is anyone to wake.
 *
 * A barrier counts those that have arrived (`in`) and that have left (`out`). The round is the
 * number of those that may leave, and a multiple of `count`. When as many have left as the numbers
 * permit, which its destruction pretends, the last one sets all to zero. */
#include "compat/pthread/locks/locks.h"
#include "compat/pthread/start/calls.h"
#include "compat/pthread/start/real.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>

#define EXPORT __attribute__((visibility("default")))
#define ONE_WAITER ((uint64_t)1 << 32)
#define VALUE(word_) ((uint32_t)(word_))

struct semaphore {
    uint64_t word;
    int is_shared;
};

struct barrier {
    uint32_t in, round, count;
    int is_shared;
    uint32_t out;
};

static struct {
    int (*sem_wait)(sem_t *);
    int (*sem_timedwait)(sem_t *, const struct timespec *);
    int (*sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
    int (*sem_post)(sem_t *);
    int (*barrier_wait)(pthread_barrier_t *);
} real;
static atomic_bool is_resolved;
static bool has_known_semaphores, has_known_barriers;

/* Several threads may do it at the same time, with the same result. */
static void need_real(void)
{
    if (GS_LIKELY(atomic_load_explicit(&is_resolved, memory_order_acquire)))
        return;
    *(void **)&real.sem_wait = gs_real_function("sem_wait");
    *(void **)&real.sem_timedwait = gs_real_function("sem_timedwait");
    *(void **)&real.sem_clockwait = gs_real_function("sem_clockwait");
    *(void **)&real.sem_post = gs_real_function("sem_post");
    *(void **)&real.barrier_wait = gs_real_function("pthread_barrier_wait");
    atomic_store(&is_resolved, true);
}

static bool knows_semaphores(void)
{
    sem_t sem, shared;
    const struct semaphore *known = (const struct semaphore *)&sem;
    sem_init(&sem, 0, 3);
    sem_init(&shared, 1, 0);
    bool is_known = known->word == 3 && !known->is_shared;
    is_known &= !real.sem_post(&sem) && known->word == 4;
    is_known &= !real.sem_wait(&sem) && known->word == 3;
    return is_known && ((const struct semaphore *)&shared)->is_shared;
}

#define IN_MAX ((uint32_t)INT_MAX)

/* How many may arrive before all is set to zero. */
static uint32_t end_of(const struct barrier *barrier)
{
    return IN_MAX - IN_MAX % barrier->count;
}

static bool knows_barriers(void)
{
    pthread_barrier_t one, two;
    struct barrier *known = (struct barrier *)&one;
    const struct barrier *other = (const struct barrier *)&two;
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&one, NULL, 1);
    pthread_barrier_init(&two, &attributes, 7);
    bool is_known = other->count == 7 && other->is_shared && known->count == 1 && !known->is_shared;
    is_known &= real.barrier_wait(&one) == PTHREAD_BARRIER_SERIAL_THREAD && known->in == 1 &&
                known->round == 1 && known->out == 1;
    known->in = known->round = known->out = end_of(known) - 1;
    is_known &= real.barrier_wait(&one) == PTHREAD_BARRIER_SERIAL_THREAD && !known->in &&
                !known->round && !known->out;
    pthread_barrierattr_destroy(&attributes);
    return is_known;
}

void gs_semaphores_start(void)
{
    need_real();
    has_known_semaphores = knows_semaphores();
    has_known_barriers = knows_barriers();
}

static bool is_in_task(void)
{
    need_real();
    return gs_is_wrapper_in_task();
}

/* ---- Semaphores ---- */

static bool is_plain(const sem_t *sem)
{
    return is_in_task() && has_known_semaphores && !((const struct semaphore *)sem)->is_shared;
}

/* Returns whether the value was more than zero. */
static bool take(struct semaphore *semaphore)
{
    uint64_t word = __atomic_load_n(&semaphore->word, __ATOMIC_RELAXED);
    while (VALUE(word))
        if (__atomic_compare_exchange_n(&semaphore->word, &word, word - 1, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;
    return false;
}

static void end_wait(void *semaphore)
{
    __atomic_fetch_sub(&((struct semaphore *)semaphore)->word, ONE_WAITER, __ATOMIC_RELAXED);
}

/* The first argument is the semaphore, the second the deadline. */
static long wait_inside(struct task *task, const long *arguments, ucontext_t *context)
{
    struct semaphore *semaphore = (struct semaphore *)arguments[0];
    uint64_t deadline_ns = (uint64_t)arguments[1];
    (void)context;
    while (!take(semaphore)) {
        long result = gs_futex_wait(task, (const uint32_t *)&semaphore->word, 0, deadline_ns);
        if (result == -EINTR)
            return deadline_ns == GS_NEVER ? RESTART_IF_ASKED : RESTART_NEVER;
        if (result == -ETIMEDOUT)
            return result;
    }
    return 0;
}

static int wait_until(sem_t *sem, uint64_t deadline_ns)
{
    struct semaphore *semaphore = (struct semaphore *)sem;
    const long arguments[6] = {(long)sem, (long)deadline_ns};
    int result;
    pthread_testcancel();
    if (GS_LIKELY(take(semaphore)))
        return 0;
    __atomic_fetch_add(&semaphore->word, ONE_WAITER, __ATOMIC_RELAXED);
    pthread_cleanup_push(end_wait, semaphore);
    result = (int)gs_wait_in_task(CALL_SEMAPHORE, wait_inside, arguments);
    pthread_cleanup_pop(1);
    return result;
}

EXPORT int sem_wait(sem_t *sem)
{
    return GS_LIKELY(is_plain(sem)) ? wait_until(sem, GS_NEVER) : real.sem_wait(sem);
}

/* A time before the clock's first has passed, too. */
static int wait_with_clock(sem_t *sem, clockid_t clock, const struct timespec *time)
{
    const struct timespec first = {.tv_nsec = time->tv_nsec};
    uint64_t deadline_ns = 0;
    if (time->tv_nsec < 0 || time->tv_nsec >= (long)GS_SECOND) {
        errno = EINVAL;
        return -1;
    }
    pthread_testcancel();
    if (take((struct semaphore *)sem))
        return 0;
    gs_deadline_at(clock, time->tv_sec < 0 ? &first : time, &deadline_ns);
    return wait_until(sem, deadline_ns);
}

EXPORT int sem_timedwait(sem_t *sem, const struct timespec *time)
{
    return GS_LIKELY(is_plain(sem)) ? wait_with_clock(sem, CLOCK_REALTIME, time)
                                    : real.sem_timedwait(sem, time);
}

EXPORT int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *time)
{
    bool is_known = clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME;
    return GS_LIKELY(is_plain(sem) && is_known) ? wait_with_clock(sem, clock, time)
                                                : real.sem_clockwait(sem, clock, time);
}

static void wake(const uint32_t *word, unsigned count)
{
    struct task *task = gs_task;
    long unused = 0;
    gs_task_enter(task);
    GS_COUNT(wrapped);
    gs_futex_wake(word, count, FUTEX_BITSET_MATCH_ANY);
    gs_task_leave(task, NULL, &unused, -1);
}

/* The semaphore may be gone as soon as its value is more. */
EXPORT int sem_post(sem_t *sem)
{
    struct semaphore *semaphore = (struct semaphore *)sem;
    if (GS_UNLIKELY(!is_plain(sem)))
        return real.sem_post(sem);
    uint64_t word = __atomic_load_n(&semaphore->word, __ATOMIC_RELAXED);
    do {
        if (GS_UNLIKELY(VALUE(word) == SEM_VALUE_MAX)) {
            errno = EOVERFLOW;
            return -1;
        }
    } while (!__atomic_compare_exchange_n(&semaphore->word, &word, word + 1, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
    if (word >= ONE_WAITER)
        wake((const uint32_t *)&semaphore->word, 1);
    return 0;
}

/* ---- Barriers ---- */

/* Until the word is not the value. Signal handlers are called meanwhile; it is no cancellation
 * point, but a task that is canceled asynchronously ends when it leaves. */
static void wait_for_change(const uint32_t *word, uint32_t value)
{
    struct task *task = gs_task;
    const long arguments[6] = {(long)word, FUTEX_WAIT_PRIVATE, value};
    long unused = 0;
    task->call = SYS_futex;
    task->call_arguments = arguments;
    gs_task_enter(task);
    GS_COUNT(wrapped);
    gs_futex_wait(task, word, value, GS_NEVER);
    gs_task_leave(task, NULL, &unused, -1);
}

/* Returns the number of the one that arrives, from 1. */
static uint32_t arrive(struct barrier *barrier, uint32_t end)
{
    for (;;) {
        uint32_t number = __atomic_add_fetch(&barrier->in, 1, __ATOMIC_ACQ_REL);
        if (GS_LIKELY(number <= end))
            return number;
        while (number > end) {
            wait_for_change(&barrier->in, number);
            number = __atomic_load_n(&barrier->in, __ATOMIC_RELAXED);
        }
    }
}

/* Returns the round, which is complete up to it. */
static uint32_t complete_round(struct barrier *barrier, uint32_t number)
{
    uint32_t count = barrier->count, complete = number - number % count;
    uint32_t round = __atomic_load_n(&barrier->round, __ATOMIC_RELAXED);
    while (round + count <= number)
        if (__atomic_compare_exchange_n(&barrier->round, &round, complete, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
            wake(&barrier->round, INT_MAX);
            return complete;
        }
    return round;
}

/* The barrier may be gone afterwards. */
static void leave(struct barrier *barrier, uint32_t end)
{
    if (__atomic_add_fetch(&barrier->out, 1, __ATOMIC_ACQ_REL) != end)
        return;
    __atomic_store_n(&barrier->round, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&barrier->out, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&barrier->in, 0, __ATOMIC_RELEASE);
    wake(&barrier->in, INT_MAX);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *of_program)
{
    struct barrier *barrier = (struct barrier *)of_program;
    if (GS_UNLIKELY(!is_in_task() || !has_known_barriers || barrier->is_shared))
        return real.barrier_wait(of_program);
    uint32_t count = barrier->count, end = end_of(barrier), number = arrive(barrier, end);
    uint32_t round = complete_round(barrier, number);
    while (number > round) {
        wait_for_change(&barrier->round, round);
        round = __atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE);
    }
    leave(barrier, end);
    return number % count ? 0 : PTHREAD_BARRIER_SERIAL_THREAD;
}
