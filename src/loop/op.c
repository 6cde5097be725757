/* Completions. A poller that knows them takes the operations over, and answers. Over readiness, an
 * operation is an I/O watcher that tries the system call when its descriptor is ready; what nearly
 * always succeeds at once (sends, writes, files) is tried first and watched only if it would
 * block. */
#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/uio.h>

/* What gs_op_recv_each receives into over readiness. */
#define SCRATCH_SIZE 65536

static unsigned direction_of(const struct gs_op *op)
{
    switch ((enum gs_op_kind)op->kind) {
    case GS_OP_SEND:
    case GS_OP_SENDMSG:
    case GS_OP_WRITE:
    case GS_OP_FSYNC:
        return GS_WRITE;
    default:
        return GS_READ;
    }
}

static bool has_many(const struct gs_op *op)
{
    return op->kind == GS_OP_ACCEPT_EACH || op->kind == GS_OP_RECV_EACH;
}

/* Whether an operation that has many answers goes on after this one. */
static bool goes_on(const struct gs_op *op, int64_t result)
{
    return op->kind == GS_OP_RECV_EACH ? result > 0 : result >= 0;
}

/* What can't be asked not to wait is asked whether it would. A pipe that is writable has room for PIPE_BUF bytes. */
static ssize_t transfer_if_ready(const struct gs_op *op, bool is_read)
{
    struct pollfd poll = {.fd = op->io.fd, .events = is_read ? POLLIN : POLLOUT};
    int ready = gs_sys_poll(&poll, 1, 0);
    if (ready <= 0)
        return ready < 0 ? ready : -EAGAIN;
    if (is_read)
        return gs_sys_read(poll.fd, op->bytes, op->n);
    return gs_sys_write(poll.fd, op->bytes, op->n < PIPE_BUF ? op->n : PIPE_BUF);
}

/* Without waiting where the descriptor can do so by call; with files and what has no such way, as
 * read and write do. */
static ssize_t transfer(const struct gs_op *op)
{
    const struct gs_io *io = &op->io;
    struct iovec part = {.iov_base = op->bytes, .iov_len = op->n};
    bool is_file = op->offset != GS_OP_HERE || io->watcher.loop->slots[io->fd].flags & SLOT_FILE;
    bool is_read = op->kind == GS_OP_READ;
    int flags = is_file ? 0 : RWF_NOWAIT;
    ssize_t n = is_read ? gs_sys_preadv2(io->fd, &part, 1, (off_t)op->offset, flags)
                        : gs_sys_pwritev2(io->fd, &part, 1, (off_t)op->offset, flags);
    return n != -EOPNOTSUPP || is_file ? n : transfer_if_ready(op, is_read);
}

static ssize_t try(const struct gs_op *op)
{
    switch ((enum gs_op_kind)op->kind) {
    case GS_OP_ACCEPT:
    case GS_OP_ACCEPT_EACH:
        return gs_sys_accept(op->io.fd, NULL, NULL, op->flags);
    case GS_OP_RECV:
    case GS_OP_RECV_EACH:
        return gs_sys_recv(op->io.fd, op->bytes, op->n, op->flags | MSG_DONTWAIT);
    case GS_OP_SEND:
        return gs_sys_send(op->io.fd, op->bytes, op->n, op->flags | MSG_DONTWAIT);
    case GS_OP_SENDMSG:
        return gs_sys_sendmsg(op->io.fd, op->bytes, op->flags | MSG_DONTWAIT);
    case GS_OP_READ:
    case GS_OP_WRITE:
        return transfer(op);
    case GS_OP_FSYNC:
        return gs_sys_fsync(op->io.fd);
    }
    return -EINVAL;
}

static void finish(struct gs_op *op, int64_t result)
{
    gs_loop_op_abandon(op);
    op->callback(op, result);
}

/* ---- Over readiness ---- */

static void try_when_ready(struct gs_op *op, unsigned events)
{
    if (op->canceled) {
        finish(op, -ECANCELED);
        return;
    }
    if (events & GS_FAILED) {
        finish(op, gs_io_error(&op->io));
        return;
    }
    ssize_t result;
    do
        result = try(op);
    while (result == -EINTR);
    if (result == -EAGAIN)
        gs_io_want(&op->io, direction_of(op));
    else if (has_many(op) && goes_on(op, result))
        op->callback(op, result);
    else
        finish(op, result);
}

