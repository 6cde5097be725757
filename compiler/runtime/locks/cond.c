/* Condition variables. A thread that waits is in the queue; when it was woken, or its time is over,
 * it locks the mutex again, which is the second phase of the same call. */
#include "compiler/runtime/libraries/libraries.h"
#include "compiler/runtime/locks/shared_mutex.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

struct cond {
    atomic_flag lock;
    bool is_monotonic, is_shared; /* is_shared: by processes, which only count */
    atomic_uint signals;
    struct queue waiting;
};
_Static_assert(sizeof(struct cond) <= sizeof(pthread_cond_t), "it replaces that");
_Static_assert(offsetof(struct cond, waiting) == GS_CC_COND_QUEUE, "libraries look there");

static struct cond *cond_of(pthread_cond_t *cond)
{
    return (struct cond *)cond;
}

int gs_cc_pthread_mutex_lock(pthread_mutex_t *mutex);
int gs_cc_pthread_mutex_unlock(pthread_mutex_t *mutex);

/* What the call returns when the mutex is locked again. */
enum outcome { WOKEN = 1, LATE, CANCELED };

/* Whether the thread still has to wait; otherwise its outcome is set. The caller holds the lock. */
static bool must_wait(struct thread *self, struct cond *cond, uint64_t deadline_ns)
{
    enum outcome outcome = WOKEN;
    if (self->phase == PHASE_CLAIMED)
        return true;
    if (self->phase == PHASE_WAITING) {
        if (!must_cancel(self) && !is_late(deadline_ns))
            return true;
        outcome = must_cancel(self) ? CANCELED : LATE;
        queue_remove(&cond->waiting, self);
    }
    gs_cc_complete(self);
    self->outcome = outcome;
    return false;
}

/* Returns true if the caller must return. */
static bool wait_for_signal(struct thread *self, struct cond *cond, uint64_t deadline_ns)
{
    while (!self->outcome) {
        spin_lock(&cond->lock);
        bool is_waiting = must_wait(self, cond, deadline_ns);
        spin_unlock(&cond->lock);
        if (is_waiting && gs_cc_wait_until(self, deadline_ns, false))
            return true;
    }
    return false;
}

/* Outside of the threads: in a kernel thread of a library. It returns each millisecond for no
 * reason, which a condition variable may do. */
static int wait_outside(pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    gs_cc_pthread_mutex_unlock(mutex);
    nanosleep(&(struct timespec){.tv_nsec = (long)GS_MILLISECOND}, NULL);
    gs_cc_pthread_mutex_lock(mutex);
    return is_late(deadline_ns) ? ETIMEDOUT : 0;
}

/* The second phase. */
static int end_wait(struct thread *self, struct mutex *mutex)
{
    int err;
    if (gs_cc_relock(self, mutex, &err))
        return 0;
    enum outcome outcome = self->outcome;
    self->outcome = 0;
    if (outcome == CANCELED || must_jump(self))
        gs_cc_test_cancel(self);
    return err ? err : outcome == LATE ? ETIMEDOUT : 0;
}

/* The thread looks at the count occasionally. Any signal wakes all who wait. */
static int wait_shared(struct thread *self, struct cond *cond, struct mutex *mutex,
                       uint64_t deadline_ns)
{
    if (!self->outcome && self->phase == PHASE_NEW) {
        if (gs_cc_test_cancel(self))
            return 0;
        self->progress = atomic_load(&cond->signals) + (size_t)1;
        int err = gs_cc_pthread_mutex_unlock((pthread_mutex_t *)mutex);
        if (err) {
            self->progress = 0;
            return err;
        }
    }
    while (!self->outcome) {
        bool is_woken = atomic_load(&cond->signals) + (size_t)1 != self->progress;
        if (is_woken || must_cancel(self) || is_late(deadline_ns)) {
            gs_cc_complete(self);
            self->outcome = is_woken ? WOKEN : must_cancel(self) ? CANCELED : LATE;
            break;
        }
        if (gs_cc_look_again(self, deadline_ns))
            return 0;
    }
    return end_wait(self, mutex);
}

static int wait_until(struct cond *cond, struct mutex *mutex, uint64_t deadline_ns)
{
    struct thread *self = thread_self();
    if (self && cond->is_shared)
        return wait_shared(self, cond, mutex, deadline_ns);
    if (!self)
        return wait_outside((pthread_mutex_t *)mutex, deadline_ns);
    if (!self->outcome && self->phase == PHASE_NEW) {
        if (gs_cc_test_cancel(self))
            return 0;
        if (!gs_cc_is_unlockable(mutex))
            return EPERM;
        spin_lock(&cond->lock);
        queue_append(&cond->waiting, self);
        spin_unlock(&cond->lock);
        gs_cc_unlock(mutex);
    }
    return wait_for_signal(self, cond, deadline_ns) ? 0 : end_wait(self, mutex);
}

int gs_cc_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    clockid_t clock = CLOCK_REALTIME;
    int scope = PTHREAD_PROCESS_PRIVATE;
    if (attributes) {
        pthread_condattr_getclock(attributes, &clock);
        pthread_condattr_getpshared(attributes, &scope);
    }
    memset(cond, 0, sizeof(pthread_cond_t));
    cond_of(cond)->is_monotonic = clock == CLOCK_MONOTONIC;
    cond_of(cond)->is_shared = scope == PTHREAD_PROCESS_SHARED;
    return 0;
}

int gs_cc_pthread_cond_destroy(pthread_cond_t *cond)
{
    return cond_of(cond)->waiting.first ? EBUSY : 0;
}

int gs_cc_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    return wait_until(cond_of(cond), (struct mutex *)mutex, GS_NEVER);
}

int gs_cc_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                 const struct timespec *time)
{
    if (!is_known_clock(clock) || !is_valid_time(time))
        return EINVAL;
    return wait_until(cond_of(cond), (struct mutex *)mutex, gs_cc_from_clock(clock, time));
}

int gs_cc_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                 const struct timespec *time)
{
    clockid_t clock = cond_of(cond)->is_monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return gs_cc_pthread_cond_clockwait(cond, mutex, clock, time);
}

int gs_cc_pthread_cond_signal(pthread_cond_t *cond)
{
    struct cond *one = cond_of(cond);
    if (one->is_shared)
        atomic_fetch_add(&one->signals, 1);
    spin_lock(&one->lock);
    struct thread *thread = queue_pop(&one->waiting);
    spin_unlock(&one->lock);
    if (thread)
        grant(thread);
    return 0;
}

int gs_cc_pthread_cond_broadcast(pthread_cond_t *cond)
{
    struct cond *one = cond_of(cond);
    if (one->is_shared)
        atomic_fetch_add(&one->signals, 1);
    spin_lock(&one->lock);
    struct queue woken = one->waiting;
    one->waiting.first = NULL;
    struct thread *thread = woken.first;
    for (struct thread *at = thread; at; at = at->next)
        atomic_store_explicit(&at->phase, PHASE_CLAIMED, memory_order_relaxed);
    spin_unlock(&one->lock);
    while (thread) {
        struct thread *next = thread->next;
        grant(thread);
        thread = next;
    }
    return 0;
}
