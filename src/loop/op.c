/* Completions. A poller that supports them executes the operations. On the others, an operation is
 * a descriptor watcher that tries the system call when its descriptor is ready. Operations that
 * usually succeed at once (sends, writes, files) are tried first, and wait only if they would
 * block. */
#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/uio.h>

/* The buffer of gs_op_recv_multishot over readiness. */
#define SCRATCH_SIZE 65536

static unsigned direction_of(const struct gs_op *op)
{
    switch ((enum gs_op_kind)op->kind) {
    case GS_OP_SEND:
    case GS_OP_SENDMSG:
    case GS_OP_WRITE:
    case GS_OP_FSYNC:
    case GS_OP_CONNECT:
        return GS_WRITE;
    default:
        return GS_READ;
    }
}

static bool is_multishot(const struct gs_op *op)
{
    return op->kind == GS_OP_ACCEPT_MULTISHOT || op->kind == GS_OP_RECV_MULTISHOT;
}

/* Whether a multishot operation continues after this result. */
static bool continues_after(const struct gs_op *op, int64_t result)
{
    return op->kind == GS_OP_RECV_MULTISHOT ? result > 0 : result >= 0;
}

/* For descriptors without non-blocking calls: poll first. A pipe that is writable has room for
 * PIPE_BUF bytes. */
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

/* Read or write: with RWF_NOWAIT if the descriptor supports it, else after a poll. Files are read
 * and written synchronously. */
static ssize_t transfer(const struct gs_op *op)
{
    const struct gs_io *io = &op->io;
    struct iovec part = {.iov_base = op->bytes, .iov_len = op->n};
    bool is_file = op->offset != GS_OP_CURRENT_OFFSET ||
                   io->watcher.loop->slots[io->fd].flags & SLOT_ALWAYS_READY;
    bool is_read = op->kind == GS_OP_READ;
    int flags = is_file ? 0 : RWF_NOWAIT;
    ssize_t n = is_read ? gs_sys_preadv2(io->fd, &part, 1, (off_t)op->offset, flags)
                        : gs_sys_pwritev2(io->fd, &part, 1, (off_t)op->offset, flags);
    return n != -EOPNOTSUPP || is_file ? n : transfer_if_ready(op, is_read);
}

static ssize_t attempt(const struct gs_op *op)
{
    switch ((enum gs_op_kind)op->kind) {
    case GS_OP_ACCEPT:
    case GS_OP_ACCEPT_MULTISHOT:
        return gs_sys_accept(op->io.fd, NULL, NULL, op->flags);
    case GS_OP_RECV:
    case GS_OP_RECV_MULTISHOT:
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
    case GS_OP_CONNECT:
        return gs_sys_connect(op->io.fd, op->bytes, (socklen_t)op->n);
    case GS_OP_OPEN:
    case GS_OP_RESOLVE:
        break;
    }
    return -EINVAL;
}

/* Whether the attempt is to be repeated when the descriptor is ready. A repeated connect returns
 * the outcome. One that fails with -EAGAIN has reached a limit, and no event would follow. */
static bool must_wait(const struct gs_op *op, ssize_t result)
{
    if (op->kind == GS_OP_CONNECT)
        return result == -EINPROGRESS || result == -EALREADY;
    return result == -EAGAIN;
}

static void finish(struct gs_op *op, int64_t result)
{
    gs_loop_op_reset(op);
    op->callback(op, result);
}

/* ---- Over readiness ---- */

static void attempt_when_ready(struct gs_op *op, unsigned events)
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
        result = attempt(op);
    while (result == -EINTR);
    if (must_wait(op, result))
        gs_io_set_events(&op->io, direction_of(op));
    else if (is_multishot(op) && continues_after(op, result))
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

/* ---- With a poller's completions ---- */

/* The kernel executes it, and no result is pending. */
static void wait_for_result(struct gs_op *op)
{
    if (!gs_list_is_linked(&op->io.watcher.pending))
        gs_list_append(&op->io.watcher.loop->active_ops, &op->io.watcher.pending);
}

static void set_pending(struct gs_op *op)
{
    struct gs_list *link = &op->io.watcher.pending;
    if (!op->has_result && gs_list_is_linked(link))
        gs_list_remove(link);
    op->has_result = true;
    gs_loop_set_pending(&op->io.watcher, 0);
}

void gs_loop_op_result_ready(struct gs_op *op)
{
    set_pending(op);
}

void gs_loop_op_finished(struct gs_op *op, int64_t result)
{
    set_pending(op);
    op->result = result;
    op->is_submitted = false;
}

