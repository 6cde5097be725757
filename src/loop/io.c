/* Descriptor watchers, and the interest in descriptors that is registered with the kernel. Each
 * descriptor has a slot: the list of its watchers and what the kernel watches. */
#include "loop/epoll_batch.h"
#include "loop/state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 32
/* With fewer changes than BATCH_THRESHOLD, or fewer additions than BATCH_MIN among a batch of them,
 * each descriptor is registered by a call of its own. */
#define BATCH_THRESHOLD 64
#define BATCH_MIN 8

/* ---- Watchers ---- */

void gs_io_init(struct gs_io *io, struct gs_loop *loop, gs_io_fn *callback)
{
    CHECKED_INIT(&io->watcher);
    *io = (struct gs_io){
        .watcher = {.loop = loop, .kind = KIND_IO},
        .callback = callback,
        .fd = -1,
    };
}

void gs_io_set(struct gs_io *io, int fd, unsigned wanted)
{
    CHECKED(!io->watcher.active, "watcher %p is active", (void *)io);
    assert(!io->watcher.active && !(wanted & ~(unsigned)(INTEREST | GS_EDGE)));
    io->fd = fd;
    io->wanted = (uint8_t)wanted;
    io->needs_verify = true;
}

/* If an edge that was reported is dropped, the kernel must be asked to report it again. */
static void drop_events(struct gs_io *io, struct slot *slot, unsigned dropped)
{
    if (io->wanted & GS_EDGE && io->watcher.events & dropped & INTEREST)
        slot->flags |= SLOT_VERIFY;
}

void gs_io_set_events(struct gs_io *io, unsigned wanted)
{
    CHECKED_STOP(&io->watcher);
    assert(!(wanted & ~(unsigned)(INTEREST | GS_EDGE)));
    unsigned before = io->wanted;
    if (before == wanted)
        return;
    io->wanted = (uint8_t)wanted;
    if (!io->watcher.active)
        return;
    struct slot *slot = &io->watcher.loop->slots[io->fd];
    assert(!(wanted & GS_EDGE) || (slot->first == io && !io->next));
    drop_events(io, slot, before & ~wanted);
    unsigned kept = io->watcher.events & (wanted | GS_HANGUP | GS_URGENT | GS_FAILED);
    io->watcher.events = (uint8_t)kept;
    if (!(kept & (wanted | GS_FAILED)))
        gs_loop_clear_pending(&io->watcher);
    gs_loop_mark_changed(io->watcher.loop, io->fd, 0);
}

int gs_io_start(struct gs_io *io)
{
    CHECKED_START(&io->watcher, KIND_IO);
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
    if (io->needs_verify || slot->flags & SLOT_VERIFY ||
        (io->wanted ^ slot->registered) & GS_EDGE || io->wanted & ~(unsigned)slot->registered)
        gs_loop_mark_changed(loop, io->fd, io->needs_verify ? SLOT_VERIFY : 0);
    CHECKED_UNVERIFIED(io);
    io->needs_verify = false;
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
    CHECKED_STOP(&io->watcher);
    struct gs_loop *loop = io->watcher.loop;
    if (!io->watcher.active)
        return;
    struct slot *slot = &loop->slots[io->fd];
    gs_loop_unlink_io(io);
    drop_events(io, slot, io->wanted);
    if (slot->registered & (loop->poller->needs_stop ? INTEREST : io->wanted & GS_WRITE))
        gs_loop_mark_changed(loop, io->fd, 0);
    gs_loop_deactivate(&io->watcher);
}

int gs_io_error(const struct gs_io *io)
{
    return io->error;
}

void gs_io_verify(struct gs_io *io)
{
    if (io->watcher.active)
        gs_loop_mark_changed(io->watcher.loop, io->fd, SLOT_VERIFY);
}

unsigned gs_io_files(const struct gs_io *io)
{
    const struct gs_loop *loop = io->watcher.loop;
    return (unsigned)io->fd < loop->slot_count ? loop->slots[io->fd].files : 0;
}

/* ---- Slots ---- */

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
    /* Do not allocate memory for a number that is not open. */
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

static void set_all_pending(struct slot *slot)
{
    for (struct gs_io *io = slot->first; io; io = io->next)
        if (io->wanted & READ_WRITE)
            gs_loop_set_pending(&io->watcher, io->wanted & READ_WRITE);
}

