/* Wake-ups from other threads: asyncs, and ending the loop's wait.
 *
 * An async's index is 1 from gs_async_send until its callback is about to be called. The sender
 * that finds 0 links the async into mailbox.sent_asyncs; until it is collected from there, its
 * `pending` link belongs to that list. Each step is a read-modify-write, so that the loop's step
 * synchronizes with every send that it coalesces: the callback sees what was written before any of
 * them. (tests/model/async.pml; tests/model/inbox.pml models the wait.) */
#include "base/chaos.h"
#include "loop/state.h"

#include <gossamer/sys.h>

void gs_loop_wake_if_asleep(struct gs_loop *loop)
{
    const uint64_t one = 1;
    gs_chaos(CHAOS_WAKE);
    if (atomic_load(&loop->mailbox.asleep) && atomic_exchange(&loop->mailbox.asleep, false))
        (void)gs_sys_write(loop->wake_fd, &one, sizeof one);
}

void gs_loop_wake(struct gs_loop *loop)
{
    CHECKED_ANY_LOOP(loop);
    atomic_exchange(&loop->mailbox.woken, true);
    gs_loop_wake_if_asleep(loop);
}

bool gs_loop_has_messages(struct gs_loop *loop)
{
    struct mailbox *mailbox = &loop->mailbox;
    return atomic_load(&mailbox->woken) || atomic_load(&mailbox->sent_asyncs) ||
           atomic_load(&mailbox->caught_signals);
}

bool gs_loop_try_sleep(struct gs_loop *loop)
{
    gs_chaos(CHAOS_PARK);
    atomic_exchange(&loop->mailbox.asleep, true);
    gs_chaos(CHAOS_PARK);
    return !gs_loop_has_messages(loop);
}

void gs_loop_end_sleep(struct gs_loop *loop)
{
    struct mailbox *mailbox = &loop->mailbox;
    gs_chaos(CHAOS_RETURN);
    atomic_store_explicit(&mailbox->asleep, false, memory_order_relaxed);
    /* Acquire: pairs with the store in gs_loop_wake, publishing what was written before it. */
    if (UNLIKELY(atomic_load_explicit(&mailbox->woken, memory_order_relaxed)))
        atomic_exchange_explicit(&mailbox->woken, false, memory_order_acquire);
}

static _Atomic(uint32_t) *state_of(struct gs_async *async)
{
    return (_Atomic(uint32_t) *)&async->watcher.index;
}

void gs_async_init(struct gs_async *async, struct gs_loop *loop, gs_async_fn *callback)
{
    CHECKED_INIT(&async->watcher);
    *async = (struct gs_async){
        .watcher = {.loop = loop, .kind = KIND_ASYNC},
        .callback = callback,
    };
}

void gs_async_start(struct gs_async *async)
{
    CHECKED_START(&async->watcher, KIND_ASYNC);
    if (async->watcher.active)
        return;
    gs_list_append(&async->watcher.loop->asyncs, &async->link);
    gs_loop_activate(&async->watcher);
}

void gs_async_stop(struct gs_async *async)
{
    CHECKED_STOP(&async->watcher);
    if (!async->watcher.active)
        return;
    gs_loop_collect_asyncs(async->watcher.loop);
    gs_list_remove(&async->link);
    gs_loop_deactivate(&async->watcher);
    atomic_store_explicit(state_of(async), 0, memory_order_relaxed);
}

void gs_async_send(struct gs_async *async)
{
    CHECKED_ANY_LOOP(async->watcher.loop);
    struct gs_loop *loop = async->watcher.loop;
    if (atomic_exchange(state_of(async), 1))
        return;
    struct gs_list *link = &async->watcher.pending;
    gs_chaos(CHAOS_PUBLISH);
    link->next = atomic_load_explicit(&loop->mailbox.sent_asyncs, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&loop->mailbox.sent_asyncs, &link->next, link))
        ;
    gs_loop_wake_if_asleep(loop);
}

/* Take all sent asyncs, and reverse the list: the first one sent is called first. */
static struct gs_list *take_sent(struct gs_loop *loop)
{
    /* Acquire: pairs with the compare-and-exchange in gs_async_send, publishing the links. */
    struct gs_list *taken =
        atomic_exchange_explicit(&loop->mailbox.sent_asyncs, NULL, memory_order_acquire);
    struct gs_list *first = NULL;
    gs_chaos(CHAOS_STEAL);
    while (taken) {
        struct gs_list *next = taken->next;
        taken->next = first;
        first = taken;
        taken = next;
    }
    return first;
}

void gs_loop_collect_asyncs(struct gs_loop *loop)
{
    if (LIKELY(!atomic_load_explicit(&loop->mailbox.sent_asyncs, memory_order_relaxed)))
        return;
    for (struct gs_list *link = take_sent(loop), *next; link; link = next) {
        struct gs_async *async = gs_container_of(link, struct gs_async, watcher.pending);
        next = link->next;
        link->next = NULL;
        if (async->watcher.active)
            gs_loop_set_pending(&async->watcher, 0);
        else /* Relaxed: its callback is not called. */
            atomic_store_explicit(state_of(async), 0, memory_order_relaxed);
    }
}

void gs_loop_async_received(struct gs_async *async)
{
    atomic_exchange(state_of(async), 0);
}
