/* io_uring: poll requests, which the system call that waits submits and completes, so a change of
 * interest makes no system call of its own.
 *
 * A level-triggered descriptor has a one-shot request, which is made again before the next wait.
 * Its completion has the events that triggered it, which may no longer hold and may not be all that
 * hold now. So one call to poll per iteration gets the current events of all that completed. An
 * edge-triggered descriptor has one multishot request, which completes at each edge. A request
 * keeps its file open, so it is cancelled as soon as no watcher wants it. Its user_data is its
 * descriptor and its slot's generation; completions of former generations are dropped.
 *
 * The kernel adds EPOLLRDHUP to the events of every request. A one-shot request for GS_WRITE would
 * thus complete at once, again and again, while the peer has shut down its side and the socket is
 * not writable. So a level-triggered descriptor that completes without being ready has a multishot
 * request from then on, until it is ready. */
#include "loop/poller_epoll.h"
#include "loop/uring.h"

#include <errno.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#define ENTRIES 1024
#define CANCEL_AGAIN GS_MILLISECOND

/* The poll_flags of a slot that is level-triggered. */
enum {
    POLL_LISTED = 1,    /* in uring->polls */
    POLL_MULTISHOT = 2, /* its request is multishot: the last one completed without being ready */
};

struct io_uring_sqe *gs_uring_get_sqe(struct uring *uring)
{
    struct io_uring_sqe *sqe = gs_ring_get_sqe(&uring->ring);
    if (LIKELY(sqe != NULL))
        return sqe;
    return gs_ring_enter(&uring->ring, 0, 0) ? NULL : gs_ring_get_sqe(&uring->ring);
}

static bool request_poll(struct uring *uring, int fd, unsigned events, bool is_multishot,
                         uint64_t data)
{
    struct io_uring_sqe *sqe = gs_uring_get_sqe(uring);
    if (!sqe)
        return false;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = fd;
    sqe->len = is_multishot ? IORING_POLL_ADD_MULTI : 0;
    sqe->poll32_events = events;
    sqe->user_data = data;
    return true;
}

/* The eventfd need not be read: each write to it is an edge. */
static void request_wake_poll(struct gs_loop *loop, struct uring *uring)
{
    uring->needs_wake_request = !request_poll(uring, loop->wake_fd, POLLIN, true, TAG_WAKE);
}

static int open_ring(struct gs_ring *ring)
{
    static const uint8_t needed[] = {
        IORING_OP_POLL_ADD, IORING_OP_ACCEPT,  IORING_OP_ASYNC_CANCEL,
        IORING_OP_RECV,     IORING_OP_SEND,    IORING_OP_READ,
        IORING_OP_WRITE,    IORING_OP_SENDMSG, IORING_OP_FSYNC,
    };
    int err = gs_ring_init(ring, ENTRIES, GS_RING_SINGLE_ISSUER);
    if (!err && !gs_ring_supports(ring, needed, sizeof needed)) {
        gs_ring_done(ring);
        err = -ENOSYS;
    }
    return err;
}

static int grow_polls(struct uring *uring, unsigned slot_count)
{
    struct pollfd *polls = realloc(uring->polls, slot_count * sizeof *polls);
    if (!polls)
        return -ENOMEM;
    uring->polls = polls;
    return 0;
}

static int init(struct gs_loop *loop)
{
    struct uring *uring = malloc(sizeof *uring);
    if (!uring)
        return -ENOMEM;
    *uring = (struct uring){0};
    int err = grow_polls(uring, loop->slot_count);
    if (!err)
        err = open_ring(&uring->ring);
    if (err) {
        free(uring->polls);
        free(uring);
        return err;
    }
    gs_uring_init_results(uring);
    request_wake_poll(loop, uring);
    loop->poller_state = uring;
    return 0;
}

static int grow(struct gs_loop *loop, unsigned slot_count)
{
    return grow_polls(loop->poller_state, slot_count);
}

static bool is_of_op(uint64_t user_data)
{
    unsigned tag = user_data & TAG_MASK;
    return (tag == TAG_OP || tag == TAG_ACCEPT) && user_data >= TAG_ADDRESS_MIN;
}

