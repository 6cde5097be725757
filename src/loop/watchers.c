/* What holds for watchers of any kind. */
#include "loop/state.h"

#include <assert.h>

void gs_watcher_set_priority(struct gs_watcher *watcher, int priority)
{
    assert(!watcher->active && priority >= -2 && priority <= 2);
    watcher->priority = (int8_t)priority;
}

void gs_watcher_unref(struct gs_watcher *watcher)
{
    if (watcher->active && !watcher->unreferenced)
        watcher->loop->references--;
    watcher->unreferenced = true;
}

void gs_watcher_ref(struct gs_watcher *watcher)
{
    if (watcher->active && watcher->unreferenced)
        watcher->loop->references++;
    watcher->unreferenced = false;
}

void gs_watcher_feed(struct gs_watcher *watcher, unsigned events)
{
    if (!watcher->active)
        return;
    if (watcher->kind == KIND_ASYNC)
        gs_async_send((struct gs_async *)watcher);
    else
        gs_loop_pend(watcher, events);
}

static void stop(struct gs_watcher *watcher)
{
    switch ((enum kind)watcher->kind) {
    case KIND_IO:
        gs_io_stop((struct gs_io *)watcher);
        break;
    case KIND_OP:
        gs_loop_op_abandon((struct gs_op *)watcher);
        break;
    case KIND_TIMER:
        gs_timer_stop((struct gs_timer *)watcher);
        break;
    case KIND_SIGNAL:
        gs_signal_stop((struct gs_signal *)watcher);
        break;
    case KIND_ASYNC:
        gs_async_stop((struct gs_async *)watcher);
        break;
    case KIND_IDLE:
        gs_idle_stop((struct gs_idle *)watcher);
        break;
    case KIND_PREPARE:
        gs_prepare_stop((struct gs_prepare *)watcher);
        break;
    case KIND_CHECK:
        gs_check_stop((struct gs_check *)watcher);
        break;
    }
}

void gs_loop_call(struct gs_watcher *watcher, unsigned events)
{
    switch ((enum kind)watcher->kind) {
    case KIND_IO:
    case KIND_OP:
        if (events & GS_FAILED)
            gs_io_stop((struct gs_io *)watcher);
        ((struct gs_io *)watcher)->callback((struct gs_io *)watcher, events);
        break;
    case KIND_TIMER:
        gs_loop_timer_fires((struct gs_timer *)watcher);
        ((struct gs_timer *)watcher)->callback((struct gs_timer *)watcher);
        break;
    case KIND_SIGNAL:
        ((struct gs_signal *)watcher)->callback((struct gs_signal *)watcher);
        break;
    case KIND_ASYNC:
        gs_loop_async_received((struct gs_async *)watcher);
        ((struct gs_async *)watcher)->callback((struct gs_async *)watcher);
        break;
    case KIND_IDLE:
        ((struct gs_idle *)watcher)->callback((struct gs_idle *)watcher);
        break;
    case KIND_PREPARE:
        ((struct gs_prepare *)watcher)->callback((struct gs_prepare *)watcher);
        break;
    case KIND_CHECK:
        ((struct gs_check *)watcher)->callback((struct gs_check *)watcher);
        break;
    }
}

static void stop_pending(struct gs_list *list)
{
    while (!gs_list_is_empty(list))
        stop(gs_container_of(gs_list_first(list), struct gs_watcher, pending));
}

static void stop_listed(struct gs_list *list)
{
    while (!gs_list_is_empty(list))
        stop(&gs_container_of(gs_list_first(list), struct gs_idle, link)->watcher);
}

void gs_loop_stop_all(struct gs_loop *loop)
{
    gs_loop_collect_asyncs(loop);
    for (unsigned p = 0; p < PRIORITIES; p++) {
        stop_pending(&loop->collected[p]);
        stop_pending(&loop->running[p]);
    }
    for (unsigned fd = 0; fd < loop->slot_count; fd++)
        while (loop->slots[fd].first)
            stop(&loop->slots[fd].first->watcher);
    while (loop->timers.count)
        stop(gs_container_of(gs_heap_first(&loop->timers)->place, struct gs_watcher, index));
    while (loop->signals)
        stop(&loop->signals->watcher);
    stop_listed(&loop->idles);
    stop_listed(&loop->prepares);
    stop_listed(&loop->preparing);
    stop_listed(&loop->checks);
    stop_listed(&loop->asyncs);
}
