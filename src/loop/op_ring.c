/* Operations by io_uring: each is a request, whose data is the operation's address. Those that are
 * answered again and again have a queue of answers that wait for their callbacks. */
#include "loop/uring.h"

#include <errno.h>
#include <gossamer/sys.h>

static bool has_many(const struct gs_op *op)
{
    return op->kind == GS_OP_ACCEPT_EACH || op->kind == GS_OP_RECV_EACH;
}

static uint64_t data_of(const struct gs_op *op)
{
    bool is_accept = op->kind == GS_OP_ACCEPT || op->kind == GS_OP_ACCEPT_EACH;
    return (uintptr_t)op | (is_accept ? FOR_ACCEPT : FOR_OP);
}

static void fill(const struct uring *uring, const struct gs_op *op, struct io_uring_sqe *entry)
{
    static const uint8_t codes[] = {
        [GS_OP_ACCEPT] = IORING_OP_ACCEPT,  [GS_OP_RECV] = IORING_OP_RECV,
        [GS_OP_SEND] = IORING_OP_SEND,      [GS_OP_READ] = IORING_OP_READ,
        [GS_OP_WRITE] = IORING_OP_WRITE,    [GS_OP_SENDMSG] = IORING_OP_SENDMSG,
        [GS_OP_FSYNC] = IORING_OP_FSYNC,    [GS_OP_ACCEPT_EACH] = IORING_OP_ACCEPT,
        [GS_OP_RECV_EACH] = IORING_OP_RECV,
    };
    entry->opcode = codes[op->kind];
    entry->fd = op->io.fd;
    entry->user_data = data_of(op);
    if (op->kind == GS_OP_RECV_EACH) {
        entry->ioprio = IORING_RECV_MULTISHOT;
        entry->flags = IOSQE_BUFFER_SELECT;
        entry->buf_group = uring->buffers.group;
        return;
    }
    entry->addr = (uintptr_t)op->bytes;
    entry->len = (uint32_t)(op->n < INT32_MAX ? op->n : INT32_MAX);
    entry->msg_flags = (uint32_t)op->flags;
    if (op->kind == GS_OP_READ || op->kind == GS_OP_WRITE)
        entry->off = op->offset;
    if (op->kind == GS_OP_SEND || op->kind == GS_OP_SENDMSG)
        entry->msg_flags |= MSG_NOSIGNAL;
    if (op->kind == GS_OP_ACCEPT_EACH)
        entry->ioprio = IORING_ACCEPT_MULTISHOT;
}

static int reserve_buffers(struct uring *uring)
{
    struct gs_ring_buffers buffers = {.size = BUFFER_SIZE, .count = BUFFERS};
    if (uring->buffers.queue)
        return 0;
    int err = gs_ring_new_buffers(&buffers);
    if (err)
        return err;
    uring->buffers = buffers;
    uring->in_use = FIRST_BUFFERS;
    err = gs_uring_move_buffers(uring, &uring->ring);
    if (err) {
        gs_ring_free_buffers(&uring->buffers);
        uring->buffers.queue = NULL;
    }
    return err;
}

int gs_uring_start_op(struct gs_loop *loop, struct gs_op *op)
{
    struct uring *uring = loop->poller_state;
    if (op->kind == GS_OP_RECV_EACH) {
        int err = reserve_buffers(uring);
        if (err)
            return err;
    }
    struct io_uring_sqe *entry = gs_uring_entry(uring);
    if (!entry)
        return -ENOMEM;
    op->place = uring->ring.tail - 1;
    fill(uring, op, entry);
    return 0;
}

int gs_uring_cancel(struct uring *uring, uint32_t place, uint64_t data)
{
    struct io_uring_sqe *entry;
    bool is_waiting = uring->ring.tail - place <= gs_ring_waiting(&uring->ring);
    if (is_waiting)
        entry = &uring->ring.sqes[place & (uring->ring.sq_count - 1)];
    else
        entry = gs_uring_entry(uring);
    if (!entry)
        return -ENOMEM;
    *entry = (struct io_uring_sqe){
        .opcode = is_waiting ? IORING_OP_NOP : IORING_OP_ASYNC_CANCEL,
        .flags = IOSQE_CQE_SKIP_SUCCESS,
        .fd = -1,
        .addr = is_waiting ? 0 : data,
        .user_data = FOR_NOBODY,
    };
    return is_waiting;
}

bool gs_uring_cancel_op(struct gs_loop *loop, struct gs_op *op)
{
    return gs_uring_cancel(loop->poller_state, op->place, data_of(op)) == 1;
}

/* ---- Calls ---- */

struct io_uring_sqe *gs_uring_begin_call(struct gs_loop *loop, struct uring_call *call,
                                         unsigned whose)
{
    struct uring *uring = loop->poller_state;
    struct io_uring_sqe *entry = gs_uring_entry(uring);
    if (!entry)
        return NULL;
    call->place = uring->ring.tail - 1;
    entry->user_data = (uintptr_t)call | whose;
    return entry;
}

