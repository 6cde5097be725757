/* Descriptors: what their watchers want, and how the kernel comes to know it. */
#include "loop/adder.h"
#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 32
/* So many changes are worth a look for what can be added at once, and so many of those a call. */
#define CHANGED_TOGETHER 64
#define LEAST_TOGETHER 8

static int reserve(struct descriptors *descriptors, unsigned count)
{
    if (count <= descriptors->capacity)
        return 0;
    int *fds = realloc(descriptors->fds, count * sizeof *fds);
    if (!fds)
        return -ENOMEM;
    descriptors->fds = fds;
    descriptors->capacity = count;
    return 0;
}

static int grow(struct gs_loop *loop, unsigned count)
{
    int err = reserve(&loop->changed, count);
    if (!err && loop->poller_state && loop->poller->grow)
        err = loop->poller->grow(loop, count);
    if (err)
        return err;
    struct slot *slots = realloc(loop->slots, count * sizeof *slots);
    if (!slots)
        return -ENOMEM;
    memset(slots + loop->slot_count, 0, (count - loop->slot_count) * sizeof *slots);
    loop->slots = slots;
    loop->slot_count = count;
    return 0;
}

int gs_loop_init_slots(struct gs_loop *loop)
{
    return grow(loop, FIRST_SLOTS);
}

int gs_loop_reserve_slot(struct gs_loop *loop, int fd)
{
    /* Before memory is spent on a number that is none. */
    int err = gs_sys_fcntl(fd, F_GETFD, 0);
    if (err < 0)
        return err;
    unsigned count = loop->slot_count;
    while (count <= (unsigned)fd)
        count *= 2;
    return count == loop->slot_count ? 0 : grow(loop, count);
}

void gs_loop_done_slots(struct gs_loop *loop)
{
    free(loop->slots);
    free(loop->changed.fds);
    free(loop->ready.fds);
}

/* ---- Descriptors that are always ready ---- */

static void pend_all(struct slot *slot)
{
    for (struct gs_io *io = slot->first; io; io = io->next)
        if (io->wanted & READ_WRITE)
            gs_loop_pend(&io->watcher, io->wanted & READ_WRITE);
}

static int list_ready(struct gs_loop *loop, int fd, struct slot *slot)
{
    if (slot->flags & SLOT_LISTED)
        return 0;
    if (loop->ready.count == loop->ready.capacity) {
        int err = reserve(&loop->ready, loop->ready.capacity ? 2 * loop->ready.capacity : 8);
        if (err)
            return err;
    }
    loop->ready.fds[loop->ready.count++] = fd;
    slot->flags |= SLOT_LISTED;
    return 0;
}

bool gs_loop_has_ready(struct gs_loop *loop)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < loop->ready.count; i++) {
        struct slot *slot = &loop->slots[loop->ready.fds[i]];
        if (slot->flags & SLOT_FILE && gs_loop_wanted(slot)) {
            loop->ready.fds[kept++] = loop->ready.fds[i];
            continue;
        }
        if (slot->flags & SLOT_FILE)
            slot->registered = 0;
        slot->flags &= (uint8_t)~(SLOT_FILE | SLOT_LISTED);
    }
    loop->ready.count = kept;
    return kept;
}

void gs_loop_collect_ready(struct gs_loop *loop)
{
    for (unsigned i = 0; i < loop->ready.count; i++)
        if (loop->slots[loop->ready.fds[i]].flags & SLOT_FILE)
            pend_all(&loop->slots[loop->ready.fds[i]]);
}

/* ---- Settling ---- */

static void fail(struct slot *slot, int err)
{
    slot->registered = 0;
    slot->generation++;
    for (struct gs_io *io = slot->first; io; io = io->next) {
        io->error = (int16_t)err;
        gs_loop_pend(&io->watcher, GS_FAILED);
    }
}

static void register_file(struct gs_loop *loop, int fd, struct slot *slot, unsigned wanted)
{
    slot->registered = (uint8_t)(READ_WRITE | (wanted & GS_EDGE));
    if (wanted & GS_EDGE) {
        pend_all(slot);
        return;
    }
    int err = list_ready(loop, fd, slot);
    if (err)
        fail(slot, err);
    else
        slot->flags |= SLOT_FILE;
}

void gs_loop_io_failed(struct gs_loop *loop, struct slot *slot, int err)
{
    unsigned wanted = gs_loop_wanted(slot);
    if (err == -EPERM && wanted)
        register_file(loop, (int)(slot - loop->slots), slot, wanted);
    else
        fail(slot, err);
}

/* Nobody wants anything of it. Should the kernel not find it, because the number is closed while a
 * duplicate lives, then what it reports from now on is recognised as stale. */
static void unregister(struct gs_loop *loop, int fd, struct slot *slot)
{
    slot->flags &= (uint8_t)~SLOT_NARROW;
    if (slot->flags & SLOT_FILE || !slot->registered)
        return;
    loop->poller->set(loop, fd, 0);
    slot->registered = 0;
    slot->generation++;
}

/* What the kernel has registered is enough. More than enough to write is not: sockets can be
 * written to nearly always, so that the next wait would be for nothing. More than enough to read
 * is, until it is reported. */
