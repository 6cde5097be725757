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

static uint32_t check_pending(const struct gs_list *list)
{
    uint32_t timers_elsewhere = 0;
    GS_LIST_FOREACH (link, list) {
        const struct gs_watcher *watcher = gs_container_of(link, struct gs_watcher, pending);
        HOLDS(1, watcher->active);
        timers_elsewhere += watcher->kind == KIND_TIMER && !watcher->index;
    }
    return timers_elsewhere;
}

static void check_timers(const struct gs_loop *loop, uint32_t elsewhere)
{
    const struct gs_timer_queue *queue = &loop->timers;
    gs_timer_queue_check(queue);
    HOLDS(7, gs_timer_queue_count(queue) + elsewhere == loop->active_timers);
    HOLDS(9, queue->reserved >= loop->active_timers);
    for (uint32_t i = 0; i < gs_timer_queue_count(queue); i++) {
        const uint32_t *index = gs_timer_queue_at(queue, i);
        const struct gs_timer *timer = gs_container_of(index, struct gs_timer, watcher.index);
        HOLDS(7, timer->watcher.active);
        HOLDS(8, gs_timer_queue_key(queue, *index) <= timer->deadline_ns);
    }
}

static void check_periodics(const struct gs_loop *loop)
{
    const struct gs_heap *heap = &loop->periodics.heap;
    uint32_t in_heap = 0;
    gs_heap_check(heap);
    GS_LIST_FOREACH (link, &loop->periodics.all) {
        const struct gs_periodic *periodic = gs_container_of(link, struct gs_periodic, link);
        HOLDS(10, periodic->watcher.index || gs_list_is_linked(&periodic->watcher.pending));
        if (!periodic->watcher.index)
            continue;
        HOLDS(10, heap->nodes[periodic->watcher.index].key == periodic->at_ns);
        in_heap++;
    }
    HOLDS(10, in_heap == heap->count);
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

static void check_slot(const struct slot *slot, int fd)
{
    unsigned wanted = 0;
    bool is_failed = false;
    for (const struct gs_io *io = slot->first; io; io = io->next) {
        HOLDS(3, io->watcher.active && io->fd == fd);
        wanted |= io->wanted & READ_WRITE;
        is_failed |= io->watcher.events & GS_FAILED;
    }
    if (!(slot->flags & SLOT_CHANGED) && !is_failed)
        HOLDS(5, !(wanted & ~(unsigned)slot->registered));
}

static void check_slots(const struct gs_loop *loop)
{
    unsigned changed = 0, listed = 0;
    for (unsigned fd = 0; fd < loop->slot_count; fd++) {
        const struct slot *slot = &loop->slots[fd];
        check_slot(slot, (int)fd);
        changed += !!(slot->flags & SLOT_CHANGED);
        listed += !!(slot->flags & SLOT_IN_READY);
    }
    HOLDS(4, changed == loop->changed.count);
    HOLDS(4, changed == count_flagged(loop, &loop->changed, SLOT_CHANGED));
    HOLDS(6, listed == loop->ready.count);
    HOLDS(6, listed == count_flagged(loop, &loop->ready, SLOT_IN_READY));
}

struct counts {
    int references;
    unsigned special;
};

static void count(struct gs_watcher *watcher, void *data)
{
    struct counts *counts = data;
    HOLDS(2, watcher->active);
    counts->references += !watcher->unreferenced;
    counts->special += watcher->kind == KIND_PERIODIC || watcher->kind == KIND_CHILD ||
                       watcher->kind == KIND_FILE || watcher->kind == KIND_EMBED;
}

void gs_loop_check(struct gs_loop *loop)
{
    struct counts counts = {0};
    uint32_t timers_elsewhere = 0;
    for (unsigned p = 0; p < PRIORITIES; p++) {
        timers_elsewhere += check_pending(&loop->collected[p]);
        timers_elsewhere += check_pending(&loop->running[p]);
    }
    check_timers(loop, timers_elsewhere);
    check_periodics(loop);
    check_slots(loop);
    gs_loop_for_each(loop, count, &counts);
    HOLDS(2, counts.references == loop->references);
    HOLDS(11, counts.special == loop->special_count);
}

#endif
