/* How a wait begins and ends: wake-up, deadline, cancellation; sleep and park. The inline parts are
 * in wait.h, the deadlines in deadlines.c, the waits of mobile threads in mobile_wait.c. */
#include "thread/schedule/wait.h"

void gs_spin_unlock_callback(void *lock)
{
    spin_unlock_always(lock);
}

void gs_waiters_wake_all_and_unlock(struct gs_spin *lock, struct gs_wait_queue *queue)
{
    struct worker *worker = worker_current();
    struct claimed claimed = {.first = NULL};
    waiters_claim_all(worker, queue, &claimed);
    spin_unlock(lock);
    claimed_make_ready(worker, &claimed);
}

/* It may have been woken since it released the lock, and be the next one. */
int gs_dispatch_waiting(struct worker *worker, struct gs_thread *self)
{
    struct gs_thread *next = dispatch_next(worker);
    return LIKELY(next != self) ? dispatch_to(worker, self, next) : dispatch_result(self);
}

/* The object may be accessed: the thread is not ready yet, so it cannot have freed it. */
void gs_thread_abandon_wait(struct gs_thread *thread)
{
    const struct wait_kind *kind = thread->wait_kind;
    if (!kind->has_queue)
        return;
    char *object = kind->object ? kind->object(thread->wait_object) : (void *)thread->wait_object;
    struct gs_spin *lock = (struct gs_spin *)(object + kind->lock_offset);
    struct claimed claimed = {.first = NULL};
    spin_lock(lock);
    bool was_queued = waiter_is_queued(&thread->waiter);
    if (was_queued)
        waiters_remove((struct gs_wait_queue *)(object + kind->queue_offset), &thread->waiter);
    if (kind->abandon)
        kind->abandon(object, thread, was_queued, &claimed);
    spin_unlock(lock);
    if (UNLIKELY(claimed.first != NULL))
        claimed_make_ready(gs_worker_or_null(), &claimed);
}

/* End the wait with the outcome, unless it has ended already. Called by the thread's worker. */
static void end_wait(struct worker *worker, struct gs_thread *thread, int outcome)
{
    uint8_t parked = PARK_PARKED;
    if (thread->wait_kind->is_park && !thread_clear_parked(thread, &parked))
        return;
    if (!thread_claim(thread, outcome))
        return;
    gs_chaos(CHAOS_CLAIM);
    gs_thread_abandon_wait(thread);
    gs_chaos(CHAOS_WAKE);
    gs_thread_enqueue(worker, thread);
}

void gs_thread_make_ready_slow(struct gs_thread *thread)
{
    gs_chaos(CHAOS_WAKE);
    struct worker *worker = gs_worker_or_null();
    if (worker && thread->worker == worker) {
        gs_thread_enqueue(worker, thread);
        return;
    }
    /* The thread may run, and the run end, while this call must still wake the worker. */
    if (!worker)
        gs_runtime_enter();
    if (thread_is_mobile(thread))
        gs_thread_make_ready_mobile(worker, thread);
    else
        gs_worker_send(thread->worker, &thread->run);
    if (!worker)
        gs_runtime_leave();
}

void gs_thread_enqueue(struct worker *worker, struct gs_thread *thread)
{
    if (thread_is_mobile(thread)) {
        gs_thread_make_ready_mobile(worker, thread);
        return;
    }
    if (UNLIKELY(!thread->worker))
        thread_set_worker(thread, worker);
    queue_push(worker, &thread->run);
}

struct suspension {
    struct gs_thread *thread;
    void (*then)(void *);
    void *argument;
};

/* Copy the argument first: once the thread can be claimed, its frame may be gone. */
__attribute__((no_stack_protector)) static void publish(void *argument)
{
    const struct suspension suspension = *(const struct suspension *)argument;
    worker_left_thread(worker_current());
    gs_chaos(CHAOS_PUBLISH);
    /* Release: pairs with the acquire of the kernel thread that claims the thread. */
    atomic_store_explicit(&suspension.thread->claim, CLAIM_WAITING, memory_order_release);
    gs_chaos(CHAOS_PUBLISH);
    if (suspension.then)
        suspension.then(suspension.argument);
}