/* A callback may run the loop, in which the operation may finish or be called again. */
static void call_with_results(struct gs_op *op)
{
    struct gs_loop *loop = op->io.watcher.loop;
    struct op_result next;
    bool is_finished = false, is_nested = op->is_finished != NULL;
    if (!is_nested)
        op->is_finished = &is_finished;
    bool *finished = op->is_finished;
    while (!*finished && loop->poller->next_result(loop, op, &next)) {
        op->bytes = next.bytes;
        op->callback(op, next.result);
        loop->poller->return_buffer(loop, &next);
    }
    if (!*finished && !is_nested)
        op->is_finished = NULL;
    if (!*finished && !op->is_submitted)
        finish(op, op->result);
    else if (!*finished)
        wait_for_result(op);
}

static void call_back(struct gs_op *op)
{
    op->has_result = false;
    if (is_multishot(op))
        call_with_results(op);
    else if (!op->is_submitted)
        finish(op, op->result);
    else
        wait_for_result(op);
}

static int submit(struct gs_op *op)
{
    struct gs_loop *loop = op->io.watcher.loop;
    int err = loop->poller->start_op(loop, op);
    if (err)
        return err;
    op->is_submitted = true;
    wait_for_result(op);
    return 0;
}

/* ---- Both ---- */

static void on_pending(struct gs_io *io, unsigned events)
{
    struct gs_op *op = gs_container_of(io, struct gs_op, io);
    if (io->watcher.loop->poller->start_op || io->fd < 0)
        call_back(op);
    else
        attempt_when_ready(op, events);
}

void gs_op_init(struct gs_op *op, struct gs_loop *loop, gs_op_fn *callback)
{
    CHECKED_INIT(&op->io.watcher);
    *op = (struct gs_op){.callback = callback};
    gs_io_init(&op->io, loop, on_pending);
    op->io.watcher.kind = KIND_OP;
}

/* The members of struct gs_op with the same names. */
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
    bool is_submitted = op->io.watcher.loop->poller->start_op;
    op->kind = (uint8_t)request.kind;
    op->bytes = request.bytes;
    op->n = request.n;
    op->offset = request.offset;
    op->flags = request.flags;
    bool is_tried_first = direction_of(op) == GS_WRITE || op->offset != GS_OP_CURRENT_OFFSET;
    unsigned wanted = is_tried_first || is_submitted ? 0 : GS_READ;
    if (op->io.fd == request.fd)
        gs_io_set_events(&op->io, wanted);
    else
        gs_io_set(&op->io, request.fd, wanted);
    int err = request.kind == GS_OP_RECV_MULTISHOT && !is_submitted ? reserve_scratch(op) : 0;
    if (!err)
        err = gs_io_start(&op->io);
    if (!err && is_submitted)
        err = submit(op);
    if (err)
        gs_loop_op_reset(op);
    else if (is_tried_first && !is_submitted)
        gs_loop_set_pending(&op->io.watcher, 0);
    return err;
}

int gs_op_accept(struct gs_op *op, int fd, int flags)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(op, (struct request){GS_OP_ACCEPT, fd, flags, NULL, 0, GS_OP_CURRENT_OFFSET});
}

int gs_op_recv(struct gs_op *op, int fd, void *bytes, size_t n, int flags)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(op, (struct request){GS_OP_RECV, fd, flags, bytes, n, GS_OP_CURRENT_OFFSET});
}

int gs_op_send(struct gs_op *op, int fd, const void *bytes, size_t n, int flags)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(op,
                 (struct request){GS_OP_SEND, fd, flags, (void *)bytes, n, GS_OP_CURRENT_OFFSET});
}

int gs_op_connect(struct gs_op *op, int fd, const struct sockaddr *address, socklen_t length)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(
        op, (struct request){GS_OP_CONNECT, fd, 0, (void *)address, length, GS_OP_CURRENT_OFFSET});
}

int gs_op_read(struct gs_op *op, int fd, void *bytes, size_t n, uint64_t offset)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(op, (struct request){GS_OP_READ, fd, 0, bytes, n, offset});
}

int gs_op_write(struct gs_op *op, int fd, const void *bytes, size_t n, uint64_t offset)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(op, (struct request){GS_OP_WRITE, fd, 0, (void *)bytes, n, offset});
}

int gs_op_sendmsg(struct gs_op *op, int fd, const struct msghdr *message, int flags)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(
        op, (struct request){GS_OP_SENDMSG, fd, flags, (void *)message, 1, GS_OP_CURRENT_OFFSET});
}

int gs_op_fsync(struct gs_op *op, int fd)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(op, (struct request){GS_OP_FSYNC, fd, 0, NULL, 0, GS_OP_CURRENT_OFFSET});
}