static bool is_accepted(const struct io_uring_cqe *cqe)
{
    return (cqe->user_data & TAG_MASK) == TAG_ACCEPT && cqe->res >= 0;
}

/* Close the connections that were accepted, and the files that were opened, but will not be passed
 * to a callback. Returns how many operations have ended. */
static int drop_completions(struct gs_ring *ring)
{
    int ended = 0;
    for (struct io_uring_cqe *cqe; (cqe = gs_ring_peek_cqe(ring)); gs_ring_cqe_seen(ring)) {
        if (is_accepted(cqe))
            gs_sys_close(cqe->res);
        ended += is_of_op(cqe->user_data) && !(cqe->flags & IORING_CQE_F_MORE);
    }
    return ended;
}

/* Withdraw the entries that were not submitted. Returns how many of them are operations. */
static int withdraw_entries(struct gs_ring *ring)
{
    int ops = 0;
    while (gs_ring_unsubmitted(ring))
        ops += is_of_op(ring->sqes[--ring->tail & (ring->sq_count - 1)].user_data);
    return ops;
}

/* The kernel cancels what is left in a closed ring some time later, and would hold the files until
 * then. Operations that kernel threads of io_uring execute end some time after they were canceled;
 * the cancellation may even miss one that is about to be executed, so it is repeated. */
static void end_requests(struct uring *uring, int executing)
{
    int err;
    bool is_full;
    executing -= withdraw_entries(&uring->ring);
    do {
        /* It fails for the ring of another thread, which has ended: such a ring is quiet. */
        err = gs_ring_cancel_all(&uring->ring);
        is_full = gs_ring_cq_ready(&uring->ring) > uring->ring.cq_mask;
        executing -= drop_completions(&uring->ring);
        if (!err && executing > 0)
            err = gs_ring_enter(&uring->ring, 1, CANCEL_AGAIN);
    } while (!err && (is_full || executing > 0));
}

static void close_outer_epoll(struct uring *uring)
{
    if (!uring->outer_epoll)
        return;
    gs_loop_epoll_free(uring->outer_epoll);
    uring->outer_epoll = NULL;
    gs_own_descriptor_close(uring->notify_fd);
}

static void done(struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    end_requests(uring, loop->stopped_ops);
    close_outer_epoll(uring);
    gs_ring_done(&uring->ring);
    gs_uring_free_buffers(uring);
    free(uring->polls);
    free(uring);
}

/* After a fork. The parent keeps the old ring, which is not changed. */
static int reopen(struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    struct gs_ring ring;
    int err = open_ring(&ring);
    if (err)
        return err;
    err = gs_uring_register_buffers(uring, &ring);
    if (err) {
        gs_ring_done(&ring);
        return err;
    }
    close_outer_epoll(uring);
    gs_ring_done(&uring->ring);
    uring->ring = ring;
    uring->needs_cancel_retry = false;
    request_wake_poll(loop, uring);
    return 0;
}

static uint64_t data_of(const struct slot *slot, int fd)
{
    return (uint64_t)slot->generation << 32 | (uint64_t)(uint32_t)fd << 1;
}

/* IORING_OP_ASYNC_CANCEL rather than IORING_OP_POLL_REMOVE: the latter fails while a completion is
 * being posted, although a multishot request may post more. */
static bool cancel_poll(struct uring *uring, uint64_t data)
{
    struct io_uring_sqe *sqe = gs_uring_get_sqe(uring);
    if (!sqe)
        return false;
    sqe->opcode = IORING_OP_ASYNC_CANCEL;
    sqe->fd = -1;
    sqe->addr = data;
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = TAG_IGNORED;
    return true;
}

static unsigned events_of(unsigned wanted)
{
    return (wanted & GS_READ ? (unsigned)POLLIN | POLLRDHUP : 0) |
           (wanted & GS_HANGUP ? (unsigned)POLLRDHUP : 0) |
           (wanted & GS_WRITE ? (unsigned)POLLOUT : 0) | (wanted & GS_EDGE ? (unsigned)POLLPRI : 0);
}

