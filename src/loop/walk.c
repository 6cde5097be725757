/* The walk over the active watchers: first all are looked up, then each is visited that is still
 * active. */
#include "loop/state.h"

#include <errno.h>
#include <stdlib.h>

static void each_listed(const struct gs_list *list, gs_walk_fn *visit, void *data)
{
    GS_LIST_EACH(link, list)
    visit(&gs_container_of(link, struct gs_idle, link)->watcher, data);
}

/* What is due but not called yet has left its place: timers the agenda, operations that were
 * cancelled by a close the list of their descriptor. */
static void each_displaced(const struct gs_loop *loop, const struct gs_list *list,
                           gs_walk_fn *visit, void *data)
{
    GS_LIST_EACH(link, list)
    {
        struct gs_watcher *watcher = gs_container_of(link, struct gs_watcher, pending);
        if (watcher->kind == KIND_TIMER && !watcher->index)
            visit(watcher, data);
        if (watcher->kind == KIND_OP && !gs_loop_is_linked_io(loop, (struct gs_io *)watcher))
            visit(watcher, data);
    }
}

static void each_of_descriptors(const struct gs_loop *loop, gs_walk_fn *visit, void *data)
{
    for (unsigned fd = 0; fd < loop->slot_count; fd++)
        for (struct gs_io *io = loop->slots[fd].first; io; io = io->next)
            visit(&io->watcher, data);
    GS_LIST_EACH(link, &loop->children.all)
    {
        struct gs_child *child = gs_container_of(link, struct gs_child, link);
        if (child->io.fd < 0)
            visit(&child->watcher, data);
    }
}

void gs_loop_each(struct gs_loop *loop, gs_walk_fn *visit, void *data)
{
    each_of_descriptors(loop, visit, data);
    for (unsigned p = 0; p < PRIORITIES; p++) {
        each_displaced(loop, &loop->running[p], visit, data);
        each_displaced(loop, &loop->collected[p], visit, data);
    }
    each_displaced(loop, &loop->under_way, visit, data);
    for (uint32_t i = 0; i < gs_agenda_count(&loop->timers); i++)
        visit(gs_container_of(gs_agenda_at(&loop->timers, i), struct gs_watcher, index), data);
    GS_LIST_EACH(link, &loop->periodics.all)
    visit(&gs_container_of(link, struct gs_periodic, link)->watcher, data);
    for (struct gs_signal *signal = loop->signals; signal; signal = signal->next)
        visit(&signal->watcher, data);
    const struct gs_list *lists[] = {&loop->files.all, &loop->idles,   &loop->prepares,
                                     &loop->preparing, &loop->checks,  &loop->asyncs,
                                     &loop->forks,     &loop->cleanups};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        each_listed(lists[i], visit, data);
}

struct snapshot {
    struct gs_watcher **watchers; /* NULL: only count */
    unsigned count, kinds;
};

static void note(struct gs_watcher *watcher, void *data)
{
    struct snapshot *snapshot = data;
    if (watcher->is_internal || !(snapshot->kinds & (unsigned)gs_watcher_kind(watcher)))
        return;
    if (snapshot->watchers)
        snapshot->watchers[snapshot->count] = watcher;
    snapshot->count++;
}

int gs_loop_walk(struct gs_loop *loop, unsigned kinds, gs_walk_fn *visit, void *data)
{
    struct snapshot snapshot = {.kinds = kinds};
    int visited = 0;
    gs_loop_each(loop, note, &snapshot);
    if (!snapshot.count)
        return 0;
    snapshot.watchers = malloc(snapshot.count * sizeof *snapshot.watchers);
    if (!snapshot.watchers)
        return -ENOMEM;
    unsigned count = snapshot.count;
    snapshot.count = 0;
    gs_loop_each(loop, note, &snapshot);
    for (unsigned i = 0; i < count; i++) {
        if (!snapshot.watchers[i]->active)
            continue;
        visit(snapshot.watchers[i], data);
        visited++;
    }
    free(snapshot.watchers);
    return visited;
}
