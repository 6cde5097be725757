/* I/O calls: each is tried at once, and waits if it would block. */
#include "thread/io/blocking_mode.h"
#include "thread/io/descriptors.h"
#include "thread/io/files.h"
#include "thread/io/io_call.h"
#include "thread/schedule/off_stack.h"
#include "thread/schedule/turn.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

/* Try the call without waiting. */
static ssize_t try_call(const struct io_call *call)
{
    struct descriptor *descriptor = call->file.descriptor;
    if (UNLIKELY(!opened_enter(&call->file)))
        return -EBADF;
    descriptor_clear(descriptor, call->direction);
    ssize_t n = call->try(call);
    opened_leave(&call->file);
    if (call_may_leave_more(call, descriptor, n))
        gs_descriptor_set_ready(descriptor, call->direction);
    return n;
}

/* Whether the system call would not wait either. */
static bool never_waits(const struct io_call *call)
{
    int flags = call->direction == GS_READ ? MSG_DONTWAIT | MSG_OOB | MSG_ERRQUEUE : MSG_DONTWAIT;
    return call->flags & flags;
}

ssize_t gs_io_run(struct io_call *call, uint64_t deadline_ns)
{
    struct descriptor *descriptor = call->file.descriptor;
    if (UNLIKELY(!descriptor))
        return descriptor_error(call->file.fd);
    if (UNLIKELY(never_waits(call)))
        return try_call(call);
    /* With the deadline 0 the call is tried in any case: an event may still be undelivered. */
    bool may_be_ready = !deadline_ns || descriptor_may_be_ready(descriptor, call->direction);
    for (;;) {
        ssize_t n = may_be_ready ? try_call(call) : -EAGAIN;
        if (n != -EAGAIN && n != -EINTR) {
            turn_spend(n, deadline_ns);
            return n;
        }
        int err = gs_descriptor_wait(&call->file, call->direction, deadline_ns);
        if (err)
            return err;
        may_be_ready = call->file.has_waited = true;
    }
}

bool gs_io_is_ready(int fd, unsigned direction)
{
    struct pollfd poll = {.fd = fd, .events = direction == GS_READ ? POLLIN | POLLRDHUP : POLLOUT};
    return gs_sys_poll(&poll, 1, 0) != 0;
}

/* An event since the last try may be out of date; the bit of one that is not must stay set for the
 * try that follows. */
static int wait_until_ready(const struct opened *file, unsigned direction, uint64_t deadline_ns)
{
    struct descriptor *descriptor = file->descriptor;
    if (!descriptor)
        return descriptor_error(file->fd);
    bool polls = gs_runtime.is_multi || descriptor_may_be_ready(descriptor, direction);
    for (;;) {
        int err = gs_descriptor_wait(file, direction, deadline_ns);
        if (!err && opened_is_closed(file))
            err = -EBADF;
        if (err || !polls || descriptor_may_be_ready(descriptor, direction))
            return err;
        if (gs_io_is_ready(file->fd, direction)) {
            gs_descriptor_set_ready(descriptor, direction);
            return 0;
        }
    }
}

int gs_opened_poll(const struct opened *file, unsigned direction, uint64_t deadline_ns)
{
    while (!gs_io_is_ready(file->fd, direction)) {
        int err = gs_descriptor_wait(file, direction, deadline_ns);
        if (err)
            return err;
        if (opened_is_closed(file))
            return -EBADF;
    }
    gs_descriptor_set_ready(file->descriptor, direction);
    return opened_is_closed(file) ? -EBADF : 0;
}

#define RETRY_MAX (64 * GS_MILLISECOND)

int gs_pause_before_retry(uint64_t *pause_ns, uint64_t deadline_ns)
{
    uint64_t now_ns = gs_clock_now();
    if (now_ns >= deadline_ns)
        return -ETIMEDOUT;
    int err = gs_thread_sleep(earlier(now_ns + *pause_ns, deadline_ns));
    *pause_ns = earlier(2 * *pause_ns, RETRY_MAX);
    return err;
}

int gs_opened_wait(const struct opened *file, unsigned direction, uint64_t deadline_ns)
{
    int err = wait_until_ready(file, direction, deadline_ns);
    turn_spend(0, deadline_ns);
    return err;
}

int gs_wait_readable(int fd, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct opened file = opened(fd);
    return gs_opened_wait(&file, GS_READ, deadline_ns);
}

int gs_wait_writable(int fd, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct opened file = opened(fd);
    return gs_opened_wait(&file, GS_WRITE, deadline_ns);
}

/* ---- Sockets ---- */

static ssize_t try_recv(const struct io_call *call)
{
    return gs_sys_recv(call->file.fd, call->bytes, call->n, call->flags | MSG_DONTWAIT);
}

static ssize_t try_send(const struct io_call *call)
{
    return gs_sys_send(call->file.fd, call->bytes, call->n, call->flags | MSG_DONTWAIT);
}

static ssize_t try_recvmsg(const struct io_call *call)
{
    return gs_sys_recvmsg(call->file.fd, call->bytes, call->flags | MSG_DONTWAIT);
}