static int set(struct gs_loop *loop, int fd, unsigned wanted)
{
    struct uring *uring = loop->poller_state;
    struct slot *slot = &loop->slots[fd];
    if (slot->registered && !(slot->flags & SLOT_ALWAYS_READY) &&
        !cancel_poll(uring, data_of(slot, fd)))
        return -ENOMEM;
    if (!wanted)
        return 0;
    slot->generation++;
    if (slot->flags & SLOT_VERIFY)
        slot->flags &= (uint8_t)~SLOT_POLLABLE;
    bool is_multishot = wanted & GS_EDGE || slot->poll_flags & POLL_MULTISHOT;
    bool is_requested = request_poll(uring, fd, events_of(wanted), is_multishot, data_of(slot, fd));
    return is_requested ? 0 : -ENOMEM;
}

bool gs_uring_retry_requests(struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    if (uring->needs_cancel_retry)
        uring->needs_cancel_retry = !gs_loop_retry_cancels(loop);
    if (uring->needs_wake_request)
        request_wake_poll(loop, uring);
    return !uring->needs_cancel_retry && !uring->needs_wake_request;
}

/* The maximum wait if a request could not be made for lack of room. */
#define RETRY_NS GS_MILLISECOND

static int wait(struct gs_loop *loop, uint64_t timeout_ns)
{
    struct uring *uring = loop->poller_state;
    if (UNLIKELY(!gs_uring_retry_requests(loop)) && timeout_ns > RETRY_NS)
        timeout_ns = RETRY_NS;
    int err = gs_ring_enter(&uring->ring, 1, timeout_ns);
    if (UNLIKELY(uring->outer_epoll != NULL))
        gs_loop_epoll_drain(loop, uring->outer_epoll);
    return err ? err : (int)gs_ring_cq_ready(&uring->ring);
}