int gs_uring_cancel_call(struct gs_loop *loop, const struct uring_call *call, unsigned whose)
{
    return gs_uring_cancel(loop->poller_state, call->place, (uintptr_t)call | whose);
}

/* ---- Answers ---- */

void gs_uring_init_answers(struct uring *uring)
{
    /* 0 is no number. */
    for (unsigned i = 1; i < ANSWERS; i++)
        uring->answers[i].next = (uint16_t)(i + 1 < ANSWERS ? i + 1 : 0);
    uring->free_answer = 1;
}

static void keep_answer(struct uring *uring, struct gs_op *op, const struct io_uring_cqe *cqe)
{
    uint16_t number = uring->free_answer;
    struct answer *answer = &uring->answers[number];
    uring->free_answer = answer->next;
    *answer = (struct answer){
        .result = cqe->res,
        .buffer = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT),
    };
    if (op->last_answer)
        uring->answers[op->last_answer].next = number;
    else
        op->first_answer = number;
    op->last_answer = number;
    if (op->kind == GS_OP_RECV_EACH)
        uring->is_lent[answer->buffer] = true;
}

bool gs_uring_next_answer(struct gs_loop *loop, struct gs_op *op, struct op_answer *ret_answer)
{
    struct uring *uring = loop->poller_state;
    uint16_t number = op->first_answer;
    if (!number)
        return false;
    struct answer *answer = &uring->answers[number];
    *ret_answer = (struct op_answer){.result = answer->result, .buffer = -1};
    if (op->kind == GS_OP_RECV_EACH) {
        ret_answer->buffer = answer->buffer;
        ret_answer->bytes = gs_ring_buffer(&uring->buffers, answer->buffer);
    }
    op->first_answer = answer->next;
    if (!op->first_answer)
        op->last_answer = 0;
    answer->next = uring->free_answer;
    uring->free_answer = number;
    return true;
}

void gs_uring_give_back(struct gs_loop *loop, const struct op_answer *answer)
{
    struct uring *uring = loop->poller_state;
    if (answer->buffer < 0)
        return;
    uring->is_lent[answer->buffer] = false;
    gs_ring_give_buffer(&uring->buffers, (unsigned)answer->buffer);
}

/* There were too few: for many at once, too, a few more must do, once an iteration. */
static void use_more_buffers(const struct gs_loop *loop, struct uring *uring)
{
    if (uring->grown_in == loop->counts.iterations)
        return;
    uring->grown_in = loop->counts.iterations;
    for (unsigned more = FIRST_BUFFERS; more && uring->in_use < BUFFERS; more--)
        gs_ring_give_buffer(&uring->buffers, uring->in_use++);
}

/* Whether it brings something, rather than the end. */
static bool is_one_of_many(const struct gs_op *op, int result)
{
    return op->kind == GS_OP_RECV_EACH ? result > 0 : result >= 0;
}

bool gs_uring_answer_op(struct gs_loop *loop, const struct io_uring_cqe *cqe)
{
    struct uring *uring = loop->poller_state;
    struct gs_op *op = (struct gs_op *)(uintptr_t)(cqe->user_data & ~(uint64_t)FOR_MASK);
    if (!has_many(op)) {
        gs_loop_op_ended(op, cqe->res);
        return true;
    }
    int result = cqe->res;
    if (is_one_of_many(op, result)) {
        if (!uring->free_answer)
            return false;
        keep_answer(uring, op, cqe);
        gs_loop_op_answered(op);
        if (cqe->flags & IORING_CQE_F_MORE)
            return true;
        result = -ENOBUFS;
    }
    /* The kernel has stopped for a reason of its own, such as that all buffers were lent: those
     * are back before the request is handed over anew. */
    if (cqe->res == -ENOBUFS)
        use_more_buffers(loop, uring);
    if (result == -ENOBUFS && !op->canceled) {
        result = gs_uring_start_op(loop, op);
        if (!result)
            return true;
    }
    gs_loop_op_ended(op, result == -ENOBUFS ? -ECANCELED : result);
    return true;
}

/* ---- Buffers ---- */

int gs_uring_move_buffers(struct uring *uring, struct gs_ring *ring)
{
    if (!uring->buffers.queue)
        return 0;
    int err = gs_ring_register_buffers(ring, &uring->buffers);
    for (unsigned i = 0; !err && i < uring->in_use; i++)
        if (!uring->is_lent[i])
            gs_ring_give_buffer(&uring->buffers, i);
    return err;
}

void gs_uring_free_buffers(struct uring *uring)
{
    if (uring->buffers.queue)
        gs_ring_free_buffers(&uring->buffers);
}
