/* Cancellation. With one worker, or if the thread does not migrate and the caller runs on its
 * worker, the caller ends the wait itself. Otherwise a message, of which each thread has one, goes
 * to the thread's worker, or to the caller's if the thread has none. While the worker is stuck, the
 * monitor acts in its place if the thread is mobile and waits.
 *
 *     NONE -- gs_thread_cancel --> SENT -- run_cancel_message, gs_cancel_deliver_for_stuck,
 *                                          or gs_thread_cancel without a message --> DELIVERED
 *     any -- end of the thread --> FINISHED
 *
 * The message refers to the thread: so a thread that ends while the state is SENT is completed when
 * the message runs. (tests/model/cancel.pml) */
#include "thread/stack/stacks.h"

#include <errno.h>
#include <stdlib.h>

static void run_cancel_message(struct worker *worker, struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, cancel_message);
    struct worker *owner = __atomic_load_n(&thread->worker, __ATOMIC_SEQ_CST);
    unsigned sent = CANCEL_SENT;
    gs_chaos(CHAOS_CLAIM);
    if (owner != worker && owner && atomic_load(&thread->cancel) == CANCEL_SENT) {
        gs_worker_send(owner, runnable); /* the thread has resumed on another worker */
        return;
    }
    /* Cancel the wait before the state changes: when it is no longer SENT the thread can end, and
     * its control block be reused. */
    if (owner == worker)
        gs_thread_cancel_wait(worker, thread);
    if (!atomic_compare_exchange_strong(&thread->cancel, &sent, CANCEL_DELIVERED))
        gs_thread_complete(worker, thread);
}

void gs_thread_init_cancel(struct gs_thread *thread)
{
    thread->cancel_message.resume = run_cancel_message;
    thread->cancel_message.priority = GS_PRIORITY_HIGH;
    /* Release: pairs with gs_thread_cancel, which may have found the previous thread in this
     * control block. */
    atomic_store_explicit(&thread->cancel, CANCEL_NONE, memory_order_release);
}

bool gs_cancel_deliver_for_stuck(struct worker *owner, struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, cancel_message);
    if (runnable->resume != run_cancel_message || !thread_is_mobile(thread) ||
        !gs_mobile_cancel_wait(owner, thread))
        return false;
    atomic_store(&thread->cancel, CANCEL_DELIVERED);
    gs_thread_make_ready_mobile(NULL, thread);
    return true;
}

/* While the state is SENT the thread cannot be completed, so its control block is not reused.
 * Before, it may be that of a thread that has ended, or of a new one. */
bool gs_thread_mark_canceled(struct gs_thread *thread)
{
    unsigned none = CANCEL_NONE;
    gs_chaos(CHAOS_CLAIM);
    return atomic_compare_exchange_strong(&thread->cancel, &none, CANCEL_SENT);
}

void gs_thread_deliver_cancel(struct worker *worker, struct gs_thread *thread)
{
    gs_chaos(CHAOS_PUBLISH);
    struct worker *owner = __atomic_load_n(&thread->worker, __ATOMIC_SEQ_CST);
    gs_chaos(CHAOS_PUBLISH);
    if (!gs_runtime.is_multi || (owner == worker && !thread->migrates)) {
        atomic_store(&thread->cancel, CANCEL_DELIVERED);
        gs_thread_cancel_wait(worker, thread);
        return;
    }
    gs_worker_send(owner ? owner : worker, &thread->cancel_message);
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
        cancel_live(gs_container_of(link, struct gs_thread, link), self);
    spin_unlock_always(&gs_runtime.user_stack_lock);
    atomic_fetch_sub(&gs_runtime.canceling_all, 1);
}

void gs_thread_check_cancel_all(struct gs_thread *thread)
{
    unsigned none = CANCEL_NONE;
    /* Relaxed: the thread is published later, when it is made ready. */
    if (atomic_load(&gs_runtime.canceling_all))
        atomic_compare_exchange_strong_explicit(&thread->cancel, &none, CANCEL_DELIVERED,
                                                memory_order_relaxed, memory_order_relaxed);
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
