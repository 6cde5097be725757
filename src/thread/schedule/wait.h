/* Waiting: the inline parts, used by each blocking call. See dispatch.h for why they are inline.
 *
 * A blocking call that cannot be done at once takes the lock of its object and calls one of the
 * functions below. They switch to other threads, release the lock when the stack has been left, and
 * return the outcome when the thread has been claimed. (t): the caller returns the result
 * immediately, so that the switch is a tail call.
 *
 *     wait_for_object            (t) The thread is appended to the object's queue for this kind of
 *                                wait (WAITS_IN). Most objects of sync.h.
 *     gs_thread_wait_for_object  Not inline. gs_cond_wait.
 *     wait_in_queue              (t) The caller names the queue, after wait_prepare.
 *     wait_already_queued        (t) The caller has queued the thread, after wait_prepare.
 *                                gs_descriptor_wait.
 *     gs_thread_wait             There is no queue, or the waiter is not the thread's own, or the
 *                                call has something to do afterwards. gs_poll, gs_thread_sleep.
 *     wait_locked                The same, inline. gs_thread_join.
 *     gs_thread_wait_then        A function is called in place of the release of one lock.
 *                                gs_select, gs_run_blocking.
 *
 * They consist of three parts: wait_prepare finds that the thread must not wait, or adds it to the
 * deadlines of its worker; wait_begin stores what the thread waits for, and that it waits; the
 * third is the switch. wait_suspend is the last two, and then returns the outcome; gs_thread_park
 * uses it. For a mobile thread it calls gs_thread_suspend_mobile. */
#ifndef GS_THREAD_WAIT_H
#define GS_THREAD_WAIT_H

#include "thread/schedule/dispatch.h"
#include "thread/schedule/waiters.h"

/* Switch away from a mobile thread. When it has left its stack, it may be claimed, and
 * then(argument) is called, unless `then` is NULL. */
void gs_thread_suspend_mobile(struct gs_thread *self, void (*then)(void *), void *argument);

/* Returns 0 if the thread has to wait, or -errno if it must not. */
ALWAYS_INLINE int wait_prepare(struct gs_thread *self, const struct wait *wait)
{
    if (!wait->kind->ignores_cancel && thread_must_cancel(self))
        return -ECANCELED;
    if (!wait->deadline_ns)
        return -ETIMEDOUT;
    /* A thread that is in the deadlines of its worker by an earlier one is moved when that has
     * passed. */
    return wait->deadline_ns >= self->deadline_ns || wait->deadline_ns == GS_NEVER
               ? 0
               : gs_deadline_start(self, wait->deadline_ns);
}

/* claim: CLAIM_LEAVING if the thread is mobile, otherwise CLAIM_WAITING. */
ALWAYS_INLINE void wait_begin_as(enum claim claim, struct worker *worker, struct gs_thread *self,
                                 const struct wait *wait)
{
    CHECKED_SWITCH(worker, "wait for ", wait->kind->name);
    thread_count_external(worker, self, wait->kind->is_external || wait->deadline_ns != GS_NEVER);
    self->wait_kind = wait->kind;
    self->wait_object = wait->object;
    self->wait_start_ns = *worker->now_ns;
    self->has_deadline = wait->deadline_ns != GS_NEVER;
    if (self->has_deadline) /* the monitor may read the one before */
        __atomic_store_n(&self->deadline_ns, wait->deadline_ns, __ATOMIC_RELAXED);
    atomic_store_explicit(&self->claim, claim, memory_order_relaxed);
    CHECKED_BLOCKED(self);
}

/* The thread starts to wait. If it is queued, the caller holds the lock. */
ALWAYS_INLINE void wait_begin(struct worker *worker, struct gs_thread *self,
                              const struct wait *wait)
{
    wait_begin_as(thread_is_mobile(self) ? CLAIM_LEAVING : CLAIM_WAITING, worker, self, wait);
}

