/* epoll. The data of each registration is its descriptor and its slot's generation: the kernel's
 * registrations belong to open files rather than to numbers, and outlive a closed number while a
 * duplicate lives. */
#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define EVENTS 256
/* Of no generation of descriptor 0, whose slot there always is. */
#define WAKE_DATA (UINT64_MAX << 32)
/* How far collecting looks ahead. */
#define SLOTS_AHEAD 16
#define WATCHERS_AHEAD 8

struct epoll {
    int fd;
    struct epoll_event events[EVENTS];
};

/* Returns the new set, which watches wake_fd, or -errno. */
static int open_set(int wake_fd)
{
    int fd = gs_sys_epoll_create(EPOLL_CLOEXEC);
    if (fd < 0)
        return fd;
    /* By edges: each write to the eventfd ends a wait, and nobody needs to read it. */
    struct epoll_event wake = {.events = EPOLLIN | EPOLLET, .data.u64 = WAKE_DATA};
    int err = gs_sys_epoll_ctl(fd, EPOLL_CTL_ADD, wake_fd, &wake);
    if (err) {
        gs_sys_close(fd);
        return err;
    }
    return fd;
}

static int init(struct gs_loop *loop)
{
    struct epoll *epoll = malloc(sizeof *epoll);
    if (!epoll)
        return -ENOMEM;
    epoll->fd = open_set(loop->wake_fd);
    if (epoll->fd < 0) {
        int err = epoll->fd;
        free(epoll);
        return err;
    }
    loop->poller_state = epoll;
    return 0;
}

static void done(struct gs_loop *loop)
{
    struct epoll *epoll = loop->poller_state;
    gs_sys_close(epoll->fd);
    free(epoll);
}

static int reopen(struct gs_loop *loop)
{
    struct epoll *epoll = loop->poller_state;
    int fd = open_set(loop->wake_fd);
    if (fd < 0)
        return fd;
    gs_sys_close(epoll->fd);
    epoll->fd = fd;
    return 0;
}

static int control(struct gs_loop *loop, int operation, int fd, unsigned wanted)
{
    const struct epoll *epoll = loop->poller_state;
    struct epoll_event event = {
        .events = (wanted & GS_READ ? (unsigned)EPOLLIN | EPOLLRDHUP : 0) |
                  (wanted & GS_WRITE ? (unsigned)EPOLLOUT : 0) |
                  (wanted & GS_EDGE ? (unsigned)EPOLLET : 0),
        .data.u64 = (uint64_t)loop->slots[fd].generation << 32 | (uint32_t)fd,
    };
    loop->counts.interest_calls++;
    return gs_sys_epoll_ctl(epoll->fd, operation, fd, &event);
}

/* Tell the kernel of a file that it may not know under this number. */
static int add(struct gs_loop *loop, int fd, unsigned wanted)
{
    struct slot *slot = &loop->slots[fd];
    slot->generation++;
    int err = control(loop, EPOLL_CTL_ADD, fd, wanted);
    if (!err && slot->generation > 1)
        slot->flags |= SLOT_REUSED;
    return err;
}

/* Whether the number still means the registered file. To add it is the cheaper way to ask than to
 * modify it, which polls the file: -EEXIST says yes, unless the registration found may be that of
 * an earlier file under the same number. Edges must be modified to be reported again. */
static int verify(struct gs_loop *loop, int fd, unsigned wanted)
{
    struct slot *slot = &loop->slots[fd];
    if (wanted == slot->registered && !(wanted & GS_EDGE) && !(slot->flags & SLOT_REUSED)) {
        int err = add(loop, fd, wanted);
        if (err == -EEXIST) {
            slot->generation--;
            return 0;
        }
        return err;
    }
    slot->generation++;
    int err = control(loop, EPOLL_CTL_MOD, fd, wanted);
    return err == -ENOENT ? add(loop, fd, wanted) : err;
}

static int set(struct gs_loop *loop, int fd, unsigned wanted)
{
    struct slot *slot = &loop->slots[fd];
    if (!wanted)
        return control(loop, EPOLL_CTL_DEL, fd, 0);
    if (!slot->registered) {
        int err = add(loop, fd, wanted);
        return err == -EEXIST ? control(loop, EPOLL_CTL_MOD, fd, wanted) : err;
    }
    if (slot->flags & SLOT_VERIFY)
        return verify(loop, fd, wanted);
    int err = control(loop, EPOLL_CTL_MOD, fd, wanted);
    return err == -ENOENT ? add(loop, fd, wanted) : err;
}

static int wait(struct gs_loop *loop, uint64_t timeout_ns)
{
    struct epoll *epoll = loop->poller_state;
    return gs_sys_epoll_wait(epoll->fd, epoll->events, EVENTS, timeout_ns);
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
    return events;
}

/* The events stand in one array, but lead to slots and watchers all over the memory. */
static void prefetch(const struct gs_loop *loop, const struct epoll_event *event)
{
    __builtin_prefetch(&loop->slots[(uint32_t)event[SLOTS_AHEAD].data.u64]);
    uintptr_t watcher = (uintptr_t)loop->slots[(uint32_t)event[WATCHERS_AHEAD].data.u64].first;
    __builtin_prefetch((const void *)watcher, 1);
    __builtin_prefetch((const void *)(watcher + sizeof(struct gs_io) - 1), 1);
}

static void collect(struct gs_loop *loop, int count)
{
    const struct epoll *epoll = loop->poller_state;
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

const struct poller gs_loop_poller_epoll = {
    .name = "epoll",
    .init = init,
    .done = done,
    .set = set,
    .wait = wait,
    .collect = collect,
    .reopen = reopen,
};
