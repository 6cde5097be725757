/* The invariants of state.h, asserted by their numbers. */
#include "loop/state.h"

#include <assert.h>

#ifdef NDEBUG

void gs_loop_check(struct gs_loop *loop)
{
    (void)loop;
}

#else

#define HOLDS(number_, condition_) assert((condition_) && "invariant " #number_)

static uint32_t check_pending(struct gs_list *list, int *references)
{
    uint32_t timers_out_of_heap = 0;
    GS_LIST_EACH(link, list)
    {
        const struct gs_watcher *watcher = gs_container_of(link, struct gs_watcher, pending);
        HOLDS(1, watcher->active);
        if (watcher->kind != KIND_TIMER || watcher->index)
            continue;
        timers_out_of_heap++;
        *references += !watcher->unreferenced;
    }
    return timers_out_of_heap;
}

static void check_timers(const struct gs_loop *loop, uint32_t out_of_heap, int *references)
{
    gs_heap_check(&loop->timers);
    HOLDS(7, loop->timers.count + out_of_heap == loop->active_timers);
    HOLDS(9, loop->timers.capacity >= loop->active_timers);
    for (uint32_t i = 0; i < loop->timers.count; i++) {
        const struct gs_heap_node *node = gs_heap_first(&loop->timers) + i;
        const struct gs_timer *timer = gs_container_of(node->place, struct gs_timer, watcher.index);
        HOLDS(7, timer->watcher.active);
        HOLDS(8, node->key <= timer->deadline_ns);
        *references += !timer->watcher.unreferenced;
    }
}

/* Returns how many of the list's descriptors have the flag. */
static unsigned count_flagged(const struct gs_loop *loop, const struct descriptors *list,
                              unsigned flag)
{
    unsigned count = 0;
    for (unsigned i = 0; i < list->count; i++)
        count += !!(loop->slots[list->fds[i]].flags & flag);
    return count;
}

static void check_slot(const struct slot *slot, int fd, int *references)
{
    unsigned wanted = 0;
    bool is_failed = false;
    for (const struct gs_io *io = slot->first; io; io = io->next) {
        HOLDS(3, io->watcher.active && io->fd == fd);
        *references += !io->watcher.unreferenced;
        wanted |= io->wanted & READ_WRITE;
        is_failed |= io->watcher.events & GS_FAILED;
    }
    if (!(slot->flags & SLOT_CHANGED) && !is_failed)
        HOLDS(5, !(wanted & ~(unsigned)slot->registered));
}

static void check_slots(const struct gs_loop *loop, int *references)
{
    unsigned changed = 0, listed = 0;
    for (unsigned fd = 0; fd < loop->slot_count; fd++) {
        const struct slot *slot = &loop->slots[fd];
        check_slot(slot, (int)fd, references);
        changed += !!(slot->flags & SLOT_CHANGED);
        listed += !!(slot->flags & SLOT_LISTED);
    }
    HOLDS(4, changed == loop->changed.count);
    HOLDS(4, changed == count_flagged(loop, &loop->changed, SLOT_CHANGED));
    HOLDS(6, listed == loop->ready.count);
    HOLDS(6, listed == count_flagged(loop, &loop->ready, SLOT_LISTED));
}

/* Cancelled operations have left their slot: they are found among the pending. */
static int count_cancelled(const struct gs_list *list, const struct gs_loop *loop)
{
    int references = 0;
    GS_LIST_EACH(link, list)
    {
        const struct gs_io *io = gs_container_of(link, struct gs_io, watcher.pending);
        if (io->watcher.kind != KIND_OP)
            continue;
        const struct gs_io *listed = loop->slots[io->fd].first;
        while (listed && listed != io)
            listed = listed->next;
        references += !listed && !io->watcher.unreferenced;
    }
    return references;
}

static int count_listed(const struct gs_list *list)
{
    int references = 0;
    GS_LIST_EACH(link, list)
    references += !gs_container_of(link, struct gs_idle, link)->watcher.unreferenced;
    return references;
}

void gs_loop_check(struct gs_loop *loop)
{
    int references = 0;
    uint32_t out_of_heap = 0;
    for (unsigned p = 0; p < PRIORITIES; p++) {
        out_of_heap += check_pending(&loop->collected[p], &references);
        out_of_heap += check_pending(&loop->running[p], &references);
        references += count_cancelled(&loop->collected[p], loop);
        references += count_cancelled(&loop->running[p], loop);
    }
    check_timers(loop, out_of_heap, &references);
    check_slots(loop, &references);
    for (const struct gs_signal *signal = loop->signals; signal; signal = signal->next)
        references += !signal->watcher.unreferenced;
    references += count_listed(&loop->idles) + count_listed(&loop->prepares);
    references += count_listed(&loop->preparing) + count_listed(&loop->checks);
    references += count_listed(&loop->asyncs);
    HOLDS(2, references == loop->references);
}

#endif