/* The wait is over. */
ALWAYS_INLINE int wait_outcome(struct gs_thread *self)
{
    gs_chaos(CHAOS_RETURN);
    int outcome = atomic_load_explicit(&self->claim, memory_order_relaxed);
    atomic_store_explicit(&self->claim, CLAIM_NONE, memory_order_relaxed);
    return CHECKED_RESUMED(self, outcome < 0 ? outcome : 0);
}

/* Switch away, and then call `then`, which unlocks or publishes. NULL: there is nothing to do. */
ALWAYS_INLINE int wait_suspend(struct gs_thread *self, const struct wait *wait,
                               void (*then)(void *), void *argument)
{
    struct worker *worker = self->worker;
    gs_chaos(CHAOS_PARK);
    wait_begin(worker, self, wait);
    if (thread_is_mobile(self))
        gs_thread_suspend_mobile(self, then, argument);
    else if (then)
        dispatch_then(worker, self, then, argument);
    else
        dispatch(worker, self);
    return wait_outcome(self);
}

/* gs_thread_wait, inline. */
ALWAYS_INLINE int wait_locked(struct gs_thread *self, struct gs_spin *lock, const struct wait *wait)
{
    int err = wait_prepare(self, wait);
    if (UNLIKELY(err)) {
        if (lock)
            spin_unlock(lock);
        return err;
    }
    if (!lock || thread_is_mobile(self))
        return wait_suspend(self, wait, lock ? gs_spin_unlock_callback : NULL, lock);
    struct worker *worker = self->worker;
    gs_chaos(CHAOS_PARK);
    wait_begin(worker, self, wait);
    spin_unlock(lock);
    dispatch(worker, self);
    return wait_outcome(self);
}

/* Wait in a queue to which the thread was appended. The caller holds the lock, has called
 * wait_prepare, and returns the result immediately (wait_in_queue says why). */
ALWAYS_INLINE int wait_already_queued(struct gs_thread *self, struct gs_spin *lock,
                                      const struct wait *wait)
{
    if (thread_is_mobile(self))
        return wait_suspend(self, wait, gs_spin_unlock_callback, lock);
    struct worker *worker = self->worker;
    wait_begin(worker, self, wait);
    spin_unlock(lock);
    return CHECKED_RESUMED(self, dispatch_waiting(worker, self));
}

/* Append the thread to a queue of an object, whose lock the caller holds, and wait. The caller has
 * called wait_prepare, and returns the result immediately: this makes the switch a tail call, so
 * that no frame of the blocking call is on the stack of a waiting thread, and no return after the
 * switch is mispredicted. */
ALWAYS_INLINE int wait_in_queue(struct gs_thread *self, struct gs_wait_queue *queue,
                                struct gs_spin *lock, const struct wait *wait)
{
    waiters_append(queue, &self->waiter);
    return wait_already_queued(self, lock, wait);
}

/* wait_for_object in every case, not inline. */
int gs_thread_wait_for_object(struct gs_thread *self, void *object, const struct wait_kind *kind,
                              uint64_t deadline_ns);

/* Append the calling thread to the queue of the object, whose lock the caller holds and this
 * function releases, and wait. Returns the outcome of the wait, or why the thread must not wait; it
 * is out of the queue then. The caller returns the result immediately (wait_in_queue says why). */
ALWAYS_INLINE int wait_for_object(struct worker *worker, void *object, const struct wait_kind *kind,
                                  uint64_t deadline_ns)
{
    struct gs_thread *self = worker->current;
    if (UNLIKELY(deadline_ns != GS_NEVER) || thread_is_mobile(self) ||
        UNLIKELY(!kind->ignores_cancel && thread_must_cancel(self)))
        return gs_thread_wait_for_object(self, object, kind, deadline_ns);
    const struct wait wait = {.kind = kind, .object = object, .deadline_ns = GS_NEVER};
    waiters_append((struct gs_wait_queue *)((char *)object + kind->queue_offset), &self->waiter);
    wait_begin_as(CLAIM_WAITING, worker, self, &wait);
    spin_unlock_always((struct gs_spin *)((char *)object + kind->lock_offset));
    return CHECKED_RESUMED(self, dispatch_waiting(worker, self));
}

#endif
