/* Calls that are tried at once and wait when they would block. */
#include "thread/descriptors.h"
#include "thread/files.h"
#include "thread/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/uio.h>

/* Of a file, so that others get their turn. */
#define SENT_AT_ONCE ((size_t)1 << 20)

/* Without waiting. */
static ssize_t attempt(const struct call *call, struct descriptor *descriptor)
{
    descriptor_clear(descriptor, call->direction);
    ssize_t n = call->try(call);
    if (call_may_find_more(call, descriptor, n))
        descriptor_set(descriptor, call->direction);
    return n;
}

static ssize_t run(const struct call *call, uint64_t deadline_ns)
{
    struct descriptor *descriptor = gs_descriptor(call->fd);
    if (UNLIKELY(!descriptor))
        return call->fd < 0 ? -EBADF : -ENOMEM;
    bool is_by_ring = deadline_ns && gs_ring_takes(call, descriptor);
    /* Who does not wait asks the kernel in any case: its report may still be to come. What can be sent, the ring sends. */
    bool is_worth = !deadline_ns || (descriptor_is_worth(descriptor, call->direction) &&
                                     !(is_by_ring && call->direction == GS_WRITE));
    for (;;) {
        ssize_t n = is_worth ? attempt(call, descriptor) : -EAGAIN;
        if (is_by_ring && (n == -EAGAIN || n == -EINTR))
            n = gs_ring_run(call, descriptor, deadline_ns);
        if (n != -EAGAIN && n != -EINTR)
            return n;
        int err =
            is_by_ring ? 0 : gs_descriptor_wait(descriptor, call->fd, call->direction, deadline_ns);
        if (err)
            return err;
        is_by_ring = is_by_ring && n == -EINTR;
        is_worth = true;
    }
}

/* What the kernel says now. */
static bool is_ready(int fd, unsigned direction)
{
    struct pollfd poll = {.fd = fd, .events = direction == GS_READ ? POLLIN | POLLRDHUP : POLLOUT};
    return gs_sys_poll(&poll, 1, 0) != 0;
}

/* A report that has come since the last try may be out of date; one that is not must be left for the try that follows. */
static int wait_until_ready(int fd, unsigned direction, uint64_t deadline_ns)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return -EBADF;
    if (!gs_runtime.is_multi && !descriptor_is_worth(descriptor, direction))
        return gs_descriptor_wait(descriptor, fd, direction, deadline_ns);
    for (;;) {
        int err = gs_descriptor_wait(descriptor, fd, direction, deadline_ns);
        if (err || descriptor_is_worth(descriptor, direction))
            return err;
        if (is_ready(fd, direction)) {
            descriptor_set(descriptor, direction);
            return 0;
        }
    }
}

int gs_wait_readable(int fd, uint64_t deadline_ns)
{
    return wait_until_ready(fd, GS_READ, deadline_ns);
}

int gs_wait_writable(int fd, uint64_t deadline_ns)
{
    return wait_until_ready(fd, GS_WRITE, deadline_ns);
}

/* ---- Sockets ---- */

static ssize_t try_recv(const struct call *call)
{
    return gs_sys_recv(call->fd, call->bytes, call->n, call->flags | MSG_DONTWAIT);
}

static ssize_t try_send(const struct call *call)
{
    return gs_sys_send(call->fd, call->bytes, call->n, call->flags | MSG_DONTWAIT);
}

static ssize_t try_recvmsg(const struct call *call)
{
    return gs_sys_recvmsg(call->fd, call->bytes, call->flags | MSG_DONTWAIT);
}

static ssize_t try_sendmsg(const struct call *call)
{
    return gs_sys_sendmsg(call->fd, call->bytes, call->flags | MSG_DONTWAIT);
}

ssize_t gs_recv(int fd, void *bytes, size_t n, int flags, uint64_t deadline_ns)
{
    const struct call call = {.try = try_recv,
                              .operation = IORING_OP_RECV,
                              .fd = fd,
                              .flags = flags,
                              .direction = GS_READ,
                              .bytes = bytes,
                              .n = n};
    return run(&call, deadline_ns);
}

ssize_t gs_send(int fd, const void *bytes, size_t n, int flags, uint64_t deadline_ns)
{
    const struct call call = {.try = try_send,
                              .operation = IORING_OP_SEND,
                              .fd = fd,
                              .flags = flags,
                              .direction = GS_WRITE,
                              .bytes = (void *)bytes,
                              .n = n};
    return run(&call, deadline_ns);
}

ssize_t gs_send_all(int fd, const void *bytes, size_t n, uint64_t deadline_ns)
{
    size_t sent = 0;
    while (sent < n) {
        ssize_t some = gs_send(fd, (const char *)bytes + sent, n - sent, 0, deadline_ns);
        if (some < 0)
            return some;
        sent += (size_t)some;
    }
    return (ssize_t)n;
}

