/* Operations on watchers of any kind: call, stop, walk. */
#include "loop/state.h"

#include <assert.h>
#include <errno.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <stdlib.h>

#define BIT_IS_OF(bit_, kind_)                                                                     \
    _Static_assert((unsigned)(bit_) == 1u << (unsigned)(kind_), "the bit of " #kind_)
BIT_IS_OF(GS_WATCHER_IO, KIND_IO);
BIT_IS_OF(GS_WATCHER_CHILD, KIND_CHILD);
BIT_IS_OF(GS_WATCHER_EMBED, KIND_EMBED);
BIT_IS_OF(GS_WATCHER_OP, KIND_OP);
BIT_IS_OF(GS_WATCHER_TIMER, KIND_TIMER);
BIT_IS_OF(GS_WATCHER_PERIODIC, KIND_PERIODIC);
BIT_IS_OF(GS_WATCHER_SIGNAL, KIND_SIGNAL);
BIT_IS_OF(GS_WATCHER_FILE, KIND_FILE);
BIT_IS_OF(GS_WATCHER_IDLE, KIND_IDLE);
BIT_IS_OF(GS_WATCHER_PREPARE, KIND_PREPARE);
BIT_IS_OF(GS_WATCHER_CHECK, KIND_CHECK);
BIT_IS_OF(GS_WATCHER_ASYNC, KIND_ASYNC);
BIT_IS_OF(GS_WATCHER_FORK, KIND_FORK);
BIT_IS_OF(GS_WATCHER_CLEANUP, KIND_CLEANUP);
BIT_IS_OF(GS_WATCHER_WORK, KIND_WORK);

#define FITS(kind_, bytes_)                                                                        \
    _Static_assert(sizeof(struct gs_##kind_) <= (bytes_), #kind_ " is too large")
FITS(io, 64);
FITS(timer, 64);
FITS(signal, 64);
FITS(idle, 64);
FITS(prepare, 64);
FITS(check, 64);
FITS(async, 64);
FITS(fork, 64);
FITS(loop_cleanup, 64);
FITS(periodic, 96);
FITS(child, 96);
FITS(work, 96);

void gs_watcher_set_priority(struct gs_watcher *watcher, int priority)
{
    CHECKED(!watcher->active, "watcher %p is active", (void *)watcher);
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
    if (!watcher->active || watcher->kind == KIND_WORK)
        return;
    if (watcher->kind == KIND_ASYNC)
        gs_async_send((struct gs_async *)watcher);
    else if (watcher->kind == KIND_FILE)
        gs_loop_set_pending(watcher, events | FED);
    else
        gs_loop_set_pending(watcher, watcher->kind == KIND_CHILD ? FED : events);
}

void gs_loop_stop_watcher(struct gs_watcher *watcher)
{
    switch ((enum kind)watcher->kind) {
    case KIND_IO:
        gs_io_stop((struct gs_io *)watcher);
        break;
    case KIND_CHILD:
        gs_child_stop((struct gs_child *)watcher);
        break;
    case KIND_EMBED:
        gs_embed_stop((struct gs_embed *)watcher);
        break;
    case KIND_OP:
        gs_loop_op_stop((struct gs_op *)watcher);
        break;
    case KIND_TIMER:
        gs_timer_stop((struct gs_timer *)watcher);
        break;
    case KIND_PERIODIC:
        gs_periodic_stop((struct gs_periodic *)watcher);
        break;
    case KIND_SIGNAL:
        gs_signal_stop((struct gs_signal *)watcher);
        break;
    case KIND_FILE:
        gs_file_stop((struct gs_file *)watcher);
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
    case KIND_ASYNC:
        gs_async_stop((struct gs_async *)watcher);
        break;
    case KIND_FORK:
        gs_fork_stop((struct gs_fork *)watcher);
        break;
    case KIND_CLEANUP:
        gs_loop_cleanup_stop((struct gs_loop_cleanup *)watcher);
        break;
    case KIND_WORK:
        gs_loop_stop_work((struct gs_work *)watcher);
        break;
    }
}

void gs_loop_call(struct gs_watcher *watcher, unsigned events)
{
    switch ((enum kind)watcher->kind) {
    case KIND_IO:
    case KIND_CHILD:
    case KIND_EMBED:
    case KIND_OP:
        if (events & GS_FAILED)
            gs_io_stop((struct gs_io *)watcher);
        ((struct gs_io *)watcher)->callback((struct gs_io *)watcher, events);
        break;
    case KIND_TIMER:
        gs_loop_timer_expired((struct gs_timer *)watcher);
        ((struct gs_timer *)watcher)->callback((struct gs_timer *)watcher);
        break;
    case KIND_PERIODIC:
        gs_loop_periodic_expired((struct gs_periodic *)watcher);
        ((struct gs_periodic *)watcher)->callback((struct gs_periodic *)watcher);
        break;
    case KIND_SIGNAL:
        ((struct gs_signal *)watcher)->callback((struct gs_signal *)watcher);
        break;
    case KIND_FILE:
        gs_loop_call_file((struct gs_file *)watcher, events);
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
    case KIND_ASYNC:
        gs_loop_async_received((struct gs_async *)watcher);
        ((struct gs_async *)watcher)->callback((struct gs_async *)watcher);
        break;
    case KIND_FORK:
        ((struct gs_fork *)watcher)->callback((struct gs_fork *)watcher);
        break;
    case KIND_CLEANUP:
        ((struct gs_loop_cleanup *)watcher)->callback((struct gs_loop_cleanup *)watcher);
        break;
    case KIND_WORK:
        gs_loop_work_done((struct gs_work *)watcher);
        break;
    }
}

/* ---- Internal watchers ---- */

void gs_loop_init_internal(struct gs_io *io, struct gs_loop *loop)
{
    gs_io_init(io, loop, NULL);
    io->watcher.is_internal = io->watcher.unreferenced = true;
}

int gs_loop_open_internal(struct gs_io *io, int fd)
{
    gs_io_set(io, fd, GS_READ);
    int err = gs_io_start(io);
    if (err)
        gs_own_descriptor_close(fd);
    return err;
}

void gs_loop_close_internal(struct gs_io *io)
{
    if (!io->watcher.active)
        return;
    gs_io_stop(io);
    gs_loop_fd_closed(io->watcher.loop, io->fd);
    gs_own_descriptor_close(io->fd);
    io->fd = -1;
}

bool gs_loop_consume_internal(struct gs_watcher *watcher)
{
    if (LIKELY(!gs_list_is_linked(&watcher->pending)))
        return false;
    gs_loop_clear_pending(watcher);
    return true;
}

/* ---- The walk over the active watchers ---- */

static void visit_listed(const struct gs_list *list, gs_walk_fn *visit, void *data)
{
    GS_LIST_FOREACH (link, list)
        visit(&gs_container_of(link, struct gs_idle, link)->watcher, data);
}

/* Visit pending watchers that have left their data structure: timers the timer queue, and
 * operations that were cancelled by a close the list of their descriptor. */
static void visit_displaced(const struct gs_loop *loop, const struct gs_list *list,
                            gs_walk_fn *visit, void *data)
{
    GS_LIST_FOREACH (link, list) {
        struct gs_watcher *watcher = gs_container_of(link, struct gs_watcher, pending);
        if (watcher->kind == KIND_TIMER && !watcher->index)
            visit(watcher, data);
        if (watcher->kind == KIND_OP && !gs_loop_is_linked_io(loop, (struct gs_io *)watcher))
            visit(watcher, data);
    }
}

static void visit_descriptors(const struct gs_loop *loop, gs_walk_fn *visit, void *data)
{
    for (unsigned fd = 0; fd < loop->slot_count; fd++)
        for (struct gs_io *io = loop->slots[fd].first; io; io = io->next)
            visit(&io->watcher, data);
    GS_LIST_FOREACH (link, &loop->children.all) {
        struct gs_child *child = gs_container_of(link, struct gs_child, link);
        if (child->io.fd < 0)
            visit(&child->watcher, data);
    }
}

void gs_loop_for_each(struct gs_loop *loop, gs_walk_fn *visit, void *data)
{
    visit_descriptors(loop, visit, data);
    for (unsigned p = 0; p < PRIORITIES; p++) {
        visit_displaced(loop, &loop->running[p], visit, data);
        visit_displaced(loop, &loop->collected[p], visit, data);
    }
    visit_displaced(loop, &loop->active_ops, visit, data);
    for (uint32_t i = 0; i < gs_timer_queue_count(&loop->timers); i++)
        visit(gs_container_of(gs_timer_queue_at(&loop->timers, i), struct gs_watcher, index), data);
    GS_LIST_FOREACH (link, &loop->periodics.all)
        visit(&gs_container_of(link, struct gs_periodic, link)->watcher, data);
    for (struct gs_signal *signal = loop->signals; signal; signal = signal->next)
        visit(&signal->watcher, data);
    const struct gs_list *lists[] = {&loop->files.all, &loop->idles,   &loop->prepares,
                                     &loop->preparing, &loop->checks,  &loop->asyncs,
                                     &loop->forks,     &loop->cleanups};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        visit_listed(lists[i], visit, data);
}

struct snapshot {
    struct gs_watcher **watchers; /* NULL: count only */
    unsigned count, kinds;
};

static void add_to_snapshot(struct gs_watcher *watcher, void *data)
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
    CHECKED_LOOP(loop);
    struct snapshot snapshot = {.kinds = kinds};
    int visited = 0;
    gs_loop_for_each(loop, add_to_snapshot, &snapshot);
    if (!snapshot.count)
        return 0;
    snapshot.watchers = malloc(snapshot.count * sizeof *snapshot.watchers);
    if (!snapshot.watchers)
        return -ENOMEM;
    unsigned count = snapshot.count;
    snapshot.count = 0;
    gs_loop_for_each(loop, add_to_snapshot, &snapshot);
    for (unsigned i = 0; i < count; i++) {
        if (!snapshot.watchers[i]->active)
            continue;
        visit(snapshot.watchers[i], data);
        visited++;
    }
    free(snapshot.watchers);
    return visited;
}

/* ---- Stop all ---- */

static void stop_pending(struct gs_list *list)
{
    while (!gs_list_is_empty(list))
        gs_loop_stop_watcher(gs_container_of(gs_list_first(list), struct gs_watcher, pending));
}

static void stop_listed(struct gs_list *list)
{
    while (!gs_list_is_empty(list))
        gs_loop_stop_watcher(&gs_container_of(gs_list_first(list), struct gs_idle, link)->watcher);
}

/* Periodics, children and files are stopped first: they stop the internal descriptor watchers that
 * they own. */
void gs_loop_stop_watchers(struct gs_loop *loop)
{
    gs_loop_collect_asyncs(loop);
    while (!gs_list_is_empty(&loop->periodics.all))
        gs_periodic_stop(
            gs_container_of(gs_list_first(&loop->periodics.all), struct gs_periodic, link));
    gs_loop_stop_children(loop);
    stop_listed(&loop->files.all);
    for (unsigned p = 0; p < PRIORITIES; p++) {
        stop_pending(&loop->collected[p]);
        stop_pending(&loop->running[p]);
    }
    stop_pending(&loop->active_ops);
    for (unsigned fd = 0; fd < loop->slot_count; fd++)
        while (loop->slots[fd].first)
            gs_loop_stop_watcher(&loop->slots[fd].first->watcher);
    while (gs_timer_queue_count(&loop->timers))
        gs_loop_stop_watcher(
            gs_container_of(gs_timer_queue_at(&loop->timers, 0), struct gs_watcher, index));
    while (loop->signals)
        gs_signal_stop(loop->signals);
    struct gs_list *lists[] = {&loop->idles,  &loop->prepares, &loop->preparing, &loop->checks,
                               &loop->asyncs, &loop->forks,    &loop->cleanups};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        stop_listed(lists[i]);
}
