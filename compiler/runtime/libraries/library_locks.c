/* How shared libraries wait for objects of the C library: the thread looks again, like one that
 * waits for an object that processes share. */
#include "compiler/runtime/libraries/library_calls.h"
#include "compiler/runtime/threads/threads.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#define LOOK_NS (500 * GS_MICROSECOND)
#define YIELDS 4

static void nap(struct thread *self, unsigned looks)
{
    int err = errno;
    leave_stack(self);
    if (looks < YIELDS || gs_thread_sleep(gs_clock_after(gs_clock_now(), LOOK_NS)))
        gs_thread_yield();
    return_to_stack(self);
    errno = err;
}

typedef int try_fn(struct thread *self, void *object);

/* Returns what the function does that is not EBUSY, or ETIMEDOUT. */
static int try_until(struct thread *self, try_fn *try, void *object, uint64_t deadline_ns)
{
    for (unsigned looks = 0;; looks++) {
        int err = try(self, object);
        if (err != EBUSY)
            return err;
        if (deadline_ns != GS_NEVER && gs_clock_now() >= deadline_ns)
            return ETIMEDOUT;
        nap(self, looks);
    }
}

/* ---- Mutexes ---- */

static int try_mutex(struct thread *self, void *object)
{
    pthread_mutex_t *mutex = object;
    return gs_cc_has_owner(mutex) ? gs_cc_owned_trylock(mutex, self) : pthread_mutex_trylock(mutex);
}

static int library_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    struct thread *self = thread_on_stack();
    return self ? try_until(self, try_mutex, mutex, GS_NEVER) : pthread_mutex_lock(mutex);
}

static int library_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    struct thread *self = thread_on_stack();
    if (!self)
        return pthread_mutex_trylock(mutex);
    int err = try_mutex(self, mutex);
    return err == EDEADLK ? EBUSY : err;
}

static int library_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                           const struct timespec *time)
{
    struct thread *self = thread_on_stack();
    if (!self || !is_valid_time(time))
        return pthread_mutex_clocklock(mutex, clock, time);
    return try_until(self, try_mutex, mutex, gs_cc_from_clock(clock, time));
}

static int library_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time)
{
    return library_pthread_mutex_clocklock(mutex, CLOCK_REALTIME, time);
}

int gs_cc_pthread_mutex_unlock(pthread_mutex_t *mutex);

static int library_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct thread *self = thread_on_stack();
    if (self && gs_cc_mutex_is_ours(mutex))
        return gs_cc_pthread_mutex_unlock(mutex);
    return self && gs_cc_has_owner(mutex) ? gs_cc_owned_unlock(mutex, self)
                                          : pthread_mutex_unlock(mutex);
}

/* ---- Conditions: a wait ends soon, as it may at any time ---- */

static int library_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    struct thread *self = thread_on_stack();
    if (!self)
        return pthread_cond_wait(cond, mutex);
    int err = library_pthread_mutex_unlock(mutex);
    if (err)
        return err;
    nap(self, YIELDS);
    return library_pthread_mutex_lock(mutex);
}

static int library_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                          clockid_t clock, const struct timespec *time)
{
    if (!thread_on_stack() || !is_valid_time(time))
        return pthread_cond_clockwait(cond, mutex, clock, time);
    uint64_t deadline_ns = gs_cc_from_clock(clock, time);
    int err = library_pthread_cond_wait(cond, mutex);
    return !err && gs_clock_now() >= deadline_ns ? ETIMEDOUT : err;
}

/* Which clock it is, the attributes have told the C library, in this bit. */
#define IS_MONOTONIC 2u

static int library_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                          const struct timespec *time)
{
    if (!thread_on_stack() || !is_valid_time(time))
        return pthread_cond_timedwait(cond, mutex, time);
    clockid_t clock = cond->__data.__wrefs & IS_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return library_pthread_cond_clockwait(cond, mutex, clock, time);
}