ssize_t gs_recvmsg(int fd, struct msghdr *message, int flags, uint64_t deadline_ns)
{
    const struct call call = {
        .try = try_recvmsg, .fd = fd, .flags = flags, .direction = GS_READ, .bytes = message};
    return run(&call, deadline_ns);
}

ssize_t gs_sendmsg(int fd, const struct msghdr *message, int flags, uint64_t deadline_ns)
{
    const struct call call = {.try = try_sendmsg,
                              .operation = IORING_OP_SENDMSG,
                              .fd = fd,
                              .flags = flags,
                              .direction = GS_WRITE,
                              .bytes = (void *)message};
    return run(&call, deadline_ns);
}

static ssize_t try_accept(const struct call *call)
{
    return gs_sys_accept(call->fd, call->bytes, call->length, call->flags | SOCK_NONBLOCK);
}

/* A listener that blocks must not be tried before the kernel says that somebody is there. Another process may still be faster:
 * who shares a listener makes it non-blocking. */
static int before_accept(struct descriptor *descriptor, int fd, uint64_t deadline_ns)
{
    if (LIKELY(atomic_load_explicit(&descriptor->is_nonblocking, memory_order_relaxed)))
        return 0;
    int flags = gs_sys_fcntl(fd, F_GETFL, 0);
    if (flags < 0)
        return flags;
    if (flags & O_NONBLOCK) {
        atomic_store_explicit(&descriptor->is_nonblocking, true, memory_order_relaxed);
        return 0;
    }
    struct gs_poll poll = {.fd = fd, .wanted = GS_READ};
    int ready = gs_poll(&poll, 1, deadline_ns);
    return ready < 0 ? ready : ready ? 0 : -ETIMEDOUT;
}

int gs_accept(int fd, struct sockaddr *address, socklen_t *length, int flags, uint64_t deadline_ns)
{
    const struct call call = {.try = try_accept,
                              .operation = IORING_OP_ACCEPT,
                              .fd = fd,
                              .flags = flags,
                              .direction = GS_READ,
                              .bytes = address,
                              .length = length};
    struct descriptor *listener = gs_descriptor(fd);
    if (!listener)
        return -EBADF;
    int new_fd = before_accept(listener, fd, deadline_ns);
    if (new_fd)
        return new_fd;
    new_fd = (int)run(&call, deadline_ns);
    if (new_fd < 0)
        return new_fd;
    struct descriptor *descriptor = gs_descriptor(new_fd);
    if (!descriptor) {
        gs_sys_close(new_fd);
        return -ENOMEM;
    }
    gs_descriptor_reset(descriptor, new_fd, gs_descriptor_kind(listener, fd));
    return new_fd;
}

int gs_connect(int fd, const struct sockaddr *address, socklen_t length, uint64_t deadline_ns)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    int result = gs_sys_connect(fd, address, length);
    if (result != -EINPROGRESS && result != -EINTR)
        return result;
    if (!descriptor)
        return -ENOMEM;
    socklen_t size = sizeof result;
    do {
        int err = gs_descriptor_wait(descriptor, fd, GS_WRITE, deadline_ns);
        if (err)
            return err;
        /* Not before the kernel has said so: that it is connected, or why not. */
        struct sockaddr_storage peer;
        socklen_t peer_length = sizeof peer;
        err = gs_sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &size);
        if (err || result)
            return err ? err : -result;
        result = gs_sys_getpeername(fd, (struct sockaddr *)&peer, &peer_length);
    } while (result == -ENOTCONN);
    descriptor_set(descriptor, GS_WRITE);
    return result;
}

/* ---- Any descriptor ---- */

static ssize_t try_read(const struct call *call)
{
    return gs_sys_preadv2(call->fd, call->bytes, call->count, -1, RWF_NOWAIT);
}

static ssize_t try_write(const struct call *call)
{
    return gs_sys_pwritev2(call->fd, call->bytes, call->count, -1, RWF_NOWAIT);
}

/* What the kernel reported ready does not block: a pipe that is writable has room for PIPE_BUF bytes, and a larger write would
 * wait for more. */
static ssize_t transfer_ready(const struct call *call)
{
    if (call->direction == GS_READ)
        return gs_sys_readv(call->fd, call->bytes, call->count);
    struct iovec part = {0};
    for (const struct iovec *iov = call->bytes;
         !part.iov_len && iov < (const struct iovec *)call->bytes + call->count; iov++)
        part = *iov;
    return gs_sys_write(call->fd, part.iov_base, part.iov_len < PIPE_BUF ? part.iov_len : PIPE_BUF);
}

