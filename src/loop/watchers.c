/* What holds for watchers of any kind. */
#include "loop/state.h"

#include <assert.h>
#include <gossamer/sys.h>

#define BIT_IS_OF(bit_, kind_)                                                                     \
    _Static_assert((unsigned)(bit_) == 1u << (unsigned)(kind_), "the bit of " #kind_)
BIT_IS_OF(GS_KIND_IO, KIND_IO);
BIT_IS_OF(GS_KIND_CHILD, KIND_CHILD);
BIT_IS_OF(GS_KIND_EMBED, KIND_EMBED);
BIT_IS_OF(GS_KIND_OP, KIND_OP);
BIT_IS_OF(GS_KIND_TIMER, KIND_TIMER);
BIT_IS_OF(GS_KIND_PERIODIC, KIND_PERIODIC);
BIT_IS_OF(GS_KIND_SIGNAL, KIND_SIGNAL);
BIT_IS_OF(GS_KIND_FILE, KIND_FILE);
BIT_IS_OF(GS_KIND_IDLE, KIND_IDLE);
BIT_IS_OF(GS_KIND_PREPARE, KIND_PREPARE);
BIT_IS_OF(GS_KIND_CHECK, KIND_CHECK);
BIT_IS_OF(GS_KIND_ASYNC, KIND_ASYNC);
BIT_IS_OF(GS_KIND_FORK, KIND_FORK);
BIT_IS_OF(GS_KIND_CLEANUP, KIND_CLEANUP);

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
    else if (watcher->kind == KIND_FILE)
        gs_loop_pend(watcher, events | FED);
    else
        gs_loop_pend(watcher, watcher->kind == KIND_CHILD ? FED : events);
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
        gs_loop_op_abandon((struct gs_op *)watcher);
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
        gs_loop_timer_fires((struct gs_timer *)watcher);
        ((struct gs_timer *)watcher)->callback((struct gs_timer *)watcher);
        break;
    case KIND_PERIODIC:
        gs_loop_periodic_fires((struct gs_periodic *)watcher);
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
    }
}

/* ---- The loop's own watchers ---- */

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
        gs_sys_close(fd);
    return err;
}

void gs_loop_close_internal(struct gs_io *io)
{
    if (!io->watcher.active)
        return;
    gs_io_stop(io);
    gs_loop_fd_closed(io->watcher.loop, io->fd);
    gs_sys_close(io->fd);
    io->fd = -1;
}

bool gs_loop_take_internal(struct gs_watcher *watcher)
{
    if (LIKELY(!gs_list_is_linked(&watcher->pending)))
        return false;
    gs_loop_unpend(watcher);
    return true;
}

/* ---- The end ---- */

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

/* Those of descriptors also stop the periodics, children and so on that they belong to. */
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
    stop_pending(&loop->under_way);
    for (unsigned fd = 0; fd < loop->slot_count; fd++)
        while (loop->slots[fd].first)
            gs_loop_stop_watcher(&loop->slots[fd].first->watcher);
    while (gs_agenda_count(&loop->timers))
        gs_loop_stop_watcher(
            gs_container_of(gs_agenda_at(&loop->timers, 0), struct gs_watcher, index));
    while (loop->signals)
        gs_signal_stop(loop->signals);
    struct gs_list *lists[] = {&loop->idles,  &loop->prepares, &loop->preparing, &loop->checks,
                               &loop->asyncs, &loop->forks,    &loop->cleanups};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        stop_listed(lists[i]);
}
