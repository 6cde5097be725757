/* Completions over readiness: an operation is an I/O watcher that tries the system call when its
 * descriptor is ready. What nearly always succeeds at once (sends, writes, files) is tried first
 * and watched only if it would block. */
#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/uio.h>

static unsigned direction_of(const struct gs_op *op)
{
    return op->kind == GS_OP_SEND || op->kind == GS_OP_WRITE ? GS_WRITE : GS_READ;
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
    if (n != -EOPNOTSUPP || is_file)
        return n;
    return is_read ? gs_sys_read(io->fd, op->bytes, op->n) : gs_sys_write(io->fd, op->bytes, op->n);
}

static ssize_t try(const struct gs_op *op)
{
    switch ((enum gs_op_kind)op->kind) {
    case GS_OP_ACCEPT:
        return gs_sys_accept(op->io.fd, NULL, NULL, op->flags);
    case GS_OP_RECV:
        return gs_sys_recv(op->io.fd, op->bytes, op->n, op->flags | MSG_DONTWAIT);
    case GS_OP_SEND:
        return gs_sys_send(op->io.fd, op->bytes, op->n, op->flags | MSG_DONTWAIT);
    case GS_OP_READ:
    case GS_OP_WRITE:
        return transfer(op);
    }
    return -EINVAL;
}

static void finish(struct gs_op *op, int64_t result)
{
    gs_loop_op_abandon(op);
    op->callback(op, result);
}

static void on_ready(struct gs_io *io, unsigned events)
{
    struct gs_op *op = gs_container_of(io, struct gs_op, io);
    if (op->canceled) {
        finish(op, -ECANCELED);
        return;
    }
    if (events & GS_FAILED) {
        finish(op, gs_io_error(io));
        return;
    }
    ssize_t result;
    do
        result = try(op);
    while (result == -EINTR);
    if (result == -EAGAIN)
        gs_io_want(io, direction_of(op));
    else
        finish(op, result);
}

void gs_op_init(struct gs_op *op, struct gs_loop *loop, gs_op_fn *callback)
{
    *op = (struct gs_op){.callback = callback};
    gs_io_init(&op->io, loop, on_ready);
    op->io.watcher.kind = KIND_OP;
}

/* The rest of the members is set by the caller beforehand. */
static int start(struct gs_op *op, enum gs_op_kind kind, int fd)
{
    op->kind = (uint8_t)kind;
    bool is_tried_first = direction_of(op) == GS_WRITE || op->offset != GS_OP_HERE;
    unsigned wanted = is_tried_first ? 0 : GS_READ;
    if (op->io.fd == fd)
        gs_io_want(&op->io, wanted);
    else
        gs_io_set(&op->io, fd, wanted);
    int err = gs_io_start(&op->io);
    if (err)
        op->kind = 0;
    else if (is_tried_first)
        gs_loop_pend(&op->io.watcher, 0);
    return err;
}

int gs_op_accept(struct gs_op *op, int fd, int flags)
{
    if (op->kind)
        return -EBUSY;
    op->offset = GS_OP_HERE;
    op->flags = flags;
    return start(op, GS_OP_ACCEPT, fd);
}

int gs_op_recv(struct gs_op *op, int fd, void *bytes, size_t n, int flags)
{
    if (op->kind)
        return -EBUSY;
    op->bytes = bytes;
    op->n = n;
    op->offset = GS_OP_HERE;
    op->flags = flags;
    return start(op, GS_OP_RECV, fd);
}

int gs_op_send(struct gs_op *op, int fd, const void *bytes, size_t n, int flags)
{
    if (op->kind)
        return -EBUSY;
    op->bytes = (void *)bytes;
    op->n = n;
    op->offset = GS_OP_HERE;
    op->flags = flags;
    return start(op, GS_OP_SEND, fd);
}

int gs_op_read(struct gs_op *op, int fd, void *bytes, size_t n, uint64_t offset)
{
    if (op->kind)
        return -EBUSY;
    op->bytes = bytes;
    op->n = n;
    op->offset = offset;
    return start(op, GS_OP_READ, fd);
}

int gs_op_write(struct gs_op *op, int fd, const void *bytes, size_t n, uint64_t offset)
{
    if (op->kind)
        return -EBUSY;
    op->bytes = (void *)bytes;
    op->n = n;
    op->offset = offset;
    return start(op, GS_OP_WRITE, fd);
}

void gs_op_cancel(struct gs_op *op)
{
    if (!op->kind)
        return;
    op->canceled = true;
    gs_loop_pend(&op->io.watcher, 0);
}

void gs_loop_op_abandon(struct gs_op *op)
{
    gs_io_stop(&op->io);
    op->kind = 0;
    op->canceled = false;
}

void gs_loop_op_closed(struct gs_op *op)
{
    gs_loop_unlink_io(&op->io);
    gs_op_cancel(op);
}