static int list_ready(struct gs_loop *loop, int fd, struct slot *slot)
{
    if (slot->flags & SLOT_IN_READY)
        return 0;
    if (loop->ready.count == loop->ready.capacity) {
        int err = reserve(&loop->ready, loop->ready.capacity ? 2 * loop->ready.capacity : 8);
        if (err)
            return err;
    }
    loop->ready.fds[loop->ready.count++] = fd;
    slot->flags |= SLOT_IN_READY;
    return 0;
}

bool gs_loop_has_ready(struct gs_loop *loop)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < loop->ready.count; i++) {
        struct slot *slot = &loop->slots[loop->ready.fds[i]];
        if (slot->flags & SLOT_ALWAYS_READY && gs_loop_wanted(slot)) {
            loop->ready.fds[kept++] = loop->ready.fds[i];
            continue;
        }
        if (slot->flags & SLOT_ALWAYS_READY)
            slot->registered = 0;
        slot->flags &= (uint8_t)~(SLOT_ALWAYS_READY | SLOT_IN_READY);
    }
    loop->ready.count = kept;
    return kept;
}

void gs_loop_collect_ready(struct gs_loop *loop)
{
    for (unsigned i = 0; i < loop->ready.count; i++)
        if (loop->slots[loop->ready.fds[i]].flags & SLOT_ALWAYS_READY)
            set_all_pending(&loop->slots[loop->ready.fds[i]]);
}

/* ---- Registration with the kernel ---- */

static void fail_slot(struct slot *slot, int err)
{
    slot->registered = 0;
    slot->generation++;
    for (struct gs_io *io = slot->first; io; io = io->next) {
        io->error = (int16_t)err;
        gs_loop_set_pending(&io->watcher, GS_FAILED);
    }
}

static void register_file(struct gs_loop *loop, int fd, struct slot *slot, unsigned wanted)
{
    slot->registered = (uint8_t)(READ_WRITE | (wanted & GS_EDGE));
    if (wanted & GS_EDGE) {
        set_all_pending(slot);
        return;
    }
    int err = list_ready(loop, fd, slot);
    if (err)
        fail_slot(slot, err);
    else
        slot->flags |= SLOT_ALWAYS_READY;
}

void gs_loop_io_failed(struct gs_loop *loop, struct slot *slot, int err)
{
    unsigned wanted = gs_loop_wanted(slot);
    if (err == -EPERM && wanted)
        register_file(loop, (int)(slot - loop->slots), slot, wanted);
    else
        fail_slot(slot, err);
}

/* No watcher wants the descriptor. If the kernel does not find the registration, because the number
 * was closed while a duplicate is open, its later events are recognised as stale. */
static void unregister(struct gs_loop *loop, int fd, struct slot *slot)
{
    slot->flags &= (uint8_t)~SLOT_SPURIOUS;
    if (slot->flags & SLOT_ALWAYS_READY || !slot->registered)
        return;
    loop->poller->set(loop, fd, 0);
    slot->registered = 0;
    slot->generation++;
}

/* Whether the registration can stay as it is. It may include GS_READ that no watcher wants, until
 * the kernel reports it. It must not include GS_WRITE that no watcher wants: sockets are nearly
 * always writable, so the next wait would return at once. */
static bool is_applied(const struct slot *slot, unsigned wanted)
{
    if (slot->flags & SLOT_SPURIOUS)
        return false;
    if (wanted && (slot->flags & SLOT_VERIFY || (wanted ^ slot->registered) & GS_EDGE))
        return false;
    unsigned excess = slot->registered & ~wanted;
    bool is_excess_kept =
        !(excess & GS_WRITE) || slot->registered & GS_EDGE || slot->flags & SLOT_ALWAYS_READY;
    return !(wanted & ~(unsigned)slot->registered) && is_excess_kept;
}

static void apply_change(struct gs_loop *loop, int fd)
{
    struct slot *slot = &loop->slots[fd];
    slot->flags &= (uint8_t)~SLOT_CHANGED;
    unsigned wanted = gs_loop_wanted(slot);
    bool is_unwanted = !wanted && slot->registered && loop->poller->needs_stop;
    if (!is_unwanted && is_applied(slot, wanted))
        return;
    if (!wanted) {
        unregister(loop, fd, slot);
        return;
    }
    int err = loop->poller->set(loop, fd, wanted);
    slot->flags &= (uint8_t)~(SLOT_VERIFY | SLOT_SPURIOUS | SLOT_ALWAYS_READY);
    if (!err)
        slot->registered = (uint8_t)wanted;
    else if (err == -EPERM)
        register_file(loop, fd, slot, wanted);
    else
        fail_slot(slot, err);
}