static ssize_t try_sendmsg(const struct io_call *call)
{
    return gs_sys_sendmsg(call->file.fd, call->bytes, call->flags | MSG_DONTWAIT);
}

ssize_t gs_opened_recv(const struct opened *file, void *bytes, size_t n, int flags,
                       uint64_t deadline_ns)
{
    struct io_call call = {.try = try_recv,
                           .file = *file,
                           .flags = flags,
                           .direction = GS_READ,
                           .bytes = bytes,
                           .n = n};
    return gs_io_run(&call, deadline_ns);
}

ssize_t gs_opened_send(const struct opened *file, const void *bytes, size_t n, int flags,
                       uint64_t deadline_ns)
{
    struct io_call call = {.try = try_send,
                           .file = *file,
                           .flags = flags,
                           .direction = GS_WRITE,
                           .bytes = (void *)bytes,
                           .n = n};
    return gs_io_run(&call, deadline_ns);
}

/* MSG_WAITALL has an effect on streams only. */
static bool waits_for_all(int fd, int flags)
{
    int type = 0;
    socklen_t size = sizeof type;
    return flags & MSG_WAITALL && !(flags & (MSG_PEEK | MSG_TRUNC | MSG_OOB)) &&
           !gs_sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_STREAM;
}

/* Wait until more has arrived. Returns false if there is no more. An error stays in the socket, for
 * the next call: this one has bytes to return. */
static bool has_more(const struct opened *file, uint64_t deadline_ns)
{
    int n = 0, err = gs_opened_poll(file, GS_READ, deadline_ns);
    return !err && (gs_sys_ioctl(file->fd, FIONREAD, &n) || n);
}

/* Receive all bytes, or fewer if the stream, the deadline or an error ends it. */
static ssize_t recv_all(const struct opened *from, const struct iovec *parts, size_t count,
                        int flags, uint64_t deadline_ns)
{
    struct opened file = *from;
    ssize_t some, done = 0;
    for (const struct iovec *part = parts; part < parts + count; part++) {
        for (size_t at = 0; at < part->iov_len; at += (size_t)some) {
            if (done && !has_more(&file, deadline_ns))
                return done;
            some = gs_opened_recv(&file, (char *)part->iov_base + at, part->iov_len - at, flags,
                                  deadline_ns);
            if (some <= 0)
                return done ? done : some;
            done += some;
            file.has_waited = true;
        }
    }
    return done;
}

/* MSG_WAITALL is among the flags. Not inline: it has more on the stack. */
static __attribute__((noinline)) ssize_t recv_waiting_for_all(int fd, void *bytes, size_t n,
                                                              int flags, uint64_t deadline_ns)
{
    const struct opened file = opened(fd);
    if (waits_for_all(fd, flags))
        return recv_all(&file, &(struct iovec){bytes, n}, 1, flags, deadline_ns);
    return gs_opened_recv(&file, bytes, n, flags, deadline_ns);
}

/* Without a canary: see gs_recv_with. */
__attribute__((no_stack_protector)) ssize_t gs_recv(int fd, void *bytes, size_t n, int flags,
                                                    uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    if (UNLIKELY(flags & MSG_WAITALL))
        return recv_waiting_for_all(fd, bytes, n, flags, deadline_ns);
    const struct opened file = opened(fd);
    return gs_opened_recv(&file, bytes, n, flags, deadline_ns);
}

ssize_t gs_send(int fd, const void *bytes, size_t n, int flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct opened file = opened(fd);
    return gs_opened_send(&file, bytes, n, flags, deadline_ns);
}

ssize_t gs_send_all(int fd, const void *bytes, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct opened file = opened(fd);
    size_t sent = 0;
    while (sent < n) {
        ssize_t some = gs_opened_send(&file, (const char *)bytes + sent, n - sent, 0, deadline_ns);
        if (some < 0)
            return some;
        sent += (size_t)some;
        file.has_waited = true;
    }
    return (ssize_t)n;
}

ssize_t gs_recvmsg(int fd, struct msghdr *message, int flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct io_call call = {.try = try_recvmsg,
                           .file = opened(fd),
                           .flags = flags,
                           .direction = GS_READ,
                           .bytes = message};
    if (message->msg_iovlen > IOV_MAX || message->msg_controllen || !waits_for_all(fd, flags))
        return gs_io_run(&call, deadline_ns);
    message->msg_namelen = 0;
    message->msg_flags = 0;
    return recv_all(&call.file, message->msg_iov, message->msg_iovlen, flags, deadline_ns);
}

static bool is_to_unix(const struct msghdr *message)
{
    const struct sockaddr *address = message->msg_name;
    return address && message->msg_namelen >= sizeof address->sa_family &&
           address->sa_family == AF_UNIX;
}

/* A socket is ready to send although the receiver that a datagram names has a full queue. Nothing
 * tells when that has room, and every try causes an event. */
