/* Condition variables. A thread that waits is in the queue; when it was woken, or its time is over,
 * it locks the mutex again, which is the second phase of the same call. */
#include "compiler/runtime/thread.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

struct cond {
    atomic_flag lock;
    bool is_monotonic;
    struct queue waiting;
};
_Static_assert(sizeof(struct cond) <= sizeof(pthread_cond_t), "it replaces that");

static struct cond *cond_of(pthread_cond_t *cond)
{
    return (struct cond *)cond;
}

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

static int wait_until(struct thread *self, struct cond *cond, struct mutex *mutex,
                      uint64_t deadline_ns)
{
    if (!self->outcome && self->phase == PHASE_NEW) {
        if (gs_cc_test_cancel(self))
            return 0;
        spin_lock(&cond->lock);
        queue_append(&cond->waiting, self);
        spin_unlock(&cond->lock);
        gs_cc_unlock(mutex);
    }
    if (wait_for_signal(self, cond, deadline_ns) || gs_cc_relock(self, mutex))
        return 0;
    enum outcome outcome = self->outcome;
    self->outcome = 0;
    if (outcome == CANCELED)
        gs_cc_test_cancel(self);
    return outcome == LATE ? ETIMEDOUT : 0;
}

int gs_cc_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    clockid_t clock = CLOCK_REALTIME;
    if (attributes)
        pthread_condattr_getclock(attributes, &clock);
    memset(cond, 0, sizeof(pthread_cond_t));
    cond_of(cond)->is_monotonic = clock == CLOCK_MONOTONIC;
    return 0;
}

int gs_cc_pthread_cond_destroy(pthread_cond_t *cond)
{
    return cond_of(cond)->waiting.first ? EBUSY : 0;
}

int gs_cc_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    return wait_until(thread_self(), cond_of(cond), (struct mutex *)mutex, GS_NEVER);
}

int gs_cc_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                 const struct timespec *time)
{
    uint64_t deadline_ns = cond_of(cond)->is_monotonic
                               ? (uint64_t)time->tv_sec * GS_SECOND + (uint64_t)time->tv_nsec
                               : gs_cc_from_wall(time);
    return wait_until(thread_self(), cond_of(cond), (struct mutex *)mutex, deadline_ns);
}

int gs_cc_pthread_cond_signal(pthread_cond_t *cond)
{
    struct cond *one = cond_of(cond);
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