/* Whether EPOLL_CTL_ADD alone is enough: the descriptor is not registered, or its number is to be
 * verified, and -EEXIST means that it still refers to the registered file. */
static bool can_be_added(const struct slot *slot)
{
    unsigned wanted = gs_loop_wanted(slot);
    if (!wanted || slot->flags & (SLOT_SPURIOUS | SLOT_ALWAYS_READY | SLOT_REUSED))
        return false;
    return !slot->registered ||
           (slot->flags & SLOT_VERIFY && wanted == slot->registered && !(wanted & GS_EDGE));
}

/* Add a batch of descriptors, and move those that remain changed to the front of `changed`, after
 * the first `kept`. Returns how many are there now. */
static unsigned add_batch(struct gs_loop *loop, const int *fds, unsigned count, unsigned kept)
{
    if (count >= BATCH_MIN)
        loop->poller->add_many(loop, fds, count);
    for (unsigned i = 0; i < count; i++)
        if (loop->slots[fds[i]].flags & SLOT_CHANGED)
            loop->changed.fds[kept++] = fds[i];
    return kept;
}

/* Register many descriptors in batches. The first call only opens the batch, before a number is
 * verified: the batch must not get a number that is expected to refer to a watched file. */
static void add_many(struct gs_loop *loop)
{
    int fds[EPOLL_BATCH_SIZE];
    unsigned count = 0, kept = 0;
    loop->poller->add_many(loop, NULL, 0);
    for (unsigned i = 0; i < loop->changed.count; i++) {
        int fd = loop->changed.fds[i];
        if (!can_be_added(&loop->slots[fd])) {
            loop->changed.fds[kept++] = fd;
            continue;
        }
        fds[count++] = fd;
        if (count < EPOLL_BATCH_SIZE)
            continue;
        kept = add_batch(loop, fds, count, kept);
        count = 0;
    }
    loop->changed.count = add_batch(loop, fds, count, kept);
}

/* Whether the descriptor is not registered, and its only watcher is pending: it was fed. */
static bool is_fed(const struct slot *slot)
{
    return !slot->registered && slot->first && !slot->first->next &&
           gs_list_is_linked(&slot->first->watcher.pending);
}

/* The wait will end at once, and pending watchers are called before the next one. A descriptor
 * whose watcher may stop then is not registered before, but stays in `changed`. */
static void apply_all_but_fed(struct gs_loop *loop)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < loop->changed.count; i++) {
        int fd = loop->changed.fds[i];
        if (is_fed(&loop->slots[fd]))
            loop->changed.fds[kept++] = fd;
        else
            apply_change(loop, fd);
    }
    loop->changed.count = kept;
}

void gs_loop_apply_changes(struct gs_loop *loop)
{
    CHECKED_CHANGES(loop);
    if (UNLIKELY(loop->needs_reopen) && !loop->poller->reopen(loop))
        gs_loop_clear_registrations(loop);
    if (UNLIKELY(loop->collected_mask) && gs_loop_has_pending(loop)) {
        apply_all_but_fed(loop);
        return;
    }
    if (UNLIKELY(loop->changed.count >= BATCH_THRESHOLD) && loop->poller->add_many)
        add_many(loop);
    for (unsigned i = 0; i < loop->changed.count; i++)
        apply_change(loop, loop->changed.fds[i]);
    loop->changed.count = 0;
}

void gs_loop_clear_registrations(struct gs_loop *loop)
{
    loop->needs_reopen = false;
    loop->poller_generation++;
    for (unsigned fd = 0; fd < loop->slot_count; fd++) {
        struct slot *slot = &loop->slots[fd];
        if (slot->registered)
            slot->generation++;
        slot->registered = 0;
        slot->flags &= (uint8_t)~(SLOT_ALWAYS_READY | SLOT_REUSED);
        if (slot->first)
            gs_loop_mark_changed(loop, (int)fd, 0);
    }
}

void gs_loop_fd_closed(struct gs_loop *loop, int fd)
{
    CHECKED_LOOP(loop);
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
    if ((loop->has_duplicates || loop->poller->needs_close) && !(slot->flags & SLOT_ALWAYS_READY))
        loop->poller->set(loop, fd, 0);
    slot->registered = 0;
    slot->generation++;
    slot->flags &= SLOT_CHANGED | SLOT_IN_READY | SLOT_REUSED;
}
