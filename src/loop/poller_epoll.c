/* epoll. The data of each registration is its descriptor and its slot's generation, because
 * registrations belong to open files rather than to descriptor numbers: a registration outlives its
 * closed number as long as a duplicate is open. */
#include "loop/poller_epoll.h"
#include "loop/epoll_batch.h"
#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define EVENTS 256
/* Descriptor 0, whose slot always exists, with a generation that it never gets. */
#define WAKE_DATA (UINT64_MAX << 32)
/* The distances of prefetching, in events. */
#define SLOTS_AHEAD 16
#define WATCHERS_AHEAD 8

struct epoll {
    int fd;
    struct epoll_batch *batch;
    struct epoll_event events[EVENTS];
};

/* Edge-triggered: each write to the eventfd ends a wait, and it need not be read. */
static int add_wake(int set, int wake_fd)
{
    struct epoll_event wake = {.events = EPOLLIN | EPOLLET, .data.u64 = WAKE_DATA};
    return gs_sys_epoll_ctl(set, EPOLL_CTL_ADD, wake_fd, &wake);
}

/* Returns the new set, or -errno. */
static int open_set(int wake_fd)
{
    int fd = gs_own_descriptor(gs_sys_epoll_create(EPOLL_CLOEXEC));
    if (fd < 0 || wake_fd < 0)
        return fd;
    int err = add_wake(fd, wake_fd);
    if (err) {
        gs_own_descriptor_close(fd);
        return err;
    }
    return fd;
}

int gs_loop_epoll_new(int wake_fd, struct epoll **ret_epoll)
{
    struct epoll *epoll = malloc(sizeof *epoll);
    if (!epoll)
        return -ENOMEM;
    epoll->batch = NULL;
    epoll->fd = open_set(wake_fd);
    if (epoll->fd < 0) {
        int err = epoll->fd;
        free(epoll);
        return err;
    }
    *ret_epoll = epoll;
    return 0;
}

void gs_loop_epoll_free(struct epoll *epoll)
{
    gs_epoll_batch_free(epoll->batch);
    gs_own_descriptor_close(epoll->fd);
    free(epoll);
}

/* Give the file the other number, whose file is closed; it keeps its own if the process has lowered
 * its limit below the other one. Returns the number, or -errno: then it is closed itself. */
static int move_to(int fd, int number)
{
    if (fd == number) /* a forked child has closed everything that it inherited */
        return fd;
    int err = gs_sys_dup3(fd, number, O_CLOEXEC);
    gs_own_descriptor_close(err == -EBADF ? number : fd);
    return err == -EBADF ? fd : err;
}

/* The new set gets the number of the old one: its own may be that of a descriptor that was closed
 * without notice, and whose watchers must not find it open. */
int gs_loop_epoll_reopen(struct epoll *epoll, int wake_fd)
{
    int fd = open_set(wake_fd);
    if (fd < 0)
        return fd;
    fd = move_to(fd, epoll->fd);
    if (fd < 0)
        return fd;
    epoll->fd = fd;
    /* After a fork, its ring belongs to the parent. */
    gs_epoll_batch_free(epoll->batch);
    epoll->batch = NULL;
    return 0;
}

int gs_loop_epoll_add_wake(struct epoll *epoll, int wake_fd)
{
    return add_wake(epoll->fd, wake_fd);
}

int gs_loop_epoll_fd(const struct epoll *epoll)
{
    return epoll->fd;
}

struct epoll_event gs_loop_epoll_event(int fd, uint32_t generation, unsigned wanted)
{
    return (struct epoll_event){
        .events = (wanted & GS_READ ? (unsigned)EPOLLIN | EPOLLRDHUP : 0) |
                  (wanted & GS_HANGUP ? (unsigned)EPOLLRDHUP : 0) |
                  (wanted & GS_WRITE ? (unsigned)EPOLLOUT : 0) |
                  (wanted & GS_EDGE ? (unsigned)EPOLLET | EPOLLPRI : 0),
        .data.u64 = (uint64_t)generation << 32 | (uint32_t)fd,
    };
}

static int control(struct gs_loop *loop, const struct epoll *epoll, int operation, int fd,
                   unsigned wanted)
{
    struct epoll_event event = gs_loop_epoll_event(fd, loop->slots[fd].generation, wanted);
    loop->counts.interest_calls++;
    return gs_sys_epoll_ctl(epoll->fd, operation, fd, &event);
}

/* Add a registration for a file that may have none under this number. */
static int add(struct gs_loop *loop, const struct epoll *epoll, int fd, unsigned wanted)
{
    struct slot *slot = &loop->slots[fd];
    slot->generation++;
    int err = control(loop, epoll, EPOLL_CTL_ADD, fd, wanted);
    slot->files = (uint8_t)(slot->files + !err);
    loop->counts.files += !err;
    if (!err && slot->generation > 1)
        slot->flags |= SLOT_REUSED;
    return err;
}

/* Verify that the number still refers to the registered file. EPOLL_CTL_ADD is cheaper than
 * EPOLL_CTL_MOD, which polls the file: -EEXIST confirms it, unless the number may have the
 * registration of an earlier file. Edge-triggered registrations must be modified to be reported
 * again. */
