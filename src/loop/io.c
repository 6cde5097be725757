#include "loop/state.h"

#include <assert.h>
#include <errno.h>

void gs_io_init(struct gs_io *io, struct gs_loop *loop, gs_io_fn *callback)
{
    *io = (struct gs_io){
        .watcher = {.loop = loop, .kind = KIND_IO},
        .callback = callback,
        .fd = -1,
    };
}

void gs_io_set(struct gs_io *io, int fd, unsigned wanted)
{
    assert(!io->watcher.active && !(wanted & ~(unsigned)(READ_WRITE | GS_EDGE)));
    io->fd = fd;
    io->wanted = (uint8_t)wanted;
    io->is_anew = true;
}

/* What was reported by an edge is dropped: the kernel must be asked to report it again. */
static void drop_events(struct gs_io *io, struct slot *slot, unsigned dropped)
{
    if (io->wanted & GS_EDGE && io->watcher.events & dropped & READ_WRITE)
        slot->flags |= SLOT_VERIFY;
}

void gs_io_want(struct gs_io *io, unsigned wanted)
{
    assert(!(wanted & ~(unsigned)(READ_WRITE | GS_EDGE)));
    unsigned before = io->wanted;
    if (before == wanted)
        return;
    io->wanted = (uint8_t)wanted;
    if (!io->watcher.active)
        return;
    struct slot *slot = &io->watcher.loop->slots[io->fd];
    assert(!(wanted & GS_EDGE) || (slot->first == io && !io->next));
    drop_events(io, slot, ~wanted);
    unsigned kept = io->watcher.events & (wanted | GS_HANGUP | GS_FAILED);
    io->watcher.events = (uint8_t)kept;
    if (!(kept & (READ_WRITE | GS_FAILED)))
        gs_loop_unpend(&io->watcher);
    gs_loop_mark_changed(io->watcher.loop, io->fd, 0);
}

int gs_io_start(struct gs_io *io)
{
    struct gs_loop *loop = io->watcher.loop;
    if (io->watcher.active)
        return 0;
    if (io->fd < 0)
        return -EBADF;
    if (UNLIKELY((unsigned)io->fd >= loop->slot_count)) {
        int err = gs_loop_reserve_slot(loop, io->fd);
        if (err)
            return err;
    }
    struct slot *slot = &loop->slots[io->fd];
    if (slot->first && (slot->first->wanted | io->wanted) & GS_EDGE)
        return -EBUSY;
    io->next = slot->first;
    slot->first = io;
    gs_loop_activate(&io->watcher);
    if (io->is_anew || slot->flags & SLOT_VERIFY || (io->wanted ^ slot->registered) & GS_EDGE ||
        io->wanted & ~(unsigned)slot->registered)
        gs_loop_mark_changed(loop, io->fd, io->is_anew ? SLOT_VERIFY : 0);
    io->is_anew = false;
    return 0;
}

void gs_loop_unlink_io(struct gs_io *io)
{
    struct gs_io **link = &io->watcher.loop->slots[io->fd].first;
    while (*link && *link != io)
        link = &(*link)->next;
    if (*link)
        *link = io->next;
}

void gs_io_stop(struct gs_io *io)
{
    struct gs_loop *loop = io->watcher.loop;
    if (!io->watcher.active)
        return;
    struct slot *slot = &loop->slots[io->fd];
    gs_loop_unlink_io(io);
    drop_events(io, slot, READ_WRITE);
    if (slot->registered & (loop->poller->is_told_of_stops ? READ_WRITE : io->wanted & GS_WRITE))
        gs_loop_mark_changed(loop, io->fd, 0);
    gs_loop_deactivate(&io->watcher);
}

int gs_io_error(const struct gs_io *io)
{
    return io->error;
}
