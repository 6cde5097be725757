/* The events of each descriptor, and their interest. All events of a descriptor share a watcher of
 * the loop, which is adjusted before the wait: adding and deleting events makes no system call that
 * changes the kernel's interest.
 *
 * Programs close descriptors whose events are added, and get the number again for another file.
 * Then the old events are strays: they stay added, and get nothing until they are added again. What
 * tells that the file is another one:
 *   - The first time that an assigned event is added, the file is identified.
 *   - Later, the watcher is set again, so the loop asks the kernel whether the number still refers
 *     to the file that it knows. What it finds is seen when the descriptor is reported
 *     (gs_io_files): events that were added at that time belong to the new file, those before are
 *     strays. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_EVENTS 0xffff

static inline struct gs_ev_slot *slot_of(const struct event_base *base, int fd)
{
    unsigned chunk = (unsigned)fd / GS_EV_CHUNK;
    if (fd < 0 || chunk >= base->chunk_count || !base->chunks[chunk])
        return NULL;
    return &base->chunks[chunk][fd % GS_EV_CHUNK];
}

static inline void mark_changed(struct event_base *base, struct gs_ev_slot *slot)
{
    if (slot->is_changed)
        return;
    slot->is_changed = true;
    base->changed[base->changed_count++] = slot;
    if (base->lock)
        gs_ev_wake(base);
}

void gs_ev_leave_vacated(struct event_base *base)
{
    struct gs_ev_slot *slot = base->vacated;
    base->vacated = NULL;
    if (!slot)
        return;
    LIST_INIT(&slot->events);
    slot->readers = slot->writers = slot->closers = 0;
    slot->interest = 0;
    mark_changed(base, slot);
}

struct gs_ev_slot *gs_ev_find_slot(struct event_base *base, int fd)
{
    gs_ev_leave_vacated(base);
    return slot_of(base, fd);
}

/* ---- Files ---- */

/* Add a file that is no socket to a set of its own that nobody waits for: it is in the set already
 * if this number referred to it before. Returns 0 if not, or an error of errno. */
