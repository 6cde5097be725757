/* Cancellation and what else belongs to a thread's end. Only a thread's worker may interrupt its wait: others send the worker a
 * message, of which each thread has one. While the worker is stuck the monitor delivers it to mobile threads that wait. The message refers to the thread, so a thread that ends before it comes is completed by
 * it:
 *
 *     NONE --gs_thread_cancel--> SENT --its worker--> DELIVERED        (on the thread's own worker: DELIVERED at once)
 *     any --end of the thread--> FINISHED
 */
#include "thread/stacks.h"

#include <errno.h>
#include <stdlib.h>

static void deliver(struct worker *worker, struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, cancel_message);
    struct worker *owner = __atomic_load_n(&thread->worker, __ATOMIC_SEQ_CST);
    unsigned sent = CANCEL_SENT;
    if (owner != worker && owner && atomic_load(&thread->cancel) == CANCEL_SENT) {
        gs_worker_send(owner, runnable); /* it has gone on elsewhere meanwhile */
        return;
    }
    if (!atomic_compare_exchange_strong(&thread->cancel, &sent, CANCEL_DELIVERED)) {
        gs_thread_complete(worker, thread);
        return;
    }
    if (owner == worker)
        gs_thread_cancel_wait(worker, thread);
}

void gs_thread_init_cancel(struct gs_thread *thread)
{
    thread->cancel_message.resume = deliver;
    thread->cancel_message.item.priority = GS_PRIORITY_HIGH;
    /* Release: pairs with gs_thread_cancel, which may have found the thread that was here before. */
    atomic_store_explicit(&thread->cancel, CANCEL_NONE, memory_order_release);
}

bool gs_cancel_deliver_for(struct worker *owner, struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, cancel_message);
    if (runnable->resume != deliver || !thread_is_mobile(thread) ||
        !gs_deadline_cancel_wait(owner, thread))
        return false;
    atomic_store(&thread->cancel, CANCEL_DELIVERED);
    gs_thread_move_on(NULL, thread);
    return true;
}

/* From when the state is SENT the thread cannot end completely, and what it is now it stays. Before, it may be a thread that has ended,
 * or a new one in its place. */
void gs_thread_cancel(struct gs_thread *thread)
{
    struct worker *worker = worker_current();
    unsigned none = CANCEL_NONE;
    if (!atomic_compare_exchange_strong(&thread->cancel, &none, CANCEL_SENT))
        return;
    struct worker *owner = __atomic_load_n(&thread->worker, __ATOMIC_SEQ_CST);
    if (!gs_runtime.is_multi || (owner == worker && !thread->migrates)) {
        atomic_store(&thread->cancel, CANCEL_DELIVERED);
        gs_thread_cancel_wait(worker, thread);
        return;
    }
    gs_worker_send(owner ? owner : worker, &thread->cancel_message);
}

/* ---- All ---- */

static void cancel_live(struct gs_thread *thread, const struct gs_thread *self)
{
    if (thread_is_live(thread) && thread != self)
        gs_thread_cancel(thread);
}

/* A thread that becomes live meanwhile sees that all are to be cancelled, or is seen here. */
void gs_threads_cancel_all(void)
{
    struct gs_thread *self = thread_current(), *thread;
    atomic_fetch_add(&gs_runtime.canceling_all, 1);
    for (int class = 0; class < STACK_CLASSES; class ++)
        for (size_t i = 0; (thread = gs_stacks_at(class, i)); i++)
            cancel_live(thread, self);
    spin_lock_always(&gs_runtime.caller_lock);
    GS_LIST_EACH(link, &gs_runtime.caller_threads)
    cancel_live(gs_container_of(link, struct gs_thread, link), self);
    spin_unlock_always(&gs_runtime.caller_lock);
    atomic_fetch_sub(&gs_runtime.canceling_all, 1);
}

void gs_thread_canceled_with_all(struct gs_thread *thread)
{
    unsigned none = CANCEL_NONE;
    if (atomic_load(&gs_runtime.canceling_all))
        atomic_compare_exchange_strong(&thread->cancel, &none, CANCEL_DELIVERED);
}

bool gs_thread_is_canceled(void)
{
    return atomic_load_explicit(&thread_current()->cancel, memory_order_relaxed) != CANCEL_NONE;
}

bool gs_thread_set_cancelable(bool is_cancelable)
{
    struct gs_thread *self = thread_current();
    bool was = !self->is_uncancelable;
    self->is_uncancelable = !is_cancelable;
    return was;
}

/* ---- Cleanups ---- */

void gs_cleanup_push(struct gs_cleanup *cleanup, void (*fn)(void *), void *argument)
{
    struct gs_thread *self = thread_current();
    *cleanup = (struct gs_cleanup){.next = self->cleanups, .fn = fn, .argument = argument};
    self->cleanups = cleanup;
}

void gs_cleanup_pop(bool run)
{
    struct gs_thread *self = thread_current();
    struct gs_cleanup *cleanup = self->cleanups;
    self->cleanups = cleanup->next;
    if (run)
        cleanup->fn(cleanup->argument);
}

void gs_thread_run_cleanups(struct gs_thread *thread)
{
    while (thread->cleanups)
        gs_cleanup_pop(true);
}

/* ---- Values by thread ---- */

typedef void destroy_fn(void *value);
static _Atomic(destroy_fn *) destroyers[GS_THREAD_KEYS];
static atomic_int key_count;

/* A destroyer may set values anew; after so many rounds they are left. */
#define ROUNDS 4

int gs_thread_key_new(void (*destroy)(void *value))
{
    int key = atomic_load(&key_count);
    do {
        if (key == GS_THREAD_KEYS)
            return -EAGAIN;
    } while (!atomic_compare_exchange_weak(&key_count, &key, key + 1));
    atomic_store(&destroyers[key], destroy);
    return key;
}

void *gs_thread_value(int key)
{
    const struct gs_thread *self = thread_current();
    return self->values && key >= 0 && key < GS_THREAD_KEYS ? self->values[key] : NULL;
}

int gs_thread_set_value(int key, void *value)
{
    struct gs_thread *self = thread_current();
    if (key < 0 || key >= atomic_load(&key_count))
        return -EINVAL;
    if (!self->values)
        self->values = calloc(GS_THREAD_KEYS, sizeof *self->values);
    if (!self->values)
        return -ENOMEM;
    self->values[key] = value;
    return 0;
}

static bool destroy_round(void **values)
{
    bool is_any = false;
    for (int key = 0; key < GS_THREAD_KEYS; key++) {
        void *value = values[key];
        destroy_fn *destroy = atomic_load(&destroyers[key]);
        values[key] = NULL;
        if (!value || !destroy)
            continue;
        destroy(value);
        is_any = true;
    }
    return is_any;
}

void gs_thread_destroy_values(struct gs_thread *thread)
{
    for (int round = 0; round < ROUNDS && destroy_round(thread->values); round++)
        ;
    free(thread->values);
    thread->values = NULL;
}
