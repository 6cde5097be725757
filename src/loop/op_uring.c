/* Operations on io_uring: each is a request whose user_data is the operation's address. Multishot
 * operations have a queue of results that wait for their callbacks.
 *
 * A send that would block is a poll request, and then another send: when the kernel itself repeats
 * the send of a datagram, the first attempt may have consumed the bytes, and it sends an empty
 * one. */
#include "loop/uring.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <poll.h>

static bool is_multishot(const struct gs_op *op)
{
    return op->kind == GS_OP_ACCEPT_MULTISHOT || op->kind == GS_OP_RECV_MULTISHOT;
}

static bool is_send(const struct gs_op *op)
{
    return op->kind == GS_OP_SEND || op->kind == GS_OP_SENDMSG;
}

static uint64_t data_of(const struct gs_op *op)
{
    bool is_accept = op->kind == GS_OP_ACCEPT || op->kind == GS_OP_ACCEPT_MULTISHOT;
    return (uintptr_t)op | (is_accept || op->kind == GS_OP_OPEN ? TAG_ACCEPT : TAG_OP);
}

static void fill(const struct uring *uring, const struct gs_op *op, struct io_uring_sqe *sqe)
{
    static const uint8_t codes[] = {
        [GS_OP_ACCEPT] = IORING_OP_ACCEPT,       [GS_OP_RECV] = IORING_OP_RECV,
        [GS_OP_SEND] = IORING_OP_SEND,           [GS_OP_READ] = IORING_OP_READ,
        [GS_OP_WRITE] = IORING_OP_WRITE,         [GS_OP_SENDMSG] = IORING_OP_SENDMSG,
        [GS_OP_FSYNC] = IORING_OP_FSYNC,         [GS_OP_ACCEPT_MULTISHOT] = IORING_OP_ACCEPT,
        [GS_OP_RECV_MULTISHOT] = IORING_OP_RECV, [GS_OP_CONNECT] = IORING_OP_CONNECT,
        [GS_OP_OPEN] = IORING_OP_OPENAT2,
    };
    sqe->opcode = codes[op->kind];
    sqe->fd = op->io.fd;
    sqe->user_data = data_of(op);
    if (op->waits_for_room) {
        sqe->opcode = IORING_OP_POLL_ADD;
        sqe->poll32_events = POLLOUT;
        return;
    }
    if (op->kind == GS_OP_RECV_MULTISHOT) {
        sqe->ioprio = IORING_RECV_MULTISHOT;
        sqe->flags = IOSQE_BUFFER_SELECT;
        sqe->buf_group = uring->buffers.group;
        return;
    }
    sqe->addr = (uintptr_t)op->bytes;
    if (op->kind == GS_OP_CONNECT) {
        sqe->off = op->n;
        return;
    }
    if (op->kind == GS_OP_OPEN) {
        /* Tried without waiting first, a FIFO would be opened although its other end is not. */
        sqe->flags = IOSQE_ASYNC;
        sqe->fd = op->flags;
        sqe->off = op->offset;
        sqe->len = (uint32_t)op->n;
        return;
    }
    sqe->len = (uint32_t)(op->n < INT32_MAX ? op->n : INT32_MAX);
    sqe->msg_flags = (uint32_t)op->flags;
    if (op->kind == GS_OP_READ || op->kind == GS_OP_WRITE)
        sqe->off = op->offset;
    if (is_send(op))
        sqe->msg_flags |= MSG_NOSIGNAL | MSG_DONTWAIT;
    if (op->kind == GS_OP_ACCEPT_MULTISHOT)
        sqe->ioprio = IORING_ACCEPT_MULTISHOT;
}

static int reserve_buffers(struct uring *uring)
{
    struct gs_ring_buffers buffers = {.size = BUFFER_SIZE, .count = BUFFERS_MAX};
    if (uring->buffers.queue)
        return 0;
    int err = gs_ring_new_buffers(&buffers);
    if (err)
        return err;
    uring->buffers = buffers;
    uring->buffers_used = BUFFERS_STEP;
    err = gs_uring_register_buffers(uring, &uring->ring);
    if (err) {
        gs_ring_free_buffers(&uring->buffers);
        uring->buffers.queue = NULL;
    }
    return err;
}

int gs_uring_start_op(struct gs_loop *loop, struct gs_op *op)
{
    struct uring *uring = loop->poller_state;
    if (op->kind == GS_OP_RECV_MULTISHOT) {
        int err = reserve_buffers(uring);
        if (err)
            return err;
    }
    struct io_uring_sqe *sqe = gs_uring_get_sqe(uring);
    if (!sqe)
        return -ENOMEM;
    op->sq_position = uring->ring.tail - 1;
    fill(uring, op, sqe);
    return 0;
}

int gs_uring_cancel(struct uring *uring, uint32_t sq_position, uint64_t data)
{
    struct io_uring_sqe *sqe = &uring->ring.sqes[sq_position & (uring->ring.sq_count - 1)];
    /* Positions have 32 bits: after so many requests, that of an old one may be another's. */
    bool is_waiting = uring->ring.tail - sq_position <= gs_ring_unsubmitted(&uring->ring) &&
                      sqe->user_data == data;
    if (!is_waiting)
        sqe = gs_uring_get_sqe(uring);
    if (!sqe)
        return -ENOMEM;
    *sqe = (struct io_uring_sqe){
        .opcode = is_waiting ? IORING_OP_NOP : IORING_OP_ASYNC_CANCEL,
        .flags = IOSQE_CQE_SKIP_SUCCESS,
        .fd = -1,
        .addr = is_waiting ? 0 : data,
        .user_data = TAG_IGNORED,
    };
    return is_waiting;
}