static int add_to_identities(struct event_base *base, int fd)
{
    if (base->identities < 0)
        base->identities = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLET};
    if (base->identities < 0)
        return EEXIST;
    return epoll_ctl(base->identities, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

/* Find out which file the number refers to. Returns 0, or an error of errno: it is not open, or
 * epoll does not take it. */
static int identify(struct event_base *base, struct gs_ev_slot *slot, bool *ret_is_other)
{
    struct stat attributes;
    int fd = slot->fd;
    if (fstat(fd, &attributes))
        return errno;
    int err = S_ISSOCK(attributes.st_mode) ? EEXIST : add_to_identities(base, fd);
    if (err && err != EEXIST && base->method == GS_EV_EPOLL)
        return err;
    *ret_is_other = !err || slot->inode != attributes.st_ino;
    slot->inode = attributes.st_ino;
    slot->identified = base->settlings;
    return 0;
}

static void add_to_counts(struct gs_ev_slot *slot, short events, int change)
{
    if (events & EV_READ)
        slot->readers = (uint16_t)(slot->readers + change);
    if (events & EV_WRITE)
        slot->writers = (uint16_t)(slot->writers + change);
    if (events & EV_CLOSED)
        slot->closers = (uint16_t)(slot->closers + change);
    slot->interest = (uint8_t)((slot->readers ? EV_READ : 0u) | (slot->writers ? EV_WRITE : 0u) |
                               (slot->closers ? EV_CLOSED : 0u));
}

/* The number refers to another file. Events that were added at `kept_since` or later belong to it.
 */
static void part_from_strays(struct event_base *base, struct gs_ev_slot *slot, uint32_t kept_since)
{
    slot->file += slot->file == UINT32_MAX ? 2 : 1;
    struct event *event, *next;
    for (event = LIST_FIRST(&slot->events); event; event = next) {
        next = LIST_NEXT(event, ev_next);
        if ((int32_t)(event->ev_added - kept_since) >= 0) {
            event->ev_file = slot->file;
            continue;
        }
        LIST_REMOVE(event, ev_next);
        add_to_counts(slot, event->ev_events, -1);
        event->ev_file = 0;
        LIST_INSERT_HEAD(&base->strays, event, ev_next);
    }
    mark_changed(base, slot);
}

/* Whether the interest was passed on before the current wait. */
static bool is_settling(const struct event_base *base, const struct gs_ev_slot *slot)
{
    return base->is_settling && slot->settled + 1 == base->settlings;
}

/* Whether the loop has registered files since the last wait; the thread that runs the base. */
static bool has_new_files(const struct event_base *base)
{
    struct gs_loop_counts counts;
    gs_loop_counts(base->loop, &counts);
    return counts.files != base->files;
}

/* After the interest was passed on: if the loop has registered a file that was not identified
 * before, which one? */
static void see_file(struct event_base *base, struct gs_ev_slot *slot)
{
    uint8_t files = (uint8_t)gs_io_files(&slot->io);
    if (files == slot->files)
        return;
    slot->files = files;
    bool is_other;
    if (slot->identified == slot->settled || identify(base, slot, &is_other))
        return;
    slot->identified = slot->settled;
    if (is_other)
        part_from_strays(base, slot, slot->settled);
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

/* The watcher was stopped. Events that were added to a descriptor without events would have been
 * refused at once, had the kernel been asked then; others stay added, as strays. */
static void on_refused(struct event_base *base, struct gs_ev_slot *slot)
{
    errno = -gs_io_error(&slot->io);
    gs_ev_warn("Epoll ADD on fd %d failed", slot->fd);
    slot->is_watched = false;
    bool were_added_unseen = slot->began == slot->settled && slot->identified != slot->settled;
    struct event *event;
    while (were_added_unseen && (event = gs_ev_first_of(base, slot)))
        gs_ev_del(event, GS_EV_NEVER_BLOCKS);
    if (gs_ev_first_of(base, slot))
        part_from_strays(base, slot, base->settlings + 1);
}

/* As in libevent, edge-triggered events of other methods are level-triggered. */
static bool has_edges(const struct event_base *base)
{
    return event_base_get_features(base) & EV_FEATURE_ET;
}

static void on_events(struct gs_io *io, unsigned events)
{
    struct gs_ev_slot *slot = gs_container_of(io, struct gs_ev_slot, io);
    struct event_base *base = io->watcher.data;
    gs_ev_leave_vacated(base);
    if (events & GS_FAILED) {
        on_refused(base, slot);
        return;
    }
    if (is_settling(base, slot) && has_new_files(base))
        see_file(base, slot);
    short happened = has_edges(base) ? EV_ET : 0;
    if (events & GS_HANGUP)
        happened |= EV_CLOSED;
    if (events & GS_READ)
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

static int reserve_list(struct gs_ev_slot ***list, unsigned capacity)
{
    struct gs_ev_slot **grown = gs_ev_realloc(*list, capacity * sizeof(struct gs_ev_slot *));
    if (!grown)
        return -1;
    *list = grown;
    return 0;
}

/* `changed` and `settling` have room for every slot. */
static int reserve_changed(struct event_base *base)
{
    unsigned capacity = base->chunk_count * GS_EV_CHUNK;
    if (base->changed_capacity >= capacity)
        return 0;
    if (reserve_list(&base->changed, capacity) || reserve_list(&base->settling, capacity) ||
        reserve_list(&base->verified, capacity))
        return -1;
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
    void *memory = gs_ev_calloc(1, GS_EV_CHUNK * sizeof(struct gs_ev_slot) + GS_EV_LINE - 1);
    if (!memory)
        return NULL;
    uintptr_t address = ((uintptr_t)memory + GS_EV_LINE - 1) & ~(uintptr_t)(GS_EV_LINE - 1);
    struct gs_ev_slot *slots = (struct gs_ev_slot *)address;
    slots[0].memory = memory;
    for (int i = 0; i < GS_EV_CHUNK; i++) {
        gs_io_init(&slots[i].io, base->loop, on_events);
        slots[i].io.watcher.data = base;
        slots[i].fd = slots[i].io.fd = (int)chunk * GS_EV_CHUNK + i;
    }
    base->chunks[chunk] = slots;
    return &slots[fd % GS_EV_CHUNK];
}

void gs_ev_free_slots(struct event_base *base)
{
    for (unsigned i = 0; i < base->chunk_count; i++)
        if (base->chunks[i])
            gs_ev_free(base->chunks[i][0].memory);
    gs_ev_free(base->chunks);
    gs_ev_free(base->changed);
    gs_ev_free(base->settling);
    gs_ev_free(base->verified);
    if (base->identities >= 0)
        close(base->identities);
}

/* ---- Adding and deleting events ---- */

static uint32_t epoll_events(short events)
{
    return (events & EV_READ ? EPOLLIN : 0u) | (events & EV_WRITE ? EPOLLOUT : 0u) |
           (events & EV_CLOSED ? EPOLLRDHUP : 0u) | (events & EV_ET ? EPOLLET : 0u);
}

static int refuse(const struct event_base *base, const struct event *event, int err)
{
    errno = err;
    short events = event->ev_events;
    if (base->method == GS_EV_EPOLL)
        gs_ev_warn("Epoll ADD(%u) on fd %d failed. Old events were 0; read change was %d (%s); "
                   "write change was %d (%s); close change was %d (%s)",
                   epoll_events(events), event->ev_fd, events & EV_READ ? 1 : 0,
                   events & EV_READ ? "add" : "none", events & EV_WRITE ? 1 : 0,
                   events & EV_WRITE ? "add" : "none", events & EV_CLOSED ? 1 : 0,
                   events & EV_CLOSED ? "add" : "none");
    errno = err;
    return -1;
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

/* Whether the event was added to this file before, as far as is known: the loop asks the kernel
 * before the wait. */
static bool is_verified_later(const struct event_base *base, const struct gs_ev_slot *slot,
                              const struct event *event)
{
    return base->method == GS_EV_EPOLL && slot->is_watched && event->ev_file == slot->file;
}

/* A descriptor that is not open is refused, and by epoll also a regular file; but the kernel is not
 * asked about interest that others have already. */
static int check_file(struct event_base *base, struct gs_ev_slot *slot, const struct event *event)
{
    bool is_other, is_trusted = !is_settling(base, slot) || slot->identified == slot->settled;
    uint32_t identified = slot->identified;
    int err = identify(base, slot, &is_other);
    if (err)
        return (unsigned)event->ev_events & ~slot->interest & GS_EV_IO ? refuse(base, event, err)
                                                                       : 0;
    if (!is_other || !is_trusted)
        return 0;
    /* What was added since the last wait without being identified, is of this file, too. */
    part_from_strays(base, slot, base->settlings + (identified == base->settlings));
    slot->is_set = true;
    return 0;
}

/* Whether the event is the one that was deleted last, and is added again as it was. */
static inline bool is_back(const struct event_base *base, const struct event *event)
{
    const struct gs_ev_slot *slot = base->vacated;
    return slot && LIST_FIRST(&slot->events) == event && event->ev_fd == slot->fd &&
           event->ev_events == base->vacated_events && is_verified_later(base, slot, event);
}

/* The watcher is as it shall be: have it verified before the wait. */
static void verify(struct event_base *base, struct gs_ev_slot *slot)
{
    if (slot->settled != base->settlings)
        base->verified[base->verified_count++] = slot;
    slot->settled = base->settlings;
    gs_io_verify(&slot->io);
}

static inline bool may_use_loop(const struct event_base *base)
{
    return !base->lock || (base->is_running && gs_ev_is_in_loop(base));
}

static void take_back(struct event_base *base, struct event *event)
{
    struct gs_ev_slot *slot = base->vacated;
    base->vacated = NULL;
    slot->began = base->settlings;
    if (!slot->is_changed && !slot->is_edge && may_use_loop(base)) {
        verify(base, slot);
    } else {
        slot->is_edge = false;
        slot->is_set = true;
        mark_changed(base, slot);
    }
    event->ev_added = base->settlings;
    event->ev_next.le_next = NULL;
    event->ev_next.le_prev = &slot->events.lh_first;
}

static int insert(struct event_base *base, struct gs_ev_slot *slot, struct event *event)
{
    mark_changed(base, slot);
    bool is_later = is_verified_later(base, slot, event);
    if (!is_later && check_file(base, slot, event))
        return -1;
    unsigned before = slot->interest;
    if (count_event(slot, event))
        return -1;
    if (LIST_EMPTY(&slot->events))
        slot->began = base->settlings;
    /* As in libevent, the last change of the interest says whether it is edge-triggered; such a
     * watcher is set again only then, since that reports once more what others were told. */
    bool is_changed = before != slot->interest;
    if (is_changed)
        slot->is_edge = has_edges(base) && event->ev_events & EV_ET;
    if (is_changed || (is_later && !slot->is_edge))
        slot->is_set = true;
    event->ev_file = slot->file;
    event->ev_added = base->settlings;
    LIST_INSERT_HEAD(&slot->events, event, ev_next);
    return 0;
}

int gs_ev_insert_io(struct event_base *base, struct event *event)
{
    if (is_back(base, event)) {
        take_back(base, event);
        return 0;
    }
    int fd = event->ev_fd;
    if (fd < 0)
        return 0;
    struct gs_ev_slot *slot = gs_ev_find_slot(base, fd);
    if (!slot && !(slot = new_slot(base, fd)))
        return -1;
    return insert(base, slot, event);
}

void gs_ev_remove_io(struct event_base *base, struct event *event)
{
    struct gs_ev_slot *slot = event->ev_fd < 0 ? NULL : gs_ev_find_slot(base, event->ev_fd);
    if (!slot)
        return;
    bool is_alone = LIST_FIRST(&slot->events) == event && !LIST_NEXT(event, ev_next);
    if (is_alone && !(event->ev_events & EV_ET)) {
        base->vacated = slot;
        base->vacated_events = event->ev_events;
        return;
    }
    LIST_REMOVE(event, ev_next);
    if (!event->ev_file)
        return;
    unsigned before = slot->interest;
    add_to_counts(slot, event->ev_events, -1);
    if (before != slot->interest && !LIST_EMPTY(&slot->events)) {
        slot->is_edge = has_edges(base) && event->ev_events & EV_ET;
        slot->is_set |= slot->is_edge;
    }
    mark_changed(base, slot);
}

int gs_ev_insert_stray(struct event_base *base, struct event *event)
{
    LIST_REMOVE(event, ev_next);
    int err = gs_ev_insert_io(base, event);
    if (err)
        LIST_INSERT_HEAD(&base->strays, event, ev_next);
    return err;
}

bool gs_ev_identify_all(struct event_base *base)
{
    bool is_other, are_open = true;
    if (base->identities >= 0)
        close(base->identities);
    base->identities = -1;
    for (unsigned i = 0; i < base->chunk_count * GS_EV_CHUNK; i++) {
        struct gs_ev_slot *slot = gs_ev_find_slot(base, (int)i);
        if (slot && !LIST_EMPTY(&slot->events) && identify(base, slot, &is_other))
            are_open = false;
    }
    return are_open;
}

/* ---- Before the wait ---- */

static unsigned wanted_of(const struct gs_ev_slot *slot)
{
    unsigned interest = slot->interest;
    if (!interest)
        return 0;
    return (interest & EV_READ ? GS_READ : 0u) | (interest & EV_WRITE ? GS_WRITE : 0u) |
           (interest & EV_CLOSED ? GS_HANGUP : 0u) | (slot->is_edge ? GS_EDGE : 0u);
}

static void settle(struct event_base *base, struct gs_ev_slot *slot)
{
    unsigned wanted = wanted_of(slot);
    struct gs_io *io = &slot->io;
    slot->settled = base->settlings;
    bool is_kept = wanted && slot->is_watched && !((wanted ^ io->wanted) & GS_EDGE);
    if (is_kept && (!slot->is_set || !slot->is_edge)) {
        if (wanted != io->wanted)
            gs_io_set_events(io, wanted);
        if (slot->is_set)
            gs_io_verify(io);
        slot->is_set = false;
        return;
    }
    gs_io_stop(io);
    slot->is_watched = false;
    if (!wanted)
        return;
    slot->is_set = false;
    gs_io_set(io, io->fd, wanted);
    int err = gs_io_start(io);
    slot->is_watched = !err;
    if (!err)
        return;
    io->error = (int16_t)err;
    on_refused(base, slot);
}

void gs_ev_settle_descriptors(struct event_base *base)
{
    gs_ev_leave_vacated(base);
    struct gs_ev_slot **changed = base->changed;
    base->changed = base->settling;
    base->settling = changed;
    base->settling_count = base->changed_count;
    base->changed_count = 0;
    for (unsigned i = 0; i < base->settling_count; i++) {
        changed[i]->is_changed = false;
        settle(base, changed[i]);
    }
    base->is_settling = base->settling_count || base->verified_count;
    base->settlings++;
}

void gs_ev_see_files(struct event_base *base)
{
    gs_ev_leave_vacated(base);
    bool has_new = has_new_files(base);
    for (unsigned i = 0; has_new && i < base->settling_count; i++)
        see_file(base, base->settling[i]);
    for (unsigned i = 0; has_new && i < base->verified_count; i++)
        see_file(base, base->verified[i]);
    base->settling_count = base->verified_count = 0;
    base->is_settling = false;
    struct gs_loop_counts counts;
    gs_loop_counts(base->loop, &counts);
    base->files = counts.files;
}
