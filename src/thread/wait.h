/* Waiting, inlined where it is used often: see dispatch.h. */
#ifndef GS_THREAD_WAIT_H
#define GS_THREAD_WAIT_H

#include "thread/dispatch.h"
#include "thread/waiters.h"

/* Have the thread's timer go off at the deadline, or before. Returns 0 or -ENOMEM. */
int gs_thread_arm(struct gs_thread *thread, uint64_t deadline_ns);
/* A mobile thread leaves its stack, and lets itself be claimed; `then` as below. */
void gs_thread_leave(struct gs_thread *self, void (*then)(void *), void *argument);

/* Why the thread does not need to wait: -errno; 0: it does. */
ALWAYS_INLINE int wait_prepare(struct gs_thread *self, const struct wait *wait)
{
    if (!wait->is_uninterrupted && thread_is_canceled(self))
        return -ECANCELED;
    if (!wait->deadline_ns)
        return -ETIMEDOUT;
    /* A timer that goes off too early is set anew then. */
    return wait->deadline_ns >= self->timer_ns || wait->deadline_ns == GS_NEVER
               ? 0
               : gs_thread_arm(self, wait->deadline_ns);
}

/* For policies: from where to where does not matter, only what is the same. */
static inline const void *wait_place(const struct wait_kind *kind, const void *at, const void *site)
{
    uintptr_t object = (uintptr_t)(kind->is_outside ? kind : at);
    return (const void *)(object + (uintptr_t)site * 3);
}

/* From here on the thread waits. Where it is queued, the lock is held. */
ALWAYS_INLINE void wait_begin(struct worker *worker, struct gs_thread *self,
                              const struct wait *wait)
{
    thread_count_outside(worker, self, wait->kind->is_outside || wait->deadline_ns != GS_NEVER);
    self->waits = wait->kind;
    self->waits_at = wait->at;
    self->since_ns = *worker->now_ns;
    self->deadline_ns = wait->deadline_ns;
    self->is_wait_uninterrupted = wait->is_uninterrupted;
    if (UNLIKELY(worker->policy_queue))
        self->run.item.place = wait_place(wait->kind, wait->at, wait->site);
    atomic_store_explicit(&self->claim, thread_is_mobile(self) ? CLAIM_LEAVING : CLAIM_WAITING,
                          memory_order_relaxed);
}

/* Leave the stack, and then unlock or publish; `then` is NULL where nobody is kept out. */
ALWAYS_INLINE int wait_suspend(struct gs_thread *self, const struct wait *wait,
                               void (*then)(void *), void *argument)
{
    struct worker *worker = self->worker;
    wait_begin(worker, self, wait);
    if (thread_is_mobile(self))
        gs_thread_leave(self, then, argument);
    else if (then)
        dispatch_then(worker, self, then, argument);
    else
        dispatch(worker, self);
    int outcome = atomic_load_explicit(&self->claim, memory_order_relaxed);
    atomic_store_explicit(&self->claim, CLAIM_NONE, memory_order_relaxed);
    return outcome < 0 ? outcome : 0;
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
    return wait_suspend(self, wait, lock && gs_runtime.is_multi ? gs_thread_unlock : NULL, lock);
}

/* Wait, which has been prepared, in a queue of the object's, whose lock is held. To be returned at once: then nothing of the call
 * stands on the stack while the thread waits, and on the way back the processor has nothing to predict wrongly. */
ALWAYS_INLINE int wait_queued(struct gs_thread *self, struct gs_wait_queue *queue,
                              struct gs_spin *lock, const struct wait *wait)
{
    waiters_append(queue, &self->waiter);
    if (UNLIKELY(thread_is_mobile(self)))
        return wait_suspend(self, wait, gs_thread_unlock, lock);
    struct worker *worker = self->worker;
    wait_begin(worker, self, wait);
    return dispatch_unlock(worker, self, lock);
}

/* As wait_in, for any wait. */
int gs_thread_wait_in(struct gs_thread *self, void *object, const struct wait_kind *kind,
                      uint64_t deadline_ns, const void *site);

/* Queue the calling thread at the object, whose lock is held and is released, and wait until it is claimed. Returns what it was
 * claimed with, or why it does not wait; it is off the queue. To be returned at once, as above. */
ALWAYS_INLINE int wait_in(struct gs_thread *self, void *object, const struct wait_kind *kind,
                          uint64_t deadline_ns)
{
    const void *site = __builtin_return_address(0);
    struct worker *worker = self->worker;
    if (UNLIKELY(deadline_ns != GS_NEVER) || UNLIKELY(thread_is_mobile(self)) ||
        UNLIKELY(!kind->is_uninterrupted && thread_is_canceled(self)))
        return gs_thread_wait_in(self, object, kind, deadline_ns, site);
    const struct wait wait = {kind, object, GS_NEVER, false, site};
    waiters_append((struct gs_wait_queue *)((char *)object + kind->queue_at), &self->waiter);
    wait_begin(worker, self, &wait);
    return dispatch_unlock(worker, self, (struct gs_spin *)((char *)object + kind->lock_at));
}

#endif
