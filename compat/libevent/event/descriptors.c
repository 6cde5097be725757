/* The events of each descriptor, and their interest. All events of a descriptor share a watcher of
 * the loop, which is adjusted before the wait: adding and deleting events makes no system call.
 *
 * Whenever an event is added, the watcher is set again, because the number may have been closed and
 * opened since: the loop then asks the kernel whether it still refers to the file that it knows. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_EVENTS 0xffff

struct gs_ev_slot *gs_ev_find_slot(const struct event_base *base, int fd)
{
    unsigned chunk = (unsigned)fd / GS_EV_CHUNK;
    if (fd < 0 || chunk >= base->chunk_count || !base->chunks[chunk])
        return NULL;
    return &base->chunks[chunk][fd % GS_EV_CHUNK];
}

/* ---- Events of the kernel ---- */

void gs_ev_activate_io(struct event_base *base, int fd, short events)
{
    struct gs_ev_slot *slot = gs_ev_find_slot(base, fd);
    if (!slot)
        return;
    struct event *event;
    LIST_FOREACH(event, &slot->events, ev_next)
    {
        if (event->ev_events & events & GS_EV_IO)
            gs_ev_activate(event, event->ev_events & events, 1);
    }
}

/* The watcher was stopped: its events stay added, as if the kernel had nothing to report. */
static void on_refused(struct gs_ev_slot *slot)
{
    errno = -gs_io_error(&slot->io);
    gs_ev_warn("Epoll ADD on fd %d failed", slot->io.fd);
    slot->is_watched = slot->is_known = false;
}

static void on_events(struct gs_io *io, unsigned events)
{
    struct gs_ev_slot *slot = gs_container_of(io, struct gs_ev_slot, io);
    struct event_base *base = io->watcher.data;
    if (events & GS_FAILED) {
        on_refused(slot);
        return;
    }
    short happened = EV_ET;
    if (events & GS_HANGUP)
        happened |= EV_CLOSED;
    if (events & GS_READ && !slot->only_closes)
        happened |= EV_READ;
    if (events & GS_WRITE)
        happened |= EV_WRITE;
    gs_ev_activate_io(base, io->fd, happened);
}

/* ---- Slots ---- */

static int grow_chunks(struct event_base *base, unsigned chunk)
{
    unsigned count = base->chunk_count ? base->chunk_count : 8;
    while (count <= chunk)
        count *= 2;
    struct gs_ev_slot **chunks = gs_ev_realloc(base->chunks, count * sizeof(struct gs_ev_slot *));
    if (!chunks)
        return -1;
    for (unsigned i = base->chunk_count; i < count; i++)
        chunks[i] = NULL;
    base->chunks = chunks;
    base->chunk_count = count;
    return 0;
}

/* `changed` has room for every slot. */
static int reserve_changed(struct event_base *base)
{
    unsigned capacity = base->chunk_count * GS_EV_CHUNK;
    if (base->changed_capacity >= capacity)
        return 0;
    int *changed = gs_ev_realloc(base->changed, capacity * sizeof *changed);
    if (!changed)
        return -1;
    base->changed = changed;
    base->changed_capacity = capacity;
    return 0;
}

static struct gs_ev_slot *new_slot(struct event_base *base, int fd)
{
    unsigned chunk = (unsigned)fd / GS_EV_CHUNK;
    if (chunk >= base->chunk_count && grow_chunks(base, chunk))
        return NULL;
    if (reserve_changed(base))
        return NULL;
    struct gs_ev_slot *slots = gs_ev_calloc(GS_EV_CHUNK, sizeof *slots);
    if (!slots)
        return NULL;
    for (int i = 0; i < GS_EV_CHUNK; i++) {
        gs_io_init(&slots[i].io, base->loop, on_events);
        slots[i].io.watcher.data = base;
        slots[i].io.fd = (int)chunk * GS_EV_CHUNK + i;
    }
    base->chunks[chunk] = slots;
    return &slots[fd % GS_EV_CHUNK];
}

void gs_ev_free_slots(struct event_base *base)
{
    for (unsigned i = 0; i < base->chunk_count; i++)
        gs_ev_free(base->chunks[i]);
    gs_ev_free(base->chunks);
    gs_ev_free(base->changed);
}

/* ---- Adding and deleting events ---- */

static void mark_changed(struct event_base *base, struct gs_ev_slot *slot)
{
    if (slot->is_changed)
        return;
    slot->is_changed = true;
    base->changed[base->changed_count++] = slot->io.fd;
    gs_ev_wake(base);
}

static uint32_t epoll_events(short events)
{
    return (events & EV_READ ? EPOLLIN : 0u) | (events & EV_WRITE ? EPOLLOUT : 0u) |
           (events & EV_CLOSED ? EPOLLRDHUP : 0u) | (events & EV_ET ? EPOLLET : 0u);
}

/* Try with a set of its own whether epoll takes the descriptor. Returns 0, or an error of errno. */
static int try_epoll(int fd)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0)
        return 0;
    struct epoll_event event = {.events = EPOLLIN};
    int err = epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
    close(set);
    return err;
}