/* Those of the program's threads that wait in compiled code are in a queue of the runtime. */
static bool is_program_waiting(const pthread_cond_t *cond)
{
    pthread_t first;
    memcpy(&first, (const char *)cond + GS_CC_COND_QUEUE, sizeof first);
    return first && gs_cc_is_thread(first);
}

#define SIGNAL(name_)                                                                              \
    int gs_cc_##name_(pthread_cond_t *cond);                                                       \
    static int library_##name_(pthread_cond_t *cond)                                               \
    {                                                                                              \
        return is_program_waiting(cond) ? gs_cc_##name_(cond) : name_(cond);                       \
    }

SIGNAL(pthread_cond_signal)
SIGNAL(pthread_cond_broadcast)

/* ---- Reader-writer locks, semaphores, and the end of kernel threads ---- */

static int try_read(struct thread *self, void *lock)
{
    (void)self;
    return pthread_rwlock_tryrdlock(lock);
}

static int try_write(struct thread *self, void *lock)
{
    (void)self;
    return pthread_rwlock_trywrlock(lock);
}

static int library_pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    struct thread *self = thread_on_stack();
    return self ? try_until(self, try_read, lock, GS_NEVER) : pthread_rwlock_rdlock(lock);
}

static int library_pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    struct thread *self = thread_on_stack();
    return self ? try_until(self, try_write, lock, GS_NEVER) : pthread_rwlock_wrlock(lock);
}

static int try_semaphore(struct thread *self, void *semaphore)
{
    (void)self;
    if (!sem_trywait(semaphore))
        return 0;
    return errno == EAGAIN ? EBUSY : errno;
}

static int library_sem_wait(sem_t *semaphore)
{
    struct thread *self = thread_on_stack();
    return self ? result_of(try_until(self, try_semaphore, semaphore, GS_NEVER))
                : sem_wait(semaphore);
}

static int library_sem_timedwait(sem_t *semaphore, const struct timespec *time)
{
    struct thread *self = thread_on_stack();
    if (!self || !is_valid_time(time))
        return sem_timedwait(semaphore, time);
    uint64_t deadline_ns = gs_cc_from_clock(CLOCK_REALTIME, time);
    return result_of(try_until(self, try_semaphore, semaphore, deadline_ns));
}

int gs_cc_pthread_join(pthread_t thread, void **ret_result);

struct join {
    pthread_t thread;
    void *result;
};

static int try_join(struct thread *self, void *argument)
{
    struct join *join = argument;
    (void)self;
    return pthread_tryjoin_np(join->thread, &join->result);
}

static int library_pthread_join(pthread_t thread, void **ret_result)
{
    struct thread *self = thread_on_stack();
    struct join join = {.thread = thread};
    if (gs_cc_is_thread(thread))
        return gs_cc_pthread_join(thread, ret_result);
    if (!self)
        return pthread_join(thread, ret_result);
    int err = try_until(self, try_join, &join, GS_NEVER);
    if (!err && ret_result)
        *ret_result = join.result;
    return err;
}

/* In the order of strcmp. */
static const struct gs_cc_replacement replacements[] = {
    REPLACED(pthread_cond_broadcast),
    REPLACED(pthread_cond_clockwait),
    REPLACED(pthread_cond_signal),
    REPLACED(pthread_cond_timedwait),
    REPLACED(pthread_cond_wait),
    REPLACED(pthread_join),
    REPLACED(pthread_mutex_clocklock),
    REPLACED(pthread_mutex_lock),
    REPLACED(pthread_mutex_timedlock),
    REPLACED(pthread_mutex_trylock),
    REPLACED(pthread_mutex_unlock),
    REPLACED(pthread_rwlock_rdlock),
    REPLACED(pthread_rwlock_wrlock),
    REPLACED(sem_timedwait),
    REPLACED(sem_wait),
};
const struct gs_cc_replacements gs_cc_library_locks = REPLACEMENTS(replacements);
