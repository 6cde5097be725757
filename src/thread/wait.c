/* Waiting: what every blocking call comes down to. A thread's timer stays active when a wait ends early: the next deadline is
 * usually later, and then costs one store; a timer that goes off too early is set anew. */
#include "thread/wait.h"
#include "thread/waiters.h"

#include <errno.h>

void gs_thread_unlock(void *lock)
{
    spin_unlock_always(lock);
}

static void time_out(struct worker *worker, struct gs_thread *thread)
{
    unsigned parked = TOKEN_PARKED;
    if (thread->is_token_wait &&
        !atomic_compare_exchange_strong(&thread->token, &parked, TOKEN_NONE))
        return;
    if (thread_claim(thread, CLAIM_TIMED_OUT))
        gs_thread_arrive(worker, thread);
}

static void on_timer(struct gs_timer *timer)
{
    struct gs_thread *thread = gs_container_of(timer, struct gs_thread, timer);
    if (atomic_load_explicit(&thread->claim, memory_order_relaxed) != CLAIM_WAITING ||
        thread->deadline_ns == GS_NEVER)
        return;
    /* Without memory for the timer, rather too early than never. */
    if (thread->deadline_ns <= *thread->worker->now_ns ||
        gs_timer_start(timer, thread->deadline_ns))
        time_out(thread->worker, thread);
}

int gs_thread_arm(struct gs_thread *thread, uint64_t deadline_ns)
{
    struct gs_timer *timer = &thread->timer;
    if (timer->watcher.active && timer->deadline_ns <= deadline_ns)
        return 0;
    if (!timer->watcher.active)
        gs_timer_init(timer, thread->worker->loop, on_timer);
    return gs_timer_start(timer, deadline_ns);
}

void gs_thread_ready_elsewhere(struct gs_thread *thread)
{
    struct worker *worker = gs_worker_or_null();
    if (worker && thread->worker == worker)
        gs_thread_arrive(worker, thread);
    else
        gs_worker_send(thread->worker, &thread->run);
}

void gs_thread_arrive(struct worker *worker, struct gs_thread *thread)
{
    if (UNLIKELY(!thread->worker))
        thread_set_worker(thread, worker);
    if (LIKELY(!thread->migrates || !gs_runtime.is_multi)) {
        queue_push(worker, &thread->run);
        return;
    }
    gs_timer_stop(&thread->timer);
    gs_worker_share(worker, thread);
}

int gs_thread_wait_then(struct gs_thread *self, void (*then)(void *), void *argument,
                        const struct wait *wait)
{
    int err = wait_prepare(self, wait);
    if (UNLIKELY(err)) {
        then(argument);
        return err;
    }
    atomic_store_explicit(&self->claim, CLAIM_WAITING, memory_order_relaxed);
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
    if (waiter->is_queued)
        waiters_remove(queue, waiter);
    spin_unlock(lock);
    return err;
}

bool gs_waiters_wake(struct gs_wait_queue *queue)
{
    struct gs_waiter *waiter = waiters_claim(queue);
    if (!waiter)
        return false;
    thread_ready(worker_current(), waiter->thread);
    return true;
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
    atomic_store_explicit(&self->claim, CLAIM_WAITING, memory_order_relaxed);
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
    unsigned parked = TOKEN_PARKED;
    if (atomic_load_explicit(&thread->claim, memory_order_relaxed) != CLAIM_WAITING ||
        thread->is_uncancelable || thread->is_wait_uninterrupted)
        return;
    if (thread->is_token_wait &&
        !atomic_compare_exchange_strong(&thread->token, &parked, TOKEN_NONE))
        return;
    if (thread_claim(thread, CLAIM_CANCELED))
        gs_thread_arrive(worker, thread);
}
