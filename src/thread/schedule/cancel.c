/* Cancellation. With one worker, or if the thread does not migrate and the caller runs on its
 * worker, the caller ends the wait itself. Otherwise the thread is put into the list of those that
 * its worker is to cancel, or the caller's if the thread has none. While the worker is stuck, the
 * monitor acts in its place if the thread is mobile and waits.
 *
 *     NONE -- gs_thread_cancel --> SENT -- deliver, deliver_for_stuck, or gs_thread_cancel with
 *                                          no list --> DELIVERED
 *     any -- end of the thread --> FINISHED
 *
 * The list refers to the thread: so a thread that ends while the state is SENT is completed when
 * the worker delivers it. (tests/model/cancel.pml) */
#include "thread/schedule/thread_extra.h"
#include "thread/stack/stacks.h"

#include <assert.h>

/* ---- The list of a worker (tests/model/hand_over.pml) ---- */

static void give(struct worker *worker, struct gs_thread *thread)
{
    struct gs_thread *first = atomic_load_explicit(&worker->canceled, memory_order_relaxed);
    do
        thread->next_canceled = first;
    while (gs_chaos(CHAOS_PUBLISH),
           !atomic_compare_exchange_weak(&worker->canceled, &first, thread));
    gs_chaos(CHAOS_PUBLISH);
    if (!first)
        gs_loop_wake(worker->loop);
}

static void deliver(struct worker *worker, struct gs_thread *thread)
{
    struct worker *owner = __atomic_load_n(&thread->worker, __ATOMIC_SEQ_CST);
    uint8_t sent = CANCEL_SENT;
    gs_chaos(CHAOS_CLAIM);
    if (owner != worker && owner && atomic_load(&thread->cancel) == CANCEL_SENT) {
        give(owner, thread); /* the thread has resumed on another worker */
        return;
    }
    /* Cancel the wait before the state changes: when it is no longer SENT the thread can end, and
     * its control block be reused. */
    if (owner == worker)
        gs_thread_cancel_wait(worker, thread);
    if (!atomic_compare_exchange_strong(&thread->cancel, &sent, CANCEL_DELIVERED))
        gs_thread_complete(worker, thread);
}

/* The whole list is taken. Acquire: pairs with the exchange in `give`, publishing the links. */
static struct gs_thread *take(struct worker *worker)
{
    return atomic_exchange_explicit(&worker->canceled, NULL, memory_order_acquire);
}

static void deliver_all(struct worker *worker, struct runnable *message)
{
    (void)message;
    worker->is_cancel_message_queued = false;
    gs_chaos(CHAOS_STEAL);
    for (struct gs_thread *thread = take(worker), *next; thread; thread = next) {
        next = thread->next_canceled;
        deliver(worker, thread);
    }
}

/* Not at once: the caller may be about to leave its stack, with the lock of an object held. */
void gs_cancels_enqueue(struct worker *worker)
{
    if (worker->is_cancel_message_queued)
        return;
    worker->is_cancel_message_queued = true;
    worker->cancel_message = (struct runnable){.resume = deliver_all, .priority = GS_PRIORITY_HIGH};
    queue_push(worker, &worker->cancel_message);
}

static bool deliver_for_stuck(struct worker *owner, struct gs_thread *thread)
{
    if (!thread_is_mobile(thread) || !gs_mobile_cancel_wait(owner, thread))
        return false;
    atomic_store(&thread->cancel, CANCEL_DELIVERED);
    gs_thread_make_ready_mobile(NULL, thread);
    return true;
}

/* The worker may have resumed, and find its list empty: gs_runtime_enter prevents the search for a
 * deadlock from ending the run. */
void gs_cancels_deliver_for_stuck(struct worker *owner)
{
    if (!atomic_load(&owner->canceled))
        return;
    gs_runtime_enter();
    gs_chaos(CHAOS_STEAL);
    for (struct gs_thread *thread = take(owner), *next; thread; thread = next) {
        next = thread->next_canceled;
        if (!deliver_for_stuck(owner, thread))
            give(owner, thread);
    }
    gs_chaos(CHAOS_PUBLISH);
    gs_runtime_leave();
}

/* ---- One thread ---- */

/* While the state is SENT the thread cannot be completed, so its control block is not reused.
 * Before, it may be that of a thread that has ended, or of a new one. */
bool gs_thread_mark_canceled(struct gs_thread *thread)
{
    uint8_t none = CANCEL_NONE;
    gs_chaos(CHAOS_CLAIM);
    return atomic_compare_exchange_strong(&thread->cancel, &none, CANCEL_SENT);
}

void gs_thread_deliver_cancel(struct worker *worker, struct gs_thread *thread)
{
    assert(worker);
    gs_chaos(CHAOS_PUBLISH);
    struct worker *owner = __atomic_load_n(&thread->worker, __ATOMIC_SEQ_CST);
    gs_chaos(CHAOS_PUBLISH);
    if (!gs_runtime.is_multi || (owner == worker && !thread->migrates)) {
        atomic_store(&thread->cancel, CANCEL_DELIVERED);
        gs_thread_cancel_wait(worker, thread);
        return;
    }
    give(owner ? owner : worker, thread);
}

void gs_thread_cancel(struct gs_thread *thread)
{
    CHECKED_WORKER();
    CHECKED_HANDLE(thread);
    if (gs_thread_mark_canceled(thread))
        gs_thread_deliver_cancel(worker_current(), thread);
}

/* ---- All threads ---- */

static void cancel_live(struct gs_thread *thread, const struct gs_thread *self)
{
    if (thread_is_live(thread) && thread != self)
        gs_thread_cancel(thread);
}

/* A thread that becomes live in the meantime finds canceling_all set, or is found here. */
void gs_threads_cancel_all(void)
{
    CHECKED_THREAD();
    struct gs_thread *self = thread_current(), *thread;
    atomic_fetch_add(&gs_runtime.canceling_all, 1);
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            cancel_live(thread, self);
    spin_lock_always(&gs_runtime.user_stack_lock);
    GS_LIST_FOREACH (link, &gs_runtime.user_stack_threads)
        cancel_live(thread_on_user_stack(link), self);
    spin_unlock_always(&gs_runtime.user_stack_lock);
    atomic_fetch_sub(&gs_runtime.canceling_all, 1);
}

void gs_thread_cancel_new(struct gs_thread *thread)
{
    uint8_t none = CANCEL_NONE;
    /* Relaxed: the thread is published later, when it is made ready. */
    atomic_compare_exchange_strong_explicit(&thread->cancel, &none, CANCEL_DELIVERED,
                                            memory_order_relaxed, memory_order_relaxed);
}

void gs_thread_check_cancel_all(struct gs_thread *thread)
{
    if (atomic_load(&gs_runtime.canceling_all))
        gs_thread_cancel_new(thread);
}

bool gs_thread_is_canceled(void)
{
    CHECKED_THREAD();
    return atomic_load_explicit(&thread_current()->cancel, memory_order_relaxed) != CANCEL_NONE;
}

bool gs_thread_set_cancelable(bool is_cancelable)
{
    CHECKED_THREAD();
    struct gs_thread *self = thread_current();
    bool was = !self->is_uncancelable;
    self->is_uncancelable = !is_cancelable;
    return was;
}
