/* Waiting: what every blocking call comes down to. A thread's timer stays active when a wait ends early: the next deadline is
 * usually later, and then costs one store; a timer that goes off too early is set anew. */
#include "thread/wait.h"

void gs_thread_unlock(void *lock)
{
    spin_unlock_always(lock);
}

int gs_dispatch_unlock(struct worker *worker, struct gs_thread *self, struct gs_spin *lock)
{
    if (gs_runtime.is_multi)
        return dispatch_then(worker, self, gs_thread_unlock, lock);
    return dispatch(worker, self);
}

/* What it waits at stays until the thread has gone on. */
void gs_thread_give_up(struct gs_thread *thread)
{
    const struct wait_kind *kind = thread->waits;
    if (!kind->has_queue)
        return;
    char *object = kind->object ? kind->object(thread->waits_at) : (void *)thread->waits_at;
    struct gs_spin *lock = (struct gs_spin *)(object + kind->lock_at);
    spin_lock(lock);
    bool was_queued = waiter_is_queued(&thread->waiter);
    if (was_queued)
        waiters_remove((struct gs_wait_queue *)(object + kind->queue_at), &thread->waiter);
    if (kind->given_up)
        kind->given_up(object, thread, was_queued);
    spin_unlock(lock);
}

/* On its worker: end the wait with the outcome, unless somebody else has ended it. */
static void interrupt(struct worker *worker, struct gs_thread *thread, int outcome)
{
    unsigned parked = TOKEN_PARKED;
    if (thread->is_token_wait &&
        !atomic_compare_exchange_strong(&thread->token, &parked, TOKEN_NONE))
        return;
    if (!thread_claim(thread, outcome))
        return;
    gs_thread_give_up(thread);
    gs_thread_arrive(worker, thread);
}

static int start_timer(struct gs_thread *thread, uint64_t deadline_ns)
{
    int err = gs_timer_start(&thread->timer, deadline_ns);
    if (!err)
        thread->timer_ns = deadline_ns;
    return err;
}

static void on_timer(struct gs_timer *timer)
{
    struct gs_thread *thread = gs_container_of(timer, struct gs_thread, timer);
    thread->timer_ns = GS_NEVER;
    if (!thread_waits(thread) || thread->deadline_ns == GS_NEVER)
        return;
    /* Without memory for the timer, rather too early than never. */
    if (thread->deadline_ns <= *thread->worker->now_ns || start_timer(thread, thread->deadline_ns))
        interrupt(thread->worker, thread, CLAIM_TIMED_OUT);
}

int gs_thread_arm(struct gs_thread *thread, uint64_t deadline_ns)
{
    if (thread_is_mobile(thread))
        return gs_deadline_start(thread, deadline_ns);
    if (thread->timer_ns == GS_NEVER)
        gs_timer_init(&thread->timer, thread->worker->loop, on_timer);
    return start_timer(thread, deadline_ns);
}

void gs_thread_ready_elsewhere(struct gs_thread *thread)
{
    struct worker *worker = gs_worker_or_null();
    if (worker && thread->worker == worker)
        gs_thread_arrive(worker, thread);
    else if (thread_is_mobile(thread))
        gs_thread_move_on(worker, thread);
    else
        gs_worker_send(thread->worker, &thread->run);
}

void gs_thread_arrive(struct worker *worker, struct gs_thread *thread)
{
    if (UNLIKELY(thread_is_mobile(thread))) {
        gs_thread_move_on(worker, thread);
        return;
    }
    if (UNLIKELY(!thread->worker))
        thread_set_worker(thread, worker);
    queue_push(worker, &thread->run);
}

struct leaving {
    struct gs_thread *thread;
    void (*then)(void *);
    void *argument;
};

/* What stands on the stack that was left is no longer there once the thread can be claimed. */
static void publish(void *argument)
{
    const struct leaving leaving = *(const struct leaving *)argument;
    /* Release: pairs with the acquire of whoever claims the thread. */
    atomic_store_explicit(&leaving.thread->claim, CLAIM_WAITING, memory_order_release);
    if (leaving.then)
        leaving.then(leaving.argument);
}