static int reserve_scratch(struct gs_op *op)
{
    struct gs_loop *loop = op->io.watcher.loop;
    if (!loop->scratch)
        loop->scratch = malloc(SCRATCH_SIZE);
    op->bytes = loop->scratch;
    op->n = SCRATCH_SIZE;
    return loop->scratch ? 0 : -ENOMEM;
}

/* ---- Over a poller's completions ---- */

/* It is with the kernel, and nothing is to be called for now. */
static void wait_for_answer(struct gs_op *op)
{
    if (!gs_list_is_linked(&op->io.watcher.pending))
        gs_list_append(&op->io.watcher.loop->under_way, &op->io.watcher.pending);
}

static void pend(struct gs_op *op)
{
    struct gs_list *link = &op->io.watcher.pending;
    if (!op->has_answer && gs_list_is_linked(link))
        gs_list_remove(link);
    op->has_answer = true;
    gs_loop_pend(&op->io.watcher, 0);
}

void gs_loop_op_answered(struct gs_op *op)
{
    pend(op);
}

void gs_loop_op_ended(struct gs_op *op, int64_t result)
{
    pend(op);
    op->result = result;
    op->is_handed = false;
}

/* The callback may run the loop, in which the operation may end; or be called again. */
static void call_each(struct gs_op *op)
{
    struct gs_loop *loop = op->io.watcher.loop;
    struct op_answer answer;
    bool is_over = false, is_inner = op->is_over != NULL;
    if (!is_inner)
        op->is_over = &is_over;
    bool *over = op->is_over;
    while (!*over && loop->poller->next_answer(loop, op, &answer)) {
        op->bytes = answer.bytes;
        op->callback(op, answer.result);
        loop->poller->give_back(loop, &answer);
    }
    if (!*over && !is_inner)
        op->is_over = NULL;
    if (!*over && !op->is_handed)
        finish(op, op->result);
    else if (!*over)
        wait_for_answer(op);
}

static void call_back(struct gs_op *op)
{
    op->has_answer = false;
    if (has_many(op))
        call_each(op);
    else if (!op->is_handed)
        finish(op, op->result);
    else
        wait_for_answer(op);
}

static int hand_over(struct gs_op *op)
{
    struct gs_loop *loop = op->io.watcher.loop;
    int err = loop->poller->start_op(loop, op);
    if (err)
        return err;
    op->is_handed = true;
    wait_for_answer(op);
    return 0;
}

static void restart(struct gs_watcher *watcher, void *data)
{
    struct gs_op *op = (struct gs_op *)watcher;
    (void)data;
    if (watcher->kind != KIND_OP || !op->is_handed)
        return;
    int err = op->canceled ? -ECANCELED : watcher->loop->poller->start_op(watcher->loop, op);
    if (err)
        gs_loop_op_ended(op, err);
}

void gs_loop_ops_lost(struct gs_loop *loop)
{
    gs_loop_each(loop, restart, NULL);
}

/* ---- Both ---- */

static void on_pending(struct gs_io *io, unsigned events)
{
    struct gs_op *op = gs_container_of(io, struct gs_op, io);
    if (io->watcher.loop->poller->start_op)
        call_back(op);
    else
        try_when_ready(op, events);
}

void gs_op_init(struct gs_op *op, struct gs_loop *loop, gs_op_fn *callback)
{
    *op = (struct gs_op){.callback = callback};
    gs_io_init(&op->io, loop, on_pending);
    op->io.watcher.kind = KIND_OP;
}

/* What is asked for: the members of struct gs_op of the same names. */
struct request {
    enum gs_op_kind kind;
    int fd, flags;
    void *bytes;
    size_t n;
    uint64_t offset;
};

