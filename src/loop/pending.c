#include "loop/state.h"

#define CACHE_LINE 64

void gs_loop_pend_first(struct gs_watcher *watcher)
{
    struct gs_list *list = &watcher->loop->collected[watcher->priority + 2];
    if (gs_list_is_linked(&watcher->pending))
        return;
    gs_list_prepend(list, &watcher->pending);
    watcher->loop->collected_mask |= 1u << (watcher->priority + 2);
}

bool gs_loop_has_pending(struct gs_loop *loop)
{
    for (unsigned p = 0; loop->collected_mask >> p; p++)
        if (!gs_list_is_empty(&loop->collected[p]))
            return true;
    loop->collected_mask = 0;
    return false;
}

/* Those still to be called in an iteration that this one is nested in come first. */
static void begin_calls(struct gs_loop *loop)
{
    for (unsigned p = 0; loop->collected_mask >> p; p++)
        gs_list_append_all(&loop->running[p], &loop->collected[p]);
    loop->running_mask |= loop->collected_mask;
    loop->collected_mask = 0;
}

void gs_loop_fetch_ahead(struct gs_loop *loop, size_t before, size_t after)
{
    loop->fetched_before = before;
    loop->fetched_after = after;
}

static void fetch(const struct gs_loop *loop, const struct gs_list *link)
{
    uintptr_t watcher = (uintptr_t)gs_container_of(link, struct gs_watcher, pending);
    uintptr_t end = watcher + loop->fetched_after;
    for (uintptr_t line = watcher - loop->fetched_before; line < end; line += CACHE_LINE)
        __builtin_prefetch((const void *)line, 1);
}

void gs_loop_call_pending(struct gs_loop *loop)
{
    begin_calls(loop);
    while (loop->running_mask) {
        unsigned p = 31u - (unsigned)__builtin_clz(loop->running_mask);
        struct gs_list *link = gs_list_first(&loop->running[p]);
        if (link == &loop->running[p]) {
            loop->running_mask &= ~(1u << p);
            continue;
        }
        struct gs_watcher *watcher = gs_container_of(link, struct gs_watcher, pending);
        fetch(loop, link->next);
        gs_list_remove(link);
        unsigned events = watcher->events;
        watcher->events = 0;
        loop->counts.callbacks++;
        if (LIKELY(watcher->kind <= KIND_OP && !(events & GS_FAILED))) {
            struct gs_io *io = (struct gs_io *)watcher;
            io->callback(io, events);
        } else {
            gs_loop_call(watcher, events);
        }
    }
}
