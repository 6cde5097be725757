/* Completions: an operation is started and called back when it is done. Part of gossamer/loop.h.
 *
 *     gs_op_init(&op, loop, on_received);
 *     gs_op_recv(&op, fd, buffer, sizeof buffer, 0);
 *
 * The operation, its buffer and its descriptor must stay until the callback; then the operation may
 * be started again, in the callback itself too. The callback is never called from within the
 * starting call. result: as of the system call, or -errno; -ECANCELED after gs_op_cancel.
 *
 * With io_uring the kernel does the work, and takes all that was started in the system call that
 * waits. Files are read and written without holding up the loop. A thread that has run a loop stays
 * its only one while operations are under way.
 *
 * On pollers that only know readiness, the operation is tried when its descriptor is ready: one
 * operation for each direction of a descriptor at a time, and no readiness watcher beside them; and
 * files are read and written while the loop waits. An operation that is started again with the same
 * descriptor relies on the contract of its lifetime, see loop_io.h. */
#ifndef GOSSAMER_LOOP_OP_H
#define GOSSAMER_LOOP_OP_H

#include <gossamer/loop_io.h>
#include <stddef.h>

struct msghdr;

struct gs_op;
typedef void gs_op_fn(struct gs_op *op, int64_t result);
enum gs_op_kind {
    GS_OP_ACCEPT = 1,
    GS_OP_RECV,
    GS_OP_SEND,
    GS_OP_READ,
    GS_OP_WRITE,
    GS_OP_SENDMSG,
    GS_OP_FSYNC,
    GS_OP_ACCEPT_EACH,
    GS_OP_RECV_EACH,
};
struct gs_op {
    struct gs_io io;
    gs_op_fn *callback;
    void *bytes;
    size_t n;
    uint64_t offset;
    int64_t result;
    bool *is_over; /* in its callback: set if that was the last */
    uint32_t place;
    uint16_t first_answer, last_answer;
    int flags;
    uint8_t kind; /* 0: not under way */
    bool canceled;
    bool is_handed;  /* to the kernel, which will answer it once more at least */
    bool has_answer; /* and is pending for it */
};

GS_API void gs_op_init(struct gs_op *op, struct gs_loop *loop, gs_op_fn *callback);

/* Whether its callback, or another call of it, is still to come. */
static inline bool gs_op_is_under_way(const struct gs_op *op)
{
    return op->kind != 0;
}

/* Each returns 0, -EBUSY (under way already), -ENOMEM or -EBADF. flags: those of accept4, recv and
 * send; SIGPIPE is not raised. The result of accept is a new descriptor, the callback's; a listening
 * descriptor that others accept from too must not block. */
GS_API GS_MUST_CHECK int gs_op_accept(struct gs_op *op, int fd, int flags);
GS_API GS_MUST_CHECK int gs_op_recv(struct gs_op *op, int fd, void *bytes, size_t n, int flags);
GS_API GS_MUST_CHECK int gs_op_send(struct gs_op *op, int fd, const void *bytes, size_t n,
                                    int flags);
/* message and all that it points to must stay until the callback. */
GS_API GS_MUST_CHECK int gs_op_sendmsg(struct gs_op *op, int fd, const struct msghdr *message,
                                       int flags);

/* offset: GS_OP_HERE for the file's own position, and for what has none. */
#define GS_OP_HERE UINT64_MAX
GS_API GS_MUST_CHECK int gs_op_read(struct gs_op *op, int fd, void *bytes, size_t n,
                                    uint64_t offset);
GS_API GS_MUST_CHECK int gs_op_write(struct gs_op *op, int fd, const void *bytes, size_t n,
                                     uint64_t offset);
GS_API GS_MUST_CHECK int gs_op_fsync(struct gs_op *op, int fd);

/* ---- One operation, many callbacks ----
 * It stays under way until a callback with an error or with the end of the connection, which is the
 * last. */

/* Accept connection after connection. */
GS_API GS_MUST_CHECK int gs_op_accept_each(struct gs_op *op, int fd, int flags);

/* Receive whatever comes, into memory of the loop's that is taken only when bytes have come: they
 * are in op->bytes until the callback returns. */
GS_API GS_MUST_CHECK int gs_op_recv_each(struct gs_op *op, int fd);

/* Ask for its end: the last callback still comes, with -ECANCELED or with the result if it was
 * already done; before it, what was already accepted or received. */
GS_API void gs_op_cancel(struct gs_op *op);

#endif
