/* Waiting, inlined where it is used often: see dispatch.h. */
#ifndef GS_THREAD_WAIT_H
#define GS_THREAD_WAIT_H

#include "thread/dispatch.h"

#include <errno.h>

/* Have the thread's timer go off at the deadline, or before. Returns 0 or -ENOMEM. */
int gs_thread_arm(struct gs_thread *thread, uint64_t deadline_ns);
/* Release a spin lock. */
void gs_thread_unlock(void *lock);

/* Why the thread does not need to wait: -errno; 0: it does. */
ALWAYS_INLINE int wait_prepare(struct gs_thread *self, const struct wait *wait)
{
    if (!wait->is_uninterrupted && thread_is_canceled(self))
        return -ECANCELED;
    if (!wait->deadline_ns)
        return -ETIMEDOUT;
    return wait->deadline_ns == GS_NEVER ? 0 : gs_thread_arm(self, wait->deadline_ns);
}

ALWAYS_INLINE int wait_outcome(const struct gs_thread *self)
{
    switch ((enum claim)atomic_load_explicit(&self->claim, memory_order_relaxed)) {
    case CLAIM_TIMED_OUT:
        return -ETIMEDOUT;
    case CLAIM_CANCELED:
        return -ECANCELED;
    case CLAIM_NONE:
    case CLAIM_WAITING:
    case CLAIM_WOKEN:
        break;
    }
    return 0;
}

/* Leave the stack, and then unlock or publish; `then` is NULL where nobody is kept out. */
ALWAYS_INLINE int wait_suspend(struct gs_thread *self, const struct wait *wait,
                               void (*then)(void *), void *argument)
{
    struct worker *worker = self->worker;
    bool is_outside = wait->kind->is_outside || wait->deadline_ns != GS_NEVER;
    self->deadline_ns = wait->deadline_ns;
    self->is_wait_uninterrupted = wait->is_uninterrupted;
    self->waits = wait->kind;
    self->waits_at = wait->at;
    self->run.item.place = wait->kind->is_outside ? wait->kind : wait->at;
    self->since_ns = *worker->now_ns;
    if (is_outside)
        count_add(&worker->outside, 1);
    if (then)
        dispatch_then(worker, self, then, argument);
    else
        dispatch(worker, self);
    if (is_outside)
        count_add(&self->worker->outside, UINT64_MAX);
    self->waits = NULL;
    int err = wait_outcome(self);
    atomic_store_explicit(&self->claim, CLAIM_NONE, memory_order_relaxed);
    return err;
}

/* As gs_thread_wait. */
ALWAYS_INLINE int wait_with(struct gs_thread *self, struct gs_spin *lock, const struct wait *wait)
{
    int err = wait_prepare(self, wait);
    if (UNLIKELY(err)) {
        if (lock)
            spin_unlock(lock);
        return err;
    }
    atomic_store_explicit(&self->claim, CLAIM_WAITING, memory_order_relaxed);
    return wait_suspend(self, wait, lock && gs_runtime.is_multi ? gs_thread_unlock : NULL, lock);
}

#endif
