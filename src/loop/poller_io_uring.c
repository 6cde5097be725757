/* io_uring: requests to poll, which are handed over and answered by the system call that waits, so
 * that interest costs no call of its own.
 *
 * Descriptors that are wanted by level have one request at a time, which is answered once and made
 * anew before the next wait. The answer tells what woke it, which may be gone by now and is not all
 * that may be so; what is so now, one call to poll tells of all that were answered. Those wanted by
 * edges have one request that is answered at each edge. A request belongs to an open file and keeps it open, so that it is
 * cancelled as soon as nobody wants it. Its data is its descriptor and its slot's generation;
 * answers of former generations are dropped. */
#include "loop/poller_epoll.h"
#include "loop/uring.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdlib.h>

#define ENTRIES 1024

struct io_uring_sqe *gs_uring_entry(struct uring *uring)
{
    struct io_uring_sqe *entry = gs_ring_entry(&uring->ring);
    if (LIKELY(entry != NULL))
        return entry;
    return gs_ring_enter(&uring->ring, 0, 0) ? NULL : gs_ring_entry(&uring->ring);
}

/* many: answered again and again. */
static bool request_poll(struct uring *uring, int fd, unsigned events, bool many, uint64_t data)
{
    struct io_uring_sqe *entry = gs_uring_entry(uring);
    if (!entry)
        return false;
    entry->opcode = IORING_OP_POLL_ADD;
    entry->fd = fd;
    entry->len = many ? IORING_POLL_ADD_MULTI : 0;
    entry->poll32_events = events;
    entry->user_data = data;
    return true;
}

/* Nobody needs to read the eventfd: each write to it is an edge. */
static bool watch_wake(struct gs_loop *loop, struct uring *uring)
{
    return request_poll(uring, loop->wake_fd, POLLIN, true, FOR_WAKE);
}

static int open_ring(struct gs_ring *ring)
{
    static const uint8_t needed[] = {
        IORING_OP_POLL_ADD, IORING_OP_ACCEPT,  IORING_OP_ASYNC_CANCEL,
        IORING_OP_RECV,     IORING_OP_SEND,    IORING_OP_READ,
        IORING_OP_WRITE,    IORING_OP_SENDMSG, IORING_OP_FSYNC,
    };
    int err = gs_ring_init(ring, ENTRIES, GS_RING_OWNED);
    if (!err && !gs_ring_knows(ring, needed, sizeof needed)) {
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
    gs_uring_init_answers(uring);
    watch_wake(loop, uring);
    loop->poller_state = uring;
    return 0;
}

static int grow(struct gs_loop *loop, unsigned slot_count)
{
    return grow_polls(loop->poller_state, slot_count);
}

static bool is_accepted(const struct io_uring_cqe *cqe)
{
    unsigned whose = cqe->user_data & FOR_MASK;
    return (whose == FOR_ACCEPT || whose == FOR_ACCEPTING_CALL) && cqe->res >= 0;
}

/* What nobody waits for any more. */
static void close_accepted(struct gs_ring *ring)
{
    for (struct io_uring_cqe *cqe; (cqe = gs_ring_first(ring)); gs_ring_advance(ring))
        if (is_accepted(cqe))
            gs_sys_close(cqe->res);
}

static void done(struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    /* Another thread's ring is quiet: that thread has ended. */
    (void)gs_ring_cancel_all(&uring->ring);
    close_accepted(&uring->ring);
    gs_uring_close_descriptor(uring);
    gs_ring_done(&uring->ring);
    gs_uring_free_buffers(uring);
    free(uring->polls);
    free(uring);
}

/* After a fork: the old ring is the parent's, and stays as it is there. */
static int reopen(struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    struct gs_ring ring;
    int err = open_ring(&ring);
    if (err)
        return err;
    err = gs_uring_move_buffers(uring, &ring);
    if (err) {
        gs_ring_done(&ring);
        return err;
    }
    gs_uring_close_descriptor(uring);
    gs_ring_done(&uring->ring);
    uring->ring = ring;
    watch_wake(loop, uring);
    gs_loop_ops_lost(loop);
    return 0;
}

static uint64_t data_of(const struct slot *slot, int fd)
{
    return (uint64_t)slot->generation << 32 | (uint64_t)(uint32_t)fd << 1;
}

/* To remove a poll fails while it is being answered, which may be one answer of many; to cancel it
 * does not. */
static bool forget(struct uring *uring, uint64_t data)
{
    struct io_uring_sqe *entry = gs_uring_entry(uring);
    if (!entry)
        return false;
    entry->opcode = IORING_OP_ASYNC_CANCEL;
    entry->fd = -1;
    entry->addr = data;
    entry->flags = IOSQE_CQE_SKIP_SUCCESS;
    entry->user_data = FOR_NOBODY;
    return true;
}

static unsigned events_of(unsigned wanted)
{
    return (wanted & GS_READ ? (unsigned)POLLIN | POLLRDHUP : 0) |
           (wanted & GS_WRITE ? (unsigned)POLLOUT : 0);
}

static int set(struct gs_loop *loop, int fd, unsigned wanted)
{
    struct uring *uring = loop->poller_state;
    struct slot *slot = &loop->slots[fd];
    if (slot->registered && !(slot->flags & SLOT_FILE) && !forget(uring, data_of(slot, fd)))
        return -ENOMEM;
    if (!wanted)
        return 0;
    slot->generation++;
    if (slot->flags & SLOT_VERIFY)
        slot->flags &= (uint8_t)~SLOT_POLLABLE;
    bool is_asked = request_poll(uring, fd, events_of(wanted), wanted & GS_EDGE, data_of(slot, fd));
    return is_asked ? 0 : -ENOMEM;
}

static int wait(struct gs_loop *loop, uint64_t timeout_ns)
{
    struct uring *uring = loop->poller_state;
    int err = gs_ring_enter(&uring->ring, 1, timeout_ns);
    if (UNLIKELY(uring->outside != NULL))
        gs_loop_epoll_drain(loop, uring->outside);
    return err ? err : (int)gs_ring_ready(&uring->ring);
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
    return events;
}

/* Its request is done, and made anew if somebody still wants it. */
static unsigned end_request(struct gs_loop *loop, struct slot *slot)
{
    unsigned registered = slot->registered;
    slot->registered = 0;
    if (slot->first)
        gs_loop_mark_changed(loop, (int)(slot - loop->slots), 0);
    return registered;
}

/* The kernel takes regular files for ready, at once; so it is asked once there is an answer. */
static bool is_pollable(struct gs_loop *loop, struct slot *slot, int fd)
{
    if (gs_loop_refuse_file(fd) == -EPERM) {
        forget(loop->poller_state, data_of(slot, fd));
        slot->generation++;
        gs_loop_io_failed(loop, slot, -EPERM);
        return false;
    }
    slot->flags |= SLOT_POLLABLE;
    return true;
}

/* Returns how many of uring->polls are used now. */
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
    bool is_by_level = !(slot->registered & GS_EDGE);
    unsigned registered = slot->registered;
    if (!(cqe->flags & IORING_CQE_F_MORE))
        registered = end_request(loop, slot);
    if (is_by_level)
        uring->polls[polls++] = (struct pollfd){.fd = fd, .events = (short)events_of(registered)};
    else
        gs_loop_io_ready(loop, slot, translate((unsigned)cqe->res));
    return polls;
}