void gs_thread_suspend_mobile(struct gs_thread *self, void (*then)(void *), void *argument)
{
    struct suspension suspension = {self, then, argument};
    dispatch_then(worker_current(), self, publish, &suspension);
}

int gs_thread_wait_then(struct gs_thread *self, void (*then)(void *), void *argument,
                        const struct wait *wait)
{
    int err = wait_prepare(self, wait);
    if (UNLIKELY(err)) {
        then(argument);
        return err;
    }
    return wait_suspend(self, wait, then, argument);
}

int gs_thread_wait(struct gs_thread *self, struct gs_spin *lock, const struct wait *wait)
{
    return wait_locked(self, lock, wait);
}

int gs_thread_wait_for_object(struct gs_thread *self, void *object, const struct wait_kind *kind,
                              uint64_t deadline_ns)
{
    struct gs_spin *lock = (struct gs_spin *)((char *)object + kind->lock_offset);
    const struct wait wait = {kind, object, deadline_ns};
    int err = wait_prepare(self, &wait);
    if (err) {
        struct claimed claimed = {.first = NULL};
        if (kind->abandon)
            kind->abandon(object, self, true, &claimed);
        spin_unlock(lock);
        claimed_make_ready(self->worker, &claimed);
        return err;
    }
    struct gs_wait_queue *queue = (struct gs_wait_queue *)((char *)object + kind->queue_offset);
    return wait_in_queue(self, queue, lock, &wait);
}

int gs_thread_sleep(uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    static const struct wait_kind sleeping = {.name = "sleep", .is_external = true};
    struct gs_thread *self = thread_current();
    struct worker *worker = self->worker;
    CHECKED_SWITCH(worker, "wait for ", sleeping.name);
    if (deadline_ns <= *worker->now_ns || deadline_ns <= gs_clock_now()) {
        gs_thread_yield();
        return thread_must_cancel(self) ? -ECANCELED : 0;
    }
    int err =
        gs_thread_wait(self, NULL, &(struct wait){.kind = &sleeping, .deadline_ns = deadline_ns});
    return err == -ETIMEDOUT ? 0 : err;
}

/* ---- Park (tests/model/park.pml) ---- */

/* The thread has left its stack: a kernel thread that unparks it now may run it. */
static void publish_parked(void *argument)
{
    struct gs_thread *thread = argument;
    struct worker *worker = worker_current();
    uint8_t none = PARK_EMPTY;
    gs_chaos(CHAOS_PARK);
    if (!atomic_compare_exchange_strong(&thread->park_state, &none, PARK_PARKED))
        gs_thread_enqueue(worker, thread);
}

/* A park consumes a pending wake-up, or waits for one. */
int gs_thread_park(uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    static const struct wait_kind parked = {.name = "park", .is_external = true, .is_park = true};
    struct gs_thread *self = thread_current();
    const struct wait wait = {.kind = &parked, .deadline_ns = deadline_ns};
    if (atomic_exchange(&self->park_state, PARK_EMPTY) == PARK_NOTIFIED)
        return 0;
    int err = wait_prepare(self, &wait);
    if (err)
        return err;
    err = wait_suspend(self, &wait, publish_parked, self);
    /* An exchange, not a store: an unpark after the thread was made ready is consumed here, too,
     * and what the unparking thread wrote before must be visible. */
    gs_chaos(CHAOS_RETURN);
    if (!err)
        atomic_exchange(&self->park_state, PARK_EMPTY);
    return err;
}

void gs_thread_unpark(struct gs_thread *thread)
{
    CHECKED_HANDLE(thread);
    if (atomic_exchange(&thread->park_state, PARK_NOTIFIED) == PARK_PARKED)
        gs_thread_make_ready_slow(thread);
}

void gs_thread_cancel_wait(struct worker *worker, struct gs_thread *thread)
{
    if (thread_is_mobile(thread)) {
        if (gs_mobile_cancel_wait(worker, thread))
            gs_thread_make_ready_mobile(worker, thread);
    } else if (thread_is_waiting(thread) && thread_wait_is_cancelable(thread))
        end_wait(worker, thread, CLAIM_CANCELED);
}