void gs_thread_leave(struct gs_thread *self, void (*then)(void *), void *argument)
{
    struct leaving leaving = {self, then, argument};
    dispatch_then(worker_current(), self, publish, &leaving);
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
    return wait_with(self, lock, wait);
}

int gs_waiters_wait(struct gs_wait_queue *queue, struct gs_waiter *waiter, struct gs_spin *lock,
                    const struct wait *wait)
{
    struct gs_thread *self = thread_current();
    waiter->thread = self;
    waiters_append(queue, waiter);
    int err = wait_with(self, lock, wait);
    if (LIKELY(!err))
        return 0;
    spin_lock(lock);
    if (waiter_is_queued(waiter))
        waiters_remove(queue, waiter);
    spin_unlock(lock);
    return err;
}

int gs_thread_wait_in(struct gs_thread *self, void *object, const struct wait_kind *kind,
                      uint64_t deadline_ns, const void *site)
{
    struct gs_spin *lock = (struct gs_spin *)((char *)object + kind->lock_at);
    const struct wait wait = {kind, object, deadline_ns, kind->is_uninterrupted, site};
    int err = wait_prepare(self, &wait);
    if (err) {
        if (kind->given_up)
            kind->given_up(object, self, true);
        spin_unlock(lock);
        return err;
    }
    struct gs_wait_queue *queue = (struct gs_wait_queue *)((char *)object + kind->queue_at);
    return wait_queued(self, queue, lock, &wait);
}

int gs_thread_sleep(uint64_t deadline_ns)
{
    static const struct wait_kind sleeping = {"sleep", true};
    struct gs_thread *self = thread_current();
    struct worker *worker = self->worker;
    if (deadline_ns <= *worker->now_ns || deadline_ns <= gs_clock_now()) {
        gs_thread_yield();
        return thread_is_canceled(self) ? -ECANCELED : 0;
    }
    int err =
        gs_thread_wait(self, NULL, &(struct wait){.kind = &sleeping, .deadline_ns = deadline_ns});
    return err == -ETIMEDOUT ? 0 : err;
}

/* ---- Park ---- */

/* The thread has left its stack: who unparks it now may run it. */
static void publish_parked(void *argument)
{
    struct gs_thread *thread = argument;
    struct worker *worker = worker_current();
    unsigned none = TOKEN_NONE;
    if (!atomic_compare_exchange_strong(&thread->token, &none, TOKEN_PARKED))
        gs_thread_arrive(worker, thread);
}

int gs_thread_park(uint64_t deadline_ns)
{
    static const struct wait_kind parked = {"park", true};
    struct gs_thread *self = thread_current();
    const struct wait wait = {.kind = &parked, .deadline_ns = deadline_ns};
    if (atomic_exchange(&self->token, TOKEN_NONE) == TOKEN_KEPT)
        return 0;
    int err = wait_prepare(self, &wait);
    if (err)
        return err;
    self->is_token_wait = true;
    err = wait_suspend(self, &wait, publish_parked, self);
    self->is_token_wait = false;
    if (!err)
        atomic_store(&self->token, TOKEN_NONE);
    return err;
}

void gs_thread_unpark(struct gs_thread *thread)
{
    if (atomic_exchange(&thread->token, TOKEN_KEPT) == TOKEN_PARKED)
        gs_thread_ready_elsewhere(thread);
}

void gs_thread_cancel_wait(struct worker *worker, struct gs_thread *thread)
{
    if (thread_is_mobile(thread)) {
        if (gs_deadline_cancel_wait(worker, thread))
            gs_thread_move_on(worker, thread);
    } else if (thread_waits(thread) && thread_is_interruptible(thread))
        interrupt(worker, thread, CLAIM_CANCELED);
}