static void collect_by_level(struct gs_loop *loop, unsigned count)
{
    struct pollfd *polls = ((struct uring *)loop->poller_state)->polls;
    if (!count || gs_sys_poll(polls, count, 0) <= 0)
        return;
    for (const struct pollfd *poll = polls; poll < polls + count; poll++)
        if (poll->revents)
            gs_loop_io_ready(loop, &loop->slots[poll->fd], translate((unsigned)poll->revents));
}

/* Of what stands alone. */
static void hear(struct gs_loop *loop, const struct io_uring_cqe *cqe)
{
    if (cqe->user_data == FOR_WAKE && !(cqe->flags & IORING_CQE_F_MORE))
        watch_wake(loop, loop->poller_state);
}

static void end_call(const struct io_uring_cqe *cqe)
{
    struct uring_call *call =
        (struct uring_call *)(uintptr_t)(cqe->user_data & ~(uint64_t)FOR_MASK);
    call->ended(call, cqe->res);
}

static void collect(struct gs_loop *loop, int count)
{
    struct uring *uring = loop->poller_state;
    unsigned polls = 0;
    for (struct io_uring_cqe *cqe; count && (cqe = gs_ring_first(&uring->ring)); count--) {
        unsigned whose = cqe->user_data & FOR_MASK;
        if (!(whose & 1))
            polls = collect_ready(loop, cqe, polls);
        else if (cqe->user_data < FOR_ALONE)
            hear(loop, cqe);
        else if (whose == FOR_CALL || whose == FOR_ACCEPTING_CALL)
            end_call(cqe);
        else if (!gs_uring_answer_op(loop, cqe))
            break;
        gs_ring_advance(&uring->ring);
    }
    collect_by_level(loop, polls);
}

const struct poller gs_loop_poller_io_uring = {
    .name = "io_uring",
    .is_told_of_stops = true,
    .is_told_of_closes = true,
    .init = init,
    .done = done,
    .grow = grow,
    .set = set,
    .wait = wait,
    .collect = collect,
    .reopen = reopen,
    .descriptor = gs_uring_descriptor,
    .hand_over = gs_uring_hand_over,
    .start_op = gs_uring_start_op,
    .cancel_op = gs_uring_cancel_op,
    .next_answer = gs_uring_next_answer,
    .give_back = gs_uring_give_back,
};
