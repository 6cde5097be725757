/* Completions: an operation is started, and calls back when it is done. Part of gossamer/loop.h.
 *
 *     gs_op_init(&op, loop, on_received);
 *     err = gs_op_recv(&op, fd, buffer, sizeof buffer, 0);
 *
 * The operation, its buffer and its descriptor must stay valid until the callback. The operation
 * may then be started again, also in the callback itself. The callback is never called from within
 * the starting function. result: that of the system call, or -errno; -ECANCELED after gs_op_cancel,
 * and in the child process after a fork (gs_loop_after_fork).
 *
 * On io_uring the kernel executes the operations, and the system call that waits submits all that
 * were started. Reading and writing files does not block the loop. While operations are active, the
 * loop must stay with the thread that has run it.
 *
 * On the other pollers, the loop tries an operation when its descriptor is ready. A descriptor can
 * then have one operation per direction, and no descriptor watcher beside them. Files are read and
 * written synchronously. An operation that is started again on the same descriptor relies on the
 * rules for closing descriptors in loop_io.h. */
#ifndef GOSSAMER_LOOP_OP_H
#define GOSSAMER_LOOP_OP_H

#include <gossamer/error.h>
#include <gossamer/loop_io.h>
#include <stddef.h>
#include <sys/socket.h>

GS_BEGIN_DECLS

struct addrinfo;
struct open_how;

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
    GS_OP_ACCEPT_MULTISHOT,
    GS_OP_RECV_MULTISHOT,
    GS_OP_CONNECT,
    GS_OP_OPEN,
    GS_OP_RESOLVE,
};
struct gs_op {
    struct gs_io io;
    gs_op_fn *callback;
    void *bytes;
    size_t n;
    uint64_t offset;
    int64_t result;
    void *call;        /* what a kernel thread of the pool does for it */
    bool *is_finished; /* during its callback: set if the operation has finished */
    uint32_t sq_position;
    uint16_t first_result, last_result;
    int flags;
    uint8_t kind; /* 0: inactive */
    bool canceled;
    bool is_submitted;       /* to the kernel, which will post at least one more completion */
    bool has_result : 1;     /* and is pending for it */
    bool waits_for_room : 1; /* a send on io_uring: the kernel polls the socket */
};

GS_API void gs_op_init(struct gs_op *op, struct gs_loop *loop, gs_op_fn *callback);

/* Returns whether another call of its callback is to come. */
static inline bool gs_op_is_active(const struct gs_op *op)
{
    return op->kind != 0;
}

/* flags: those of accept4, recv and send; SIGPIPE is not raised. The result of accept is a new
 * descriptor, which the callback owns. A listening descriptor that other threads or processes
 * accept from must be non-blocking. Each returns 0, -ENOMEM, -EBUSY (the operation is active, or
 * the descriptor has an edge-triggered watcher), or -EBADF (a number that is new to the loop is not
 * open). */
GS_API GS_MUST_CHECK int gs_op_accept(struct gs_op *op, int fd, int flags);
GS_API GS_MUST_CHECK int gs_op_recv(struct gs_op *op, int fd, void *bytes, size_t n, int flags);
GS_API GS_MUST_CHECK int gs_op_send(struct gs_op *op, int fd, const void *bytes, size_t n,
                                    int flags);

/* message and all that it points to must stay valid until the callback. If it names a Unix socket
 * with a full queue as the receiver, the loop does not wait, and tries again in each iteration.
 * With a connected socket, the loop waits for room. Returns the same as gs_op_send. */
GS_API GS_MUST_CHECK int gs_op_sendmsg(struct gs_op *op, int fd, const struct msghdr *message,
                                       int flags);

/* Connect a socket, which must be non-blocking, to an address that stays valid until the callback.
 * The result is 0 or an error of connect, such as -ECONNREFUSED. There is no time limit but that of
 * the kernel: a timer whose callback calls gs_op_cancel sets one. After an error, including
 * -ECANCELED, the socket cannot be used any more: close it. A Unix socket whose listener has too
 * many connections waiting fails with -EAGAIN. Returns the same as gs_op_send. */
GS_API GS_MUST_CHECK int gs_op_connect(struct gs_op *op, int fd, const struct sockaddr *address,
                                       socklen_t length);

/* offset: GS_OP_CURRENT_OFFSET: the file's own position; also for pipes and sockets. Each returns
 * the same as gs_op_recv. */
#define GS_OP_CURRENT_OFFSET UINT64_MAX
GS_API GS_MUST_CHECK int gs_op_read(struct gs_op *op, int fd, void *bytes, size_t n,
                                    uint64_t offset);
GS_API GS_MUST_CHECK int gs_op_write(struct gs_op *op, int fd, const void *bytes, size_t n,
                                     uint64_t offset);
GS_API GS_MUST_CHECK int gs_op_fsync(struct gs_op *op, int fd);

/* ---- Operations without a descriptor: files and names ----
 * The result comes from io_uring or from a kernel thread of the pool (loop_work.h). Each returns 0,
 * -ENOMEM, -EBUSY (the operation is active), or -EAGAIN (there is no kernel thread, and none can be
 * created).
 *
 *     const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
 *     err = gs_op_open(&op, AT_FDCWD, "index.html", &how);
 */

/* As openat2(2). path, how and the directory must stay valid until the callback. The result is a
 * new descriptor, which the callback owns, or an error of openat2. An open that has started in the
 * pool cannot be canceled: its result follows, and gs_loop_free waits for it. */
GS_API GS_MUST_CHECK int gs_op_open(struct gs_op *op, int dirfd, const char *path,
                                    const struct open_how *how);

/* Call getaddrinfo(3). The arguments are copied; any may be NULL but ret_addresses, which must stay
 * valid until the callback. The result is 0, and *ret_addresses is set and must be freed with
 * freeaddrinfo; or -GS_ENONAME (no such name or service), -GS_ENAMESERVER (the name server does not
 * answer), -ENOMEM, -EINVAL (the hints are invalid) or -EIO (any other failure). A look-up that is
 * canceled is abandoned, even if it has started: a kernel thread that no longer belongs to the pool
 * completes it and discards the result. */
GS_API GS_MUST_CHECK int gs_op_resolve(struct gs_op *op, const char *node, const char *service,
                                       const struct addrinfo *hints,
                                       struct addrinfo **ret_addresses);

/* ---- Multishot operations: one operation, many callbacks ----
 * The operation stays active until a callback that reports an error or the end of the connection,
 * which is the last one. Each returns the same as gs_op_accept.
 *
 *     err = gs_op_accept_multishot(&op, listener, SOCK_CLOEXEC);
 */

GS_API GS_MUST_CHECK int gs_op_accept_multishot(struct gs_op *op, int fd, int flags);

/* Receive into memory of the loop, which is only used once bytes have arrived: they are in
 * op->bytes until the callback returns. */
GS_API GS_MUST_CHECK int gs_op_recv_multishot(struct gs_op *op, int fd);

/* ---- Cancellation of an operation ---- */

/* Request cancellation. The last callback still follows, with -ECANCELED or, if the operation was
 * already done, with its result. Callbacks for what a multishot operation has accepted or received
 * come before it. */
GS_API void gs_op_cancel(struct gs_op *op);

GS_END_DECLS

#endif