int gs_uring_cancel_op(struct gs_loop *loop, struct gs_op *op)
{
    struct uring *uring = loop->poller_state;
    int taken = gs_uring_cancel(uring, op->sq_position, data_of(op));
    if (taken < 0)
        uring->needs_cancel_retry = true;
    return taken;
}

/* ---- Results ---- */

void gs_uring_init_results(struct uring *uring)
{
    /* Index 0 means none. */
    for (unsigned i = 1; i < RESULTS_MAX; i++)
        uring->results[i].next = (uint16_t)(i + 1 < RESULTS_MAX ? i + 1 : 0);
    uring->free_result = 1;
}

static void keep_result(struct uring *uring, struct gs_op *op, const struct io_uring_cqe *cqe)
{
    uint16_t number = uring->free_result;
    struct queued_result *queued = &uring->results[number];
    uring->free_result = queued->next;
    *queued = (struct queued_result){
        .result = cqe->res,
        .buffer = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT),
    };
    if (op->last_result)
        uring->results[op->last_result].next = number;
    else
        op->first_result = number;
    op->last_result = number;
    if (op->kind == GS_OP_RECV_MULTISHOT)
        uring->is_buffer_in_use[queued->buffer] = true;
}

bool gs_uring_next_result(struct gs_loop *loop, struct gs_op *op, struct op_result *ret_result)
{
    struct uring *uring = loop->poller_state;
    uint16_t number = op->first_result;
    if (!number)
        return false;
    struct queued_result *queued = &uring->results[number];
    *ret_result = (struct op_result){.result = queued->result, .buffer = -1};
    if (op->kind == GS_OP_RECV_MULTISHOT) {
        ret_result->buffer = queued->buffer;
        ret_result->bytes = gs_ring_buffer(&uring->buffers, queued->buffer);
    }
    op->first_result = queued->next;
    if (!op->first_result)
        op->last_result = 0;
    queued->next = uring->free_result;
    uring->free_result = number;
    return true;
}

void gs_uring_return_buffer(struct gs_loop *loop, const struct op_result *result)
{
    struct uring *uring = loop->poller_state;
    if (result->buffer < 0)
        return;
    uring->is_buffer_in_use[result->buffer] = false;
    gs_ring_return_buffer(&uring->buffers, (unsigned)result->buffer);
}

/* The kernel ran out of buffers: give it more, at most once per iteration. */
static void add_buffers(const struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    if (uring->grow_iteration == loop->counts.iterations)
        return;
    uring->grow_iteration = loop->counts.iterations;
    for (unsigned more = BUFFERS_STEP; more && uring->buffers_used < BUFFERS_MAX; more--)
        gs_ring_return_buffer(&uring->buffers, uring->buffers_used++);
}

/* Whether the result is one of several, rather than the end. */
static bool is_intermediate(const struct gs_op *op, int result)
{
    return op->kind == GS_OP_RECV_MULTISHOT ? result > 0 : result >= 0;
}

/* Poll the socket of a send that would have blocked, and send when it has room. */
static void complete_single(struct gs_loop *loop, struct gs_op *op, int result)
{
    bool had_to_wait = op->waits_for_room;
    op->waits_for_room = !had_to_wait && is_send(op) && result == -EAGAIN;
    if (op->waits_for_room || (had_to_wait && result >= 0)) {
        result = op->canceled ? -ECANCELED : gs_uring_start_op(loop, op);
        if (!result)
            return;
    }
    if (op->canceled && gs_ring_is_interrupted(result))
        result = -ECANCELED;
    gs_loop_op_finished(op, result);
}

bool gs_uring_complete_op(struct gs_loop *loop, const struct io_uring_cqe *cqe)
{
    struct uring *uring = loop->poller_state;
    struct gs_op *op = (struct gs_op *)(uintptr_t)(cqe->user_data & ~(uint64_t)TAG_MASK);
    if (!is_multishot(op)) {
        complete_single(loop, op, cqe->res);
        return true;
    }
    int result = cqe->res;
    if (is_intermediate(op, result)) {
        if (!uring->free_result)
            return false;
        keep_result(uring, op, cqe);
        gs_loop_op_result_ready(op);
        if (cqe->flags & IORING_CQE_F_MORE)
            return true;
        result = -ENOBUFS;
    }
    /* The kernel has ended the request, for example because all buffers were in use. Those will
     * have been returned by the time the request is submitted again. */
    if (cqe->res == -ENOBUFS)
        add_buffers(loop);
    if (result == -ENOBUFS && !op->canceled) {
        result = gs_uring_start_op(loop, op);
        if (!result)
            return true;
    }
    gs_loop_op_finished(op, result == -ENOBUFS ? -ECANCELED : result);
    return true;
}

/* ---- Buffers ---- */

int gs_uring_register_buffers(struct uring *uring, struct gs_ring *ring)
{
    if (!uring->buffers.queue)
        return 0;
    int err = gs_ring_register_buffers(ring, &uring->buffers);
    for (unsigned i = 0; !err && i < uring->buffers_used; i++)
        if (!uring->is_buffer_in_use[i])
            gs_ring_return_buffer(&uring->buffers, i);
    return err;
}

void gs_uring_free_buffers(struct uring *uring)
{
    if (uring->buffers.queue)
        gs_ring_free_buffers(&uring->buffers);
}