static ssize_t transfer(const struct call *call, uint64_t deadline_ns)
{
    bool is_read = call->direction == GS_READ;
    struct descriptor *descriptor = gs_descriptor(call->fd);
    if (!descriptor)
        return -EBADF;
    if (gs_descriptor_kind(descriptor, call->fd) == KIND_REGULAR)
        return gs_file_transfer(
            &(struct file_transfer){call->fd, is_read, call->bytes, call->count, -1},
            atomic_load_explicit(&descriptor->file, memory_order_relaxed), deadline_ns);
    ssize_t n = run(call, deadline_ns);
    if (n != -EOPNOTSUPP)
        return n;
    /* What cannot be asked not to block, once the kernel says that it is ready. */
    struct gs_poll poll = {.fd = call->fd, .wanted = (uint8_t)call->direction};
    int ready = gs_poll(&poll, 1, deadline_ns);
    if (ready <= 0)
        return ready < 0 ? ready : -ETIMEDOUT;
    return transfer_ready(call);
}

ssize_t gs_readv(int fd, const struct iovec *iov, int count, uint64_t deadline_ns)
{
    const struct call call = {.try = try_read,
                              .operation = IORING_OP_READV,
                              .fd = fd,
                              .direction = GS_READ,
                              .bytes = (void *)iov,
                              .count = count};
    return transfer(&call, deadline_ns);
}

ssize_t gs_writev(int fd, const struct iovec *iov, int count, uint64_t deadline_ns)
{
    const struct call call = {.try = try_write,
                              .operation = IORING_OP_WRITEV,
                              .fd = fd,
                              .direction = GS_WRITE,
                              .bytes = (void *)iov,
                              .count = count};
    return transfer(&call, deadline_ns);
}

ssize_t gs_read(int fd, void *bytes, size_t n, uint64_t deadline_ns)
{
    const struct iovec part = {.iov_base = bytes, .iov_len = n};
    return gs_readv(fd, &part, 1, deadline_ns);
}

ssize_t gs_write(int fd, const void *bytes, size_t n, uint64_t deadline_ns)
{
    const struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
    return gs_writev(fd, &part, 1, deadline_ns);
}

/* What is no error of the kernel's: the file would have to be waited for. */
#define COLD (-4095)

static ssize_t try_sendfile(const struct call *call)
{
    const off_t *offset = call->bytes;
    if (!gs_file_is_cached(worker_current(), call->other_fd, *offset, call->n))
        return COLD;
    return gs_sys_sendfile(call->fd, call->other_fd, call->bytes, call->n);
}

struct sending {
    const struct call *call;
    ssize_t result;
};

static void send_cold(void *argument)
{
    struct sending *sending = argument;
    const struct call *call = sending->call;
    do
        sending->result = gs_sys_sendfile(call->fd, call->other_fd, call->bytes, call->n);
    while (sending->result == -EINTR);
}

/* By the pool, which waits for the disk. */
static ssize_t run_cold(const struct call *call, uint64_t deadline_ns)
{
    struct descriptor *descriptor = gs_descriptor(call->fd);
    struct sending sending = {.call = call};
    descriptor_clear(descriptor, GS_WRITE);
    int err = gs_run_blocking(send_cold, &sending, deadline_ns);
    if (err || sending.result != -EAGAIN)
        descriptor_set(descriptor, GS_WRITE);
    return err ? err : sending.result;
}

ssize_t gs_sendfile(int out_fd, int in_fd, off_t *offset, size_t n, uint64_t deadline_ns)
{
    const struct call call = {.try = try_sendfile,
                              .fd = out_fd,
                              .other_fd = in_fd,
                              .direction = GS_WRITE,
                              .bytes = offset,
                              .n = n < SENT_AT_ONCE ? n : SENT_AT_ONCE};
    for (;;) {
        ssize_t sent = run(&call, deadline_ns);
        if (sent == COLD)
            sent = run_cold(&call, deadline_ns);
        if (sent != -EAGAIN)
            return sent;
        int err = gs_wait_writable(out_fd, deadline_ns);
        if (err)
            return err;
    }
}

/* Either end may be the one that would block: the reading one is asked first. */
ssize_t gs_splice(int in_fd, int out_fd, size_t n, unsigned flags, uint64_t deadline_ns)
{
    for (;;) {
        ssize_t done = gs_sys_splice(in_fd, out_fd, n, flags | SPLICE_F_NONBLOCK);
        if (done != -EAGAIN && done != -EINTR)
            return done;
        struct gs_poll poll = {.fd = in_fd, .wanted = GS_READ};
        int ready = gs_poll(&poll, 1, 0);
        if (ready < 0)
            return ready;
        int err =
            ready ? gs_wait_writable(out_fd, deadline_ns) : gs_wait_readable(in_fd, deadline_ns);
        if (err)
            return err;
    }
}