int gs_op_accept_multishot(struct gs_op *op, int fd, int flags)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(
        op, (struct request){GS_OP_ACCEPT_MULTISHOT, fd, flags, NULL, 0, GS_OP_CURRENT_OFFSET});
}

int gs_op_recv_multishot(struct gs_op *op, int fd)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    return start(op, (struct request){GS_OP_RECV_MULTISHOT, fd, 0, NULL, 0, GS_OP_CURRENT_OFFSET});
}

void gs_op_cancel(struct gs_op *op)
{
    CHECKED_STOP(&op->io.watcher);
    struct gs_loop *loop = op->io.watcher.loop;
    if (!op->kind || op->canceled)
        return;
    op->canceled = true;
    if (op->call) {
        if (gs_loop_op_drop_call(op))
            gs_loop_op_finished(op, -ECANCELED);
    } else if (!loop->poller->start_op)
        gs_loop_set_pending(&op->io.watcher, 0);
    else if (op->is_submitted && loop->poller->cancel_op(loop, op) > 0)
        gs_loop_op_finished(op, -ECANCELED);
}

static struct gs_op *op_at(struct gs_list *link)
{
    return gs_container_of(link, struct gs_op, io.watcher.pending);
}

/* Called by gs_loop_for_each, so no list may be changed here. */
static void retry_cancel(struct gs_watcher *watcher, void *data)
{
    struct gs_op *op = (struct gs_op *)watcher;
    bool *is_done = data;
    if (watcher->kind != KIND_OP || !op->canceled || !op->is_submitted || op->call)
        return;
    int taken = watcher->loop->poller->cancel_op(watcher->loop, op);
    if (taken > 0)
        op->is_submitted = false;
    *is_done = *is_done && taken >= 0;
}

/* Submitting a cancellation twice is harmless: the second finds nothing. */
bool gs_loop_retry_cancels(struct gs_loop *loop)
{
    bool is_done = true;
    gs_loop_for_each(loop, retry_cancel, &is_done);
    for (struct gs_list *link = loop->active_ops.next, *next; link != &loop->active_ops;
         link = next) {
        next = link->next;
        if (!op_at(link)->is_submitted)
            gs_loop_op_finished(op_at(link), -ECANCELED);
    }
    return is_done;
}

/* Release the results that no callback will get. */
static void drop_results(struct gs_op *op)
{
    struct gs_loop *loop = op->io.watcher.loop;
    struct op_result next;
    bool is_descriptor = op->kind == GS_OP_ACCEPT || op->kind == GS_OP_OPEN;
    if (is_descriptor && op->has_result && !op->is_submitted && op->result >= 0)
        gs_sys_close((int)op->result);
    while (op->first_result && loop->poller->next_result(loop, op, &next)) {
        if (op->kind == GS_OP_ACCEPT_MULTISHOT)
            gs_sys_close((int)next.result);
        loop->poller->return_buffer(loop, &next);
    }
}

void gs_loop_op_reset(struct gs_op *op)
{
    drop_results(op);
    if (op->call)
        gs_loop_op_leave_call(op);
    if (op->io.fd >= 0)
        gs_io_stop(&op->io);
    else if (op->io.watcher.active)
        gs_loop_deactivate(&op->io.watcher);
    if (op->is_finished)
        *op->is_finished = true;
    op->is_finished = NULL;
    op->kind = 0;
    op->canceled = op->is_submitted = op->has_result = op->waits_for_room = false;
}

void gs_loop_op_stop(struct gs_op *op)
{
    op->io.watcher.loop->stopped_ops += op->is_submitted;
    gs_loop_op_reset(op);
}

/* ---- After a fork ---- */

static void cancel_in_child(struct gs_watcher *watcher, void *data)
{
    struct gs_op *op = (struct gs_op *)watcher;
    (void)data;
    if (watcher->kind != KIND_OP)
        return;
    drop_results(op);
    op->canceled = true;
    if (op->call)
        gs_loop_op_leave_call(op);
    if (watcher->loop->poller->start_op || op->io.fd < 0)
        gs_loop_op_finished(op, -ECANCELED);
    else
        gs_loop_set_pending(watcher, 0);
}

/* First the operations that are not pending: afterwards all are pending, and none changes its list
 * while all are visited. */
void gs_loop_cancel_ops_after_fork(struct gs_loop *loop)
{
    while (!gs_list_is_empty(&loop->active_ops))
        cancel_in_child(&op_at(gs_list_first(&loop->active_ops))->io.watcher, NULL);
    gs_loop_for_each(loop, cancel_in_child, NULL);
}

void gs_loop_op_closed(struct gs_op *op)
{
    gs_loop_unlink_io(&op->io);
    gs_op_cancel(op);
}