static int start(struct gs_op *op, struct request request)
{
    if (op->kind)
        return -EBUSY;
    bool is_handed = op->io.watcher.loop->poller->start_op;
    op->kind = (uint8_t)request.kind;
    op->bytes = request.bytes;
    op->n = request.n;
    op->offset = request.offset;
    op->flags = request.flags;
    bool is_tried_first = direction_of(op) == GS_WRITE || op->offset != GS_OP_HERE;
    unsigned wanted = is_tried_first || is_handed ? 0 : GS_READ;
    if (op->io.fd == request.fd)
        gs_io_want(&op->io, wanted);
    else
        gs_io_set(&op->io, request.fd, wanted);
    int err = request.kind == GS_OP_RECV_EACH && !is_handed ? reserve_scratch(op) : 0;
    if (!err)
        err = gs_io_start(&op->io);
    if (!err && is_handed)
        err = hand_over(op);
    if (err)
        gs_loop_op_abandon(op);
    else if (is_tried_first && !is_handed)
        gs_loop_pend(&op->io.watcher, 0);
    return err;
}

int gs_op_accept(struct gs_op *op, int fd, int flags)
{
    return start(op, (struct request){GS_OP_ACCEPT, fd, flags, NULL, 0, GS_OP_HERE});
}

int gs_op_recv(struct gs_op *op, int fd, void *bytes, size_t n, int flags)
{
    return start(op, (struct request){GS_OP_RECV, fd, flags, bytes, n, GS_OP_HERE});
}

int gs_op_send(struct gs_op *op, int fd, const void *bytes, size_t n, int flags)
{
    return start(op, (struct request){GS_OP_SEND, fd, flags, (void *)bytes, n, GS_OP_HERE});
}

int gs_op_read(struct gs_op *op, int fd, void *bytes, size_t n, uint64_t offset)
{
    return start(op, (struct request){GS_OP_READ, fd, 0, bytes, n, offset});
}

int gs_op_write(struct gs_op *op, int fd, const void *bytes, size_t n, uint64_t offset)
{
    return start(op, (struct request){GS_OP_WRITE, fd, 0, (void *)bytes, n, offset});
}

int gs_op_sendmsg(struct gs_op *op, int fd, const struct msghdr *message, int flags)
{
    return start(op, (struct request){GS_OP_SENDMSG, fd, flags, (void *)message, 1, GS_OP_HERE});
}

int gs_op_fsync(struct gs_op *op, int fd)
{
    return start(op, (struct request){GS_OP_FSYNC, fd, 0, NULL, 0, GS_OP_HERE});
}

int gs_op_accept_each(struct gs_op *op, int fd, int flags)
{
    return start(op, (struct request){GS_OP_ACCEPT_EACH, fd, flags, NULL, 0, GS_OP_HERE});
}

int gs_op_recv_each(struct gs_op *op, int fd)
{
    return start(op, (struct request){GS_OP_RECV_EACH, fd, 0, NULL, 0, GS_OP_HERE});
}

void gs_op_cancel(struct gs_op *op)
{
    struct gs_loop *loop = op->io.watcher.loop;
    if (!op->kind || op->canceled)
        return;
    op->canceled = true;
    if (!loop->poller->start_op)
        gs_loop_pend(&op->io.watcher, 0);
    else if (op->is_handed && loop->poller->cancel_op(loop, op))
        gs_loop_op_ended(op, -ECANCELED);
}

/* What nobody will be called for. */
static void drop_answers(struct gs_op *op)
{
    struct gs_loop *loop = op->io.watcher.loop;
    struct op_answer answer;
    while (op->first_answer && loop->poller->next_answer(loop, op, &answer)) {
        if (op->kind == GS_OP_ACCEPT_EACH)
            gs_sys_close((int)answer.result);
        loop->poller->give_back(loop, &answer);
    }
}

void gs_loop_op_abandon(struct gs_op *op)
{
    drop_answers(op);
    gs_io_stop(&op->io);
    if (op->is_over)
        *op->is_over = true;
    op->is_over = NULL;
    op->kind = 0;
    op->canceled = op->is_handed = op->has_answer = false;
}

void gs_loop_op_closed(struct gs_op *op)
{
    gs_loop_unlink_io(&op->io);
    gs_op_cancel(op);
}