static int verify(struct gs_loop *loop, const struct epoll *epoll, int fd, unsigned wanted)
{
    struct slot *slot = &loop->slots[fd];
    if (wanted == slot->registered && !(wanted & GS_EDGE) && !(slot->flags & SLOT_REUSED)) {
        int err = add(loop, epoll, fd, wanted);
        if (err == -EEXIST) {
            slot->generation--;
            return 0;
        }
        return err;
    }
    slot->generation++;
    int err = control(loop, epoll, EPOLL_CTL_MOD, fd, wanted);
    return err == -ENOENT ? add(loop, epoll, fd, wanted) : err;
}

int gs_loop_epoll_set(struct gs_loop *loop, struct epoll *epoll, int fd, unsigned wanted)
{
    struct slot *slot = &loop->slots[fd];
    if (!wanted)
        return control(loop, epoll, EPOLL_CTL_DEL, fd, 0);
    if (!slot->registered) {
        int err = add(loop, epoll, fd, wanted);
        return err == -EEXIST ? control(loop, epoll, EPOLL_CTL_MOD, fd, wanted) : err;
    }
    if (slot->flags & SLOT_VERIFY)
        return verify(loop, epoll, fd, wanted);
    int err = control(loop, epoll, EPOLL_CTL_MOD, fd, wanted);
    return err == -ENOENT ? add(loop, epoll, fd, wanted) : err;
}

static unsigned translate(uint32_t from_kernel)
{
    unsigned events = 0;
    if (from_kernel & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        events |= GS_READ;
    if (from_kernel & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        events |= GS_WRITE;
    if (from_kernel & (EPOLLRDHUP | EPOLLHUP))
        events |= GS_HANGUP;
    if (from_kernel & EPOLLPRI)
        events |= GS_READ | GS_URGENT;
    return events;
}

/* The events are one array, but their slots and watchers are scattered in memory. */
static void prefetch(const struct gs_loop *loop, const struct epoll_event *event)
{
    __builtin_prefetch(&loop->slots[(uint32_t)event[SLOTS_AHEAD].data.u64]);
    uintptr_t watcher = (uintptr_t)loop->slots[(uint32_t)event[WATCHERS_AHEAD].data.u64].first;
    __builtin_prefetch((const void *)watcher, 1);
    __builtin_prefetch((const void *)(watcher + sizeof(struct gs_io) - 1), 1);
}

static void collect_from(struct gs_loop *loop, const struct epoll *epoll, int count)
{
    const struct epoll_event *end = epoll->events + count;
    for (const struct epoll_event *event = epoll->events; event < end; event++) {
        uint64_t data = event->data.u64;
        struct slot *slot = &loop->slots[(uint32_t)data];
        if (end - event > SLOTS_AHEAD)
            prefetch(loop, event);
        if (LIKELY(slot->generation == data >> 32))
            gs_loop_io_ready(loop, slot, translate(event->events));
        else if (data != WAKE_DATA)
            gs_loop_io_stale(loop);
    }
}

void gs_loop_epoll_drain(struct gs_loop *loop, struct epoll *epoll)
{
    int count = gs_sys_epoll_wait(epoll->fd, epoll->events, EVENTS, 0);
    if (count > 0)
        collect_from(loop, epoll, count);
}

/* ---- The poller ---- */

static int init(struct gs_loop *loop)
{
    struct epoll *epoll;
    int err = gs_loop_epoll_new(loop->wake_fd, &epoll);
    if (!err)
        loop->poller_state = epoll;
    return err;
}

static void done(struct gs_loop *loop)
{
    gs_loop_epoll_free(loop->poller_state);
}

static int set(struct gs_loop *loop, int fd, unsigned wanted)
{
    return gs_loop_epoll_set(loop, loop->poller_state, fd, wanted);
}

static void add_many(struct gs_loop *loop, const int *fds, unsigned count)
{
    struct epoll *epoll = loop->poller_state;
    gs_epoll_batch_add(loop, &epoll->batch, epoll->fd, fds, count);
}

static int wait(struct gs_loop *loop, uint64_t timeout_ns)
{
    struct epoll *epoll = loop->poller_state;
    int max_events = loop->batch && loop->batch < EVENTS ? (int)loop->batch : EVENTS;
    return gs_sys_epoll_wait(epoll->fd, epoll->events, max_events, timeout_ns);
}

static void collect(struct gs_loop *loop, int count)
{
    collect_from(loop, loop->poller_state, count);
}

static int reopen(struct gs_loop *loop)
{
    return gs_loop_epoll_reopen(loop->poller_state, loop->wake_fd);
}

static int descriptor(struct gs_loop *loop)
{
    return gs_loop_epoll_fd(loop->poller_state);
}

const struct poller gs_loop_poller_epoll = {
    .name = "epoll",
    .init = init,
    .done = done,
    .set = set,
    .add_many = add_many,
    .wait = wait,
    .collect = collect,
    .reopen = reopen,
    .descriptor = descriptor,
};