static ssize_t send_to_unix(struct io_call *call, uint64_t deadline_ns)
{
    uint64_t pause_ns = RETRY_FIRST;
    if (!call->file.descriptor)
        return descriptor_error(call->file.fd);
    for (;;) {
        ssize_t n = try_call(call);
        if (n != -EAGAIN && n != -EINTR) {
            turn_spend(n, deadline_ns);
            return n;
        }
        int err = gs_pause_before_retry(&pause_ns, deadline_ns);
        if (err)
            return err;
        call->file.has_waited = true;
    }
}

ssize_t gs_sendmsg(int fd, const struct msghdr *message, int flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct io_call call = {.try = try_sendmsg,
                           .file = opened(fd),
                           .flags = flags,
                           .direction = GS_WRITE,
                           .bytes = (void *)message};
    return is_to_unix(message) ? send_to_unix(&call, deadline_ns) : gs_io_run(&call, deadline_ns);
}

ssize_t gs_recvfrom(int fd, void *bytes, size_t n, int flags, struct sockaddr *address,
                    socklen_t *length, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct iovec part = {.iov_base = bytes, .iov_len = n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (address && length) {
        message.msg_name = address;
        message.msg_namelen = *length;
    }
    ssize_t received = gs_recvmsg(fd, &message, flags, deadline_ns);
    if (received >= 0 && length)
        *length = message.msg_namelen;
    return received;
}

ssize_t gs_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *address,
                  socklen_t length, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
    const struct msghdr message = {.msg_name = (void *)address,
                                   .msg_namelen = address ? length : 0,
                                   .msg_iov = &part,
                                   .msg_iovlen = 1};
    return gs_sendmsg(fd, &message, flags, deadline_ns);
}

/* ---- Any descriptor ---- */

ssize_t gs_try_parts(const struct io_call *call)
{
    int fd = call->file.fd;
    return call->direction == GS_READ
               ? gs_sys_preadv2(fd, call->bytes, call->count, call->offset, RWF_NOWAIT)
               : gs_sys_pwritev2(fd, call->bytes, call->count, call->offset, RWF_NOWAIT);
}

static ssize_t transfer_parts(const struct io_call *call)
{
    int fd = call->file.fd;
    return call->direction == GS_READ ? gs_sys_readv(fd, call->bytes, call->count)
                                      : gs_sys_writev(fd, call->bytes, call->count);
}

/* For files that do not support RWF_NOWAIT. */
static ssize_t transfer_in_blocking_mode(const struct io_call *request, uint64_t deadline_ns)
{
    struct off_stack off = {.thread = thread_current()};
    struct io_call call = *request;
    call.try = transfer_parts;
    call.bytes = (void *)off_stack_parts(&off, call.bytes, call.count, call.direction == GS_READ);
    ssize_t n = off.err ? off.err : gs_run_when_ready(&call, deadline_ns);
    off_stack_end(&off);
    return n;
}

/* readv(2) and writev(2) of nothing wait for nothing. */
static ssize_t transfer_nothing(const struct io_call *call)
{
    struct io_call now = *call;
    now.try = transfer_parts;
    return try_call(&now);
}

static bool has_bytes(const struct iovec *iov, int count)
{
    while (count > 0 && !iov->iov_len) {
        iov++;
        count--;
    }
    return count;
}

static ssize_t transfer(const struct opened *file, unsigned direction, const struct iovec *iov,
                        int count, uint64_t deadline_ns)
{
    struct io_call call = {.try = gs_try_parts,
                           .file = *file,
                           .direction = direction,
                           .bytes = (void *)iov,
                           .count = count,
                           .offset = -1};
    if (!file->descriptor)
        return descriptor_error(file->fd);
    if (gs_descriptor_kind(file->descriptor, file->fd) == KIND_REGULAR)
        return gs_file_transfer(&call, deadline_ns);
    if (!has_bytes(iov, count))
        return transfer_nothing(&call);
    ssize_t n = gs_io_run(&call, deadline_ns);
    return n == -EOPNOTSUPP ? transfer_in_blocking_mode(&call, deadline_ns) : n;
}

ssize_t gs_opened_read(const struct opened *file, void *bytes, size_t n, uint64_t deadline_ns)
{
    const struct iovec part = {.iov_base = bytes, .iov_len = n};
    return transfer(file, GS_READ, &part, 1, deadline_ns);
}

ssize_t gs_opened_write(const struct opened *file, const void *bytes, size_t n,
                        uint64_t deadline_ns)
{
    const struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
    return transfer(file, GS_WRITE, &part, 1, deadline_ns);
}

ssize_t gs_readv(int fd, const struct iovec *iov, int count, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct opened file = opened(fd);
    return transfer(&file, GS_READ, iov, count, deadline_ns);
}

ssize_t gs_writev(int fd, const struct iovec *iov, int count, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct opened file = opened(fd);
    return transfer(&file, GS_WRITE, iov, count, deadline_ns);
}

ssize_t gs_read(int fd, void *bytes, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct opened file = opened(fd);
    return gs_opened_read(&file, bytes, n, deadline_ns);
}

ssize_t gs_write(int fd, const void *bytes, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct opened file = opened(fd);
    return gs_opened_write(&file, bytes, n, deadline_ns);
}
