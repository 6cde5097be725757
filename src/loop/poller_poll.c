/* poll: an array of the descriptors that are wanted, handed over whole at each wait. Those that are
 * wanted by edges are in a set of epoll's, which is one more member of the array. */
#include "loop/poller_epoll.h"
#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* The places in the array that always are taken. */
enum { PLACE_WAKE, PLACE_EDGES, PLACES };

struct polls {
    struct epoll *edges;
    struct pollfd *polls;
    unsigned count;
    unsigned *places; /* by descriptor: where it is in `polls`; 0: not there */
    unsigned slot_count;
};

/* Both arrays, of which one may have grown in vain. */
static int grow_arrays(struct polls *polls, unsigned slot_count)
{
    struct pollfd *grown = realloc(polls->polls, (PLACES + slot_count) * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    polls->polls = grown;
    unsigned *places = realloc(polls->places, slot_count * sizeof *places);
    if (!places)
        return -ENOMEM;
    memset(places + polls->slot_count, 0, (slot_count - polls->slot_count) * sizeof *places);
    polls->places = places;
    polls->slot_count = slot_count;
    return 0;
}

static int grow(struct gs_loop *loop, unsigned slot_count)
{
    return grow_arrays(loop->poller_state, slot_count);
}

static void watch_own(struct gs_loop *loop, struct polls *polls)
{
    polls->polls[PLACE_WAKE] = (struct pollfd){.fd = loop->wake_fd, .events = POLLIN};
    polls->polls[PLACE_EDGES] =
        (struct pollfd){.fd = gs_loop_epoll_fd(polls->edges), .events = POLLIN};
    polls->count = PLACES;
}

static int init(struct gs_loop *loop)
{
    struct polls *polls = malloc(sizeof *polls);
    if (!polls)
        return -ENOMEM;
    *polls = (struct polls){0};
    int err = grow_arrays(polls, loop->slot_count);
    if (!err)
        err = gs_loop_epoll_new(-1, &polls->edges);
    if (err) {
        free(polls->polls);
        free(polls->places);
        free(polls);
        return err;
    }
    watch_own(loop, polls);
    loop->poller_state = polls;
    return 0;
}

static void done(struct gs_loop *loop)
{
    struct polls *polls = loop->poller_state;
    gs_loop_epoll_free(polls->edges);
    free(polls->polls);
    free(polls->places);
    free(polls);
}

static int reopen(struct gs_loop *loop)
{
    struct polls *polls = loop->poller_state;
    int err = gs_loop_epoll_reopen(polls->edges, -1);
    if (err)
        return err;
    for (unsigned i = PLACES; i < polls->count; i++)
        polls->places[polls->polls[i].fd] = 0;
    watch_own(loop, polls);
    return 0;
}

static void take_out(struct polls *polls, int fd)
{
    unsigned place = polls->places[fd];
    if (!place)
        return;
    polls->polls[place] = polls->polls[--polls->count];
    polls->places[polls->polls[place].fd] = place;
    polls->places[fd] = 0;
}

static int put_in(struct polls *polls, int fd, unsigned wanted)
{
    if (!polls->places[fd]) {
        int err = gs_loop_refuse_file(fd);
        if (err)
            return err;
        polls->places[fd] = polls->count++;
    }
    polls->polls[polls->places[fd]] = (struct pollfd){
        .fd = fd,
        .events = (short)((wanted & GS_READ ? POLLIN | POLLRDHUP : 0) |
                          (wanted & GS_WRITE ? POLLOUT : 0)),
    };
    return 0;
}

static int set(struct gs_loop *loop, int fd, unsigned wanted)
{
    struct polls *polls = loop->poller_state;
    bool is_by_edges = loop->slots[fd].registered & GS_EDGE;
    if (wanted & GS_EDGE) {
        take_out(polls, fd);
        return gs_loop_epoll_set(loop, polls->edges, fd, wanted);
    }
    if (is_by_edges)
        (void)gs_loop_epoll_set(loop, polls->edges, fd, 0);
    if (wanted && !(loop->slots[fd].flags & SLOT_VERIFY))
        return put_in(polls, fd, wanted);
    take_out(polls, fd);
    return wanted ? put_in(polls, fd, wanted) : 0;
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

/* From the end on, as one that is taken out is replaced by the last. */
static void collect(struct gs_loop *loop, int count)
{
    struct polls *polls = loop->poller_state;
    if (!count)
        return;
    for (unsigned i = polls->count - 1; i >= PLACES; i--) {
        struct pollfd poll = polls->polls[i];
        if (poll.revents & POLLNVAL) {
            take_out(polls, poll.fd);
            gs_loop_io_failed(loop, &loop->slots[poll.fd], -EBADF);
        } else if (poll.revents) {
            gs_loop_io_ready(loop, &loop->slots[poll.fd], translate(poll.revents));
        }
    }
    if (polls->polls[PLACE_WAKE].revents)
        gs_loop_take_wake(loop);
    if (polls->polls[PLACE_EDGES].revents)
        gs_loop_epoll_drain(loop, polls->edges);
}

const struct poller gs_loop_poller_poll = {
    .name = "poll",
    .is_told_of_closes = true,
    .init = init,
    .done = done,
    .grow = grow,
    .set = set,
    .wait = wait,
    .collect = collect,
    .reopen = reopen,
};