/* A descriptor that is not open is refused at once, and by epoll also a regular file. */
static int refuse(const struct event_base *base, int fd, short events)
{
    struct stat attributes;
    int err = 0;
    if (fstat(fd, &attributes))
        err = errno;
    else if (base->method == GS_EV_EPOLL && !S_ISSOCK(attributes.st_mode) &&
             !S_ISFIFO(attributes.st_mode))
        err = try_epoll(fd);
    if (!err)
        return 0;
    errno = err;
    if (base->method == GS_EV_EPOLL)
        gs_ev_warn("Epoll ADD(%u) on fd %d failed. Old events were 0; read change was %d (%s); "
                   "write change was %d (%s); close change was %d (%s)",
                   epoll_events(events), fd, events & EV_READ ? 1 : 0,
                   events & EV_READ ? "add" : "none", events & EV_WRITE ? 1 : 0,
                   events & EV_WRITE ? "add" : "none", events & EV_CLOSED ? 1 : 0,
                   events & EV_CLOSED ? "add" : "none");
    errno = err;
    return -1;
}

static void add_to_counts(struct gs_ev_slot *slot, short events, int change)
{
    if (events & EV_READ)
        slot->readers = (uint16_t)(slot->readers + change);
    if (events & EV_WRITE)
        slot->writers = (uint16_t)(slot->writers + change);
    if (events & EV_CLOSED)
        slot->closers = (uint16_t)(slot->closers + change);
    if (!(events & EV_ET))
        slot->levels = (uint16_t)(slot->levels + change);
}

static unsigned interest_of(const struct gs_ev_slot *slot)
{
    return (slot->readers ? EV_READ : 0u) | (slot->writers ? EV_WRITE : 0u) |
           (slot->closers ? EV_CLOSED : 0u);
}

static int count_event(struct gs_ev_slot *slot, const struct event *event)
{
    short events = event->ev_events;
    unsigned most = slot->readers > slot->writers ? slot->readers : slot->writers;
    if (most >= MAX_EVENTS || slot->closers >= MAX_EVENTS) {
        gs_ev_warnx("Too many events reading or writing on fd %d", event->ev_fd);
        return -1;
    }
    const struct event *other = LIST_FIRST(&slot->events);
    if (gs_ev_is_debugging && other && (other->ev_events ^ events) & EV_ET) {
        gs_ev_warnx("Tried to mix edge-triggered and non-edge-triggered events on fd %d",
                    event->ev_fd);
        return -1;
    }
    add_to_counts(slot, events, 1);
    return 0;
}

int gs_ev_insert_io(struct event_base *base, struct event *event)
{
    int fd = event->ev_fd;
    if (fd < 0)
        return 0;
    struct gs_ev_slot *slot = gs_ev_find_slot(base, fd);
    bool is_known = slot && slot->is_known && slot->is_watched;
    if (!is_known && refuse(base, fd, event->ev_events))
        return -1;
    if (!slot && !(slot = new_slot(base, fd)))
        return -1;
    unsigned before = interest_of(slot);
    if (count_event(slot, event))
        return -1;
    slot->is_known = true;
    /* Setting an edge-triggered watcher again reports once more what others were told: that is
     * expected when the interest changes. */
    if (slot->levels || before != interest_of(slot))
        slot->is_set = true;
    LIST_INSERT_HEAD(&slot->events, event, ev_next);
    mark_changed(base, slot);
    return 0;
}

void gs_ev_remove_io(struct event_base *base, struct event *event)
{
    struct gs_ev_slot *slot = event->ev_fd < 0 ? NULL : gs_ev_find_slot(base, event->ev_fd);
    if (!slot)
        return;
    LIST_REMOVE(event, ev_next);
    unsigned before = interest_of(slot);
    add_to_counts(slot, event->ev_events, -1);
    if (!slot->levels && !LIST_EMPTY(&slot->events) && before != interest_of(slot))
        slot->is_set = true;
    mark_changed(base, slot);
}

/* ---- Before the wait ---- */

/* The loop reports the end of a connection with GS_READ only. If nobody reads, it is watched for
 * edges, so that bytes that nobody reads do not end each wait. */
static unsigned wanted_of(struct gs_ev_slot *slot)
{
    unsigned wanted = (slot->readers ? GS_READ : 0u) | (slot->writers ? GS_WRITE : 0u) |
                      (slot->levels ? 0u : GS_EDGE);
    slot->only_closes = slot->closers && !slot->readers;
    if (LIST_EMPTY(&slot->events))
        return 0;
    if (slot->only_closes)
        wanted |= GS_READ | (slot->writers ? 0u : GS_EDGE);
    return wanted;
}

static void settle(struct gs_ev_slot *slot)
{
    unsigned wanted = wanted_of(slot);
    struct gs_io *io = &slot->io;
    if (wanted && slot->is_watched && !slot->is_set && !((wanted ^ io->wanted) & GS_EDGE)) {
        gs_io_set_events(io, wanted);
        return;
    }
    gs_io_stop(io);
    slot->is_watched = false;
    if (!wanted)
        return;
    slot->is_set = false;
    gs_io_set(io, io->fd, wanted);
    int err = gs_io_start(io);
    if (!err) {
        slot->is_watched = true;
        return;
    }
    io->error = (int16_t)err;
    on_refused(slot);
}

void gs_ev_settle_descriptors(struct event_base *base)
{
    for (unsigned i = 0; i < base->changed_count; i++) {
        struct gs_ev_slot *slot = gs_ev_find_slot(base, base->changed[i]);
        slot->is_changed = false;
        settle(slot);
    }
    base->changed_count = 0;
}