static bool is_settled(const struct slot *slot, unsigned wanted)
{
    if (slot->flags & SLOT_NARROW)
        return false;
    if (wanted && (slot->flags & SLOT_VERIFY || (wanted ^ slot->registered) & GS_EDGE))
        return false;
    unsigned excess = slot->registered & ~wanted;
    bool is_excess_kept =
        !(excess & GS_WRITE) || slot->registered & GS_EDGE || slot->flags & SLOT_FILE;
    return !(wanted & ~(unsigned)slot->registered) && is_excess_kept;
}

static void settle(struct gs_loop *loop, int fd)
{
    struct slot *slot = &loop->slots[fd];
    slot->flags &= (uint8_t)~SLOT_CHANGED;
    unsigned wanted = gs_loop_wanted(slot);
    bool is_unwanted = !wanted && slot->registered && loop->poller->is_told_of_stops;
    if (!is_unwanted && is_settled(slot, wanted))
        return;
    if (!wanted) {
        unregister(loop, fd, slot);
        return;
    }
    int err = loop->poller->set(loop, fd, wanted);
    slot->flags &= (uint8_t)~(SLOT_VERIFY | SLOT_NARROW | SLOT_FILE);
    if (!err)
        slot->registered = (uint8_t)wanted;
    else if (err == -EPERM)
        register_file(loop, fd, slot, wanted);
    else
        fail(slot, err);
}

/* Whether to add it is all there is to do: the kernel knows nothing of it, or the number is to be
 * verified, and still means the registered file if that is there already. */
static bool is_to_be_added(const struct slot *slot)
{
    unsigned wanted = gs_loop_wanted(slot);
    if (!wanted || slot->flags & (SLOT_NARROW | SLOT_FILE | SLOT_REUSED))
        return false;
    return !slot->registered ||
           (slot->flags & SLOT_VERIFY && wanted == slot->registered && !(wanted & GS_EDGE));
}

/* Add them at once, and put those that are still to be settled back to the front, where `kept` are
 * already. Returns how many are there then. */
static unsigned add(struct gs_loop *loop, const int *fds, unsigned count, unsigned kept)
{
    if (count >= LEAST_TOGETHER)
        loop->poller->add_many(loop, fds, count);
    for (unsigned i = 0; i < count; i++)
        if (loop->slots[fds[i]].flags & SLOT_CHANGED)
            loop->changed.fds[kept++] = fds[i];
    return kept;
}

/* What it takes is opened with the first so many changes, which may all be new, and not when the
 * first number is verified: it must not take a number that is expected to be a certain file's. */
static void add_many(struct gs_loop *loop)
{
    int fds[ADDER_BATCH];
    unsigned count = 0, kept = 0;
    loop->poller->add_many(loop, NULL, 0);
    for (unsigned i = 0; i < loop->changed.count; i++) {
        int fd = loop->changed.fds[i];
        if (!is_to_be_added(&loop->slots[fd])) {
            loop->changed.fds[kept++] = fd;
            continue;
        }
        fds[count++] = fd;
        if (count < ADDER_BATCH)
            continue;
        kept = add(loop, fds, count, kept);
        count = 0;
    }
    loop->changed.count = add(loop, fds, count, kept);
}

void gs_loop_settle(struct gs_loop *loop)
{
    if (UNLIKELY(loop->is_set_stale) && !loop->poller->reopen(loop))
        gs_loop_forget_kernel(loop);
    if (UNLIKELY(loop->changed.count >= CHANGED_TOGETHER) && loop->poller->add_many)
        add_many(loop);
    for (unsigned i = 0; i < loop->changed.count; i++)
        settle(loop, loop->changed.fds[i]);
    loop->changed.count = 0;
}

void gs_loop_forget_kernel(struct gs_loop *loop)
{
    loop->is_set_stale = false;
    loop->set_number++;
    for (unsigned fd = 0; fd < loop->slot_count; fd++) {
        struct slot *slot = &loop->slots[fd];
        if (slot->registered)
            slot->generation++;
        slot->registered = 0;
        slot->flags &= (uint8_t)~(SLOT_FILE | SLOT_REUSED);
        if (slot->first)
            gs_loop_mark_changed(loop, (int)fd, 0);
    }
}

void gs_loop_fd_closed(struct gs_loop *loop, int fd)
{
    if (fd < 0 || (unsigned)fd >= loop->slot_count)
        return;
    struct slot *slot = &loop->slots[fd];
    for (struct gs_io *io = slot->first, *next; io; io = next) {
        next = io->next;
        if (io->watcher.kind == KIND_OP)
            gs_loop_op_closed((struct gs_op *)io);
        else
            gs_io_stop(io);
    }
    if (!slot->registered)
        return;
    if ((loop->has_duplicates || loop->poller->is_told_of_closes) && !(slot->flags & SLOT_FILE))
        loop->poller->set(loop, fd, 0);
    slot->registered = 0;
    slot->generation++;
    slot->flags &= SLOT_CHANGED | SLOT_LISTED | SLOT_REUSED;
}