static unsigned translate(unsigned from_kernel)
{
    unsigned events = 0;
    if (from_kernel & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
        events |= GS_READ;
    if (from_kernel & (POLLOUT | POLLHUP | POLLERR))
        events |= GS_WRITE;
    if (from_kernel & (POLLRDHUP | POLLHUP))
        events |= GS_HANGUP;
    if (from_kernel & POLLPRI)
        events |= GS_READ | GS_URGENT;
    return events;
}

/* The request is complete. It is made again if the descriptor still has a watcher. */
static void end_request(struct gs_loop *loop, struct slot *slot)
{
    slot->registered = 0;
    if (slot->first)
        gs_loop_mark_changed(loop, (int)(slot - loop->slots), 0);
}

/* io_uring reports regular files as ready at once, so the type of a file is checked at its first
 * completion. */
static bool is_pollable(struct gs_loop *loop, struct slot *slot, int fd)
{
    if (gs_loop_check_pollable(fd) == -EPERM) {
        cancel_poll(loop->poller_state, data_of(slot, fd));
        slot->generation++;
        gs_loop_io_failed(loop, slot, -EPERM);
        return false;
    }
    slot->flags |= SLOT_POLLABLE;
    return true;
}

/* Returns the new number of entries in uring->polls. */
static unsigned collect_ready(struct gs_loop *loop, const struct io_uring_cqe *cqe, unsigned polls)
{
    struct uring *uring = loop->poller_state;
    int fd = (int)((uint32_t)cqe->user_data >> 1);
    struct slot *slot = &loop->slots[fd];
    if (slot->generation != cqe->user_data >> 32 || !slot->registered)
        return polls;
    if (cqe->res < 0) {
        gs_loop_io_failed(loop, slot, cqe->res);
        return polls;
    }
    if (UNLIKELY(!(slot->flags & SLOT_POLLABLE)) && !is_pollable(loop, slot, fd))
        return polls;
    unsigned registered = slot->registered;
    if (!(cqe->flags & IORING_CQE_F_MORE))
        end_request(loop, slot);
    if (registered & GS_EDGE) {
        gs_loop_io_ready(loop, slot, translate((unsigned)cqe->res));
    } else if (!(slot->poll_flags & POLL_LISTED)) {
        slot->poll_flags |= POLL_LISTED;
        uring->polls[polls++] = (struct pollfd){.fd = fd, .events = (short)events_of(registered)};
    }
    return polls;
}

/* A multishot request is replaced, by gs_loop_mark_changed, if its descriptor is ready: it would
 * not complete again while that remains so. */
static void collect_level_triggered(struct gs_loop *loop, unsigned count)
{
    struct pollfd *polls = ((struct uring *)loop->poller_state)->polls;
    int ready = count ? gs_sys_poll(polls, count, 0) : 0;
    for (const struct pollfd *poll = polls; poll < polls + count; poll++) {
        struct slot *slot = &loop->slots[poll->fd];
        slot->poll_flags &= (uint8_t)~POLL_LISTED;
        if (UNLIKELY(slot->registered && (poll->revents || ready < 0)))
            gs_loop_mark_changed(loop, poll->fd, SLOT_SPURIOUS);
        if (poll->revents) {
            slot->poll_flags = 0;
            gs_loop_io_ready(loop, slot, translate((unsigned)poll->revents));
        } else if (ready >= 0) {
            slot->poll_flags = POLL_MULTISHOT;
        }
    }
}

static void handle_wake_completion(struct gs_loop *loop, const struct io_uring_cqe *cqe)
{
    if (cqe->user_data == TAG_WAKE && !(cqe->flags & IORING_CQE_F_MORE))
        request_wake_poll(loop, loop->poller_state);
}

static void collect(struct gs_loop *loop, int count)
{
    struct uring *uring = loop->poller_state;
    unsigned polls = 0;
    for (struct io_uring_cqe *cqe; count && (cqe = gs_ring_peek_cqe(&uring->ring)); count--) {
        if (!(cqe->user_data & 1))
            polls = collect_ready(loop, cqe, polls);
        else if (cqe->user_data < TAG_ADDRESS_MIN)
            handle_wake_completion(loop, cqe);
        else if (!gs_uring_complete_op(loop, cqe))
            break;
        gs_ring_cqe_seen(&uring->ring);
    }
    collect_level_triggered(loop, polls);
}

/* ---- A loop on io_uring inside another ----
 * The descriptor of a ring is not readable while the kernel has only deferred task work for it. An
 * eventfd that is registered with the ring is signalled. So the outer loop watches an epoll set
 * with that eventfd and wake_fd. */

static int watch_ring(struct uring *uring, int notify_fd)
{
    int err = gs_loop_epoll_add_wake(uring->outer_epoll, notify_fd);
    if (!err)
        err = gs_sys_io_uring_register(uring->ring.fd, IORING_REGISTER_EVENTFD, &notify_fd, 1);
    return err;
}

static int descriptor(struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    if (uring->outer_epoll)
        return gs_loop_epoll_fd(uring->outer_epoll);
    int notify_fd = gs_own_descriptor(gs_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (notify_fd < 0)
        return notify_fd;
    int err = gs_loop_epoll_new(loop->wake_fd, &uring->outer_epoll);
    if (err)
        goto close_notify_fd;
    err = watch_ring(uring, notify_fd);
    if (err)
        goto free_outer_epoll;
    uring->notify_fd = notify_fd;
    return gs_loop_epoll_fd(uring->outer_epoll);

free_outer_epoll:
    gs_loop_epoll_free(uring->outer_epoll);
    uring->outer_epoll = NULL;
close_notify_fd:
    gs_own_descriptor_close(notify_fd);
    return err;
}

/* Entering the ring runs its deferred work, so that the eventfd is signalled for later work
 * only. */
static bool submit(struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    bool is_all_requested = gs_uring_retry_requests(loop);
    return gs_ring_enter(&uring->ring, 0, 0) || gs_ring_cq_ready(&uring->ring) || !is_all_requested;
}

const struct poller gs_loop_poller_io_uring = {
    .name = "io_uring",
    .needs_stop = true,
    .needs_close = true,
    .init = init,
    .done = done,
    .grow = grow,
    .set = set,
    .wait = wait,
    .collect = collect,
    .reopen = reopen,
    .descriptor = descriptor,
    .submit = submit,
    .start_op = gs_uring_start_op,
    .cancel_op = gs_uring_cancel_op,
    .next_result = gs_uring_next_result,
    .return_buffer = gs_uring_return_buffer,
};
