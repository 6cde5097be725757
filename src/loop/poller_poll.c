/* poll: an array of the wanted descriptors, which is passed to the kernel at each wait.
 * Edge-triggered descriptors are in an epoll set, which is one more entry of the array. */
#include "loop/poller_epoll.h"
#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* The fixed entries of the array. */
enum { INDEX_WAKE, INDEX_EDGE_EPOLL, FIXED_ENTRIES };

struct polls {
    struct epoll *edge_epoll;
    struct pollfd *polls;
    unsigned count;
    unsigned *indexes; /* by descriptor: its index in `polls`; 0: none */
    unsigned slot_count;
};

/* Grow both arrays. If the second allocation fails, the first array keeps its new size. */
static int grow_arrays(struct polls *polls, unsigned slot_count)
{
    struct pollfd *grown = realloc(polls->polls, (FIXED_ENTRIES + slot_count) * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    polls->polls = grown;
    unsigned *indexes = realloc(polls->indexes, slot_count * sizeof *indexes);
    if (!indexes)
        return -ENOMEM;
    memset(indexes + polls->slot_count, 0, (slot_count - polls->slot_count) * sizeof *indexes);
    polls->indexes = indexes;
    polls->slot_count = slot_count;
    return 0;
}

static int grow(struct gs_loop *loop, unsigned slot_count)
{
    return grow_arrays(loop->poller_state, slot_count);
}

static void add_fixed_entries(struct gs_loop *loop, struct polls *polls)
{
    polls->polls[INDEX_WAKE] = (struct pollfd){.fd = loop->wake_fd, .events = POLLIN};
    polls->polls[INDEX_EDGE_EPOLL] =
        (struct pollfd){.fd = gs_loop_epoll_fd(polls->edge_epoll), .events = POLLIN};
    polls->count = FIXED_ENTRIES;
}

static int init(struct gs_loop *loop)
{
    struct polls *polls = malloc(sizeof *polls);
    if (!polls)
        return -ENOMEM;
    *polls = (struct polls){0};
    int err = grow_arrays(polls, loop->slot_count);
    if (!err)
        err = gs_loop_epoll_new(-1, &polls->edge_epoll);
    if (err) {
        free(polls->polls);
        free(polls->indexes);
        free(polls);
        return err;
    }
    add_fixed_entries(loop, polls);
    loop->poller_state = polls;
    return 0;
}

static void done(struct gs_loop *loop)
{
    struct polls *polls = loop->poller_state;
    gs_loop_epoll_free(polls->edge_epoll);
    free(polls->polls);
    free(polls->indexes);
    free(polls);
}

static int reopen(struct gs_loop *loop)
{
    struct polls *polls = loop->poller_state;
    int err = gs_loop_epoll_reopen(polls->edge_epoll, -1);
    if (err)
        return err;
    for (unsigned i = FIXED_ENTRIES; i < polls->count; i++)
        polls->indexes[polls->polls[i].fd] = 0;
    add_fixed_entries(loop, polls);
    return 0;
}

static void remove_poll(struct polls *polls, int fd)
{
    unsigned index = polls->indexes[fd];
    if (!index)
        return;
    polls->polls[index] = polls->polls[--polls->count];
    polls->indexes[polls->polls[index].fd] = index;
    polls->indexes[fd] = 0;
}

static int add_poll(struct polls *polls, int fd, unsigned wanted)
{
    if (!polls->indexes[fd]) {
        int err = gs_loop_check_pollable(fd);
        if (err)
            return err;
        polls->indexes[fd] = polls->count++;
    }
    polls->polls[polls->indexes[fd]] = (struct pollfd){
        .fd = fd,
        .events = (short)((wanted & GS_READ ? POLLIN | POLLRDHUP : 0) |
                          (wanted & GS_HANGUP ? POLLRDHUP : 0) | (wanted & GS_WRITE ? POLLOUT : 0)),
    };
    return 0;
}

static int set(struct gs_loop *loop, int fd, unsigned wanted)
{
    struct polls *polls = loop->poller_state;
    bool was_edge_triggered = loop->slots[fd].registered & GS_EDGE;
    if (wanted & GS_EDGE) {
        remove_poll(polls, fd);
        return gs_loop_epoll_set(loop, polls->edge_epoll, fd, wanted);
    }
    if (was_edge_triggered)
        (void)gs_loop_epoll_set(loop, polls->edge_epoll, fd, 0);
    if (wanted && !(loop->slots[fd].flags & SLOT_VERIFY))
        return add_poll(polls, fd, wanted);
    remove_poll(polls, fd);
    return wanted ? add_poll(polls, fd, wanted) : 0;
}

static int wait(struct gs_loop *loop, uint64_t timeout_ns)
{
    struct polls *polls = loop->poller_state;
    return gs_sys_poll(polls->polls, polls->count, timeout_ns);
}

static unsigned translate(short from_kernel)
{
    unsigned events = 0;
    if (from_kernel & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
        events |= GS_READ;
    if (from_kernel & (POLLOUT | POLLHUP | POLLERR))
        events |= GS_WRITE;
    if (from_kernel & (POLLRDHUP | POLLHUP))
        events |= GS_HANGUP;
    return events;
}

/* In reverse order, because the last entry replaces one that is removed. */
static void collect(struct gs_loop *loop, int count)
{
    struct polls *polls = loop->poller_state;
    if (!count)
        return;
    for (unsigned i = polls->count - 1; i >= FIXED_ENTRIES; i--) {
        struct pollfd poll = polls->polls[i];
        if (poll.revents & POLLNVAL) {
            remove_poll(polls, poll.fd);
            gs_loop_io_failed(loop, &loop->slots[poll.fd], -EBADF);
        } else if (poll.revents) {
            gs_loop_io_ready(loop, &loop->slots[poll.fd], translate(poll.revents));
        }
    }
    if (polls->polls[INDEX_WAKE].revents)
        gs_loop_drain_wake_fd(loop);
    if (polls->polls[INDEX_EDGE_EPOLL].revents)
        gs_loop_epoll_drain(loop, polls->edge_epoll);
}

const struct poller gs_loop_poller_poll = {
    .name = "poll",
    .needs_close = true,
    .init = init,
    .done = done,
    .grow = grow,
    .set = set,
    .wait = wait,
    .collect = collect,
    .reopen = reopen,
};
