/* Reading, writing, accepting and connecting, as the system calls on blocking descriptors. */
#include "compiler/runtime/io/transfer.h"
#include "compiler/runtime/locks/shared_mutex.h"
#include "compiler/runtime/signals/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Outside of the program's threads the system calls are made as they are. */
static bool is_outside(const struct thread *self)
{
    return !self;
}

/* ---- Reading ---- */

ssize_t gs_cc_readv(int fd, const struct iovec *parts, int count)
{
    if (is_outside(thread_self()))
        return readv(fd, parts, count);
    RETRY(thread_self(), fd, GS_READ, gs_cc_try_readv(fd, parts, count));
}

/* A socket that is known to be empty is not asked, if the call would wait then. */
static ssize_t try_receive(int fd, void *bytes, size_t n)
{
    if (!gs_resumable_may_call(fd, GS_READ) && gs_cc_is_known_to_block(fd, GS_READ))
        return -EAGAIN;
    ssize_t got = negated(recv(fd, bytes, n, MSG_DONTWAIT));
    gs_resumable_called(fd, GS_READ, got, n);
    return got;
}

static ssize_t try_read(int fd, void *bytes, size_t n)
{
    if (gs_cc_kind(fd) == KIND_SOCKET) {
        ssize_t got = try_receive(fd, bytes, n);
        if (got != -ENOTSOCK)
            return got;
        gs_cc_forget_kind(fd); /* code that was not compiled has closed it */
    }
    return gs_cc_try_readv(fd, &(struct iovec){bytes, n}, 1);
}

ssize_t gs_cc_read(int fd, void *bytes, size_t n)
{
    if (is_outside(thread_self()))
        return read(fd, bytes, n);
    RETRY(thread_self(), fd, GS_READ, try_read(fd, bytes, n));
}

ssize_t gs_cc___read_chk(int fd, void *bytes, size_t n, size_t size)
{
    if (n > size)
        __builtin_trap();
    return gs_cc_read(fd, bytes, n);
}

/* The arguments of recvfrom but the descriptor. */
struct reception {
    void *bytes;
    size_t n;
    int flags;
    struct sockaddr *address;
    socklen_t *length;
};

/* MSG_WAITALL: the bytes that came already are in the buffer, at each further call. */
static ssize_t receive(struct thread *self, int fd, struct reception to)
{
    size_t before = self->progress, n = to.n;
    int flags = to.flags;
    if (!flags && !to.address)
        return try_receive(fd, to.bytes, n);
    ssize_t got = negated(recvfrom(fd, (char *)to.bytes + before, n - before,
                                   (flags & ~MSG_WAITALL) | MSG_DONTWAIT,
                                   before ? NULL : to.address, to.length));
    if (!(flags & MSG_WAITALL) || flags & MSG_PEEK || !gs_cc_is_stream_socket(fd))
        return got;
    if (got <= 0)
        return before && got != -EAGAIN ? (ssize_t)before : got;
    self->progress = before + (size_t)got;
    return self->progress == n ? (ssize_t)n : -EAGAIN;
}

ssize_t gs_cc_recv(int fd, void *bytes, size_t n, int flags)
{
    struct thread *self = thread_self();
    if (is_outside(self) || is_made_at_once(self, flags))
        return recv(fd, bytes, n, flags);
    const struct reception to = {.bytes = bytes, .n = n, .flags = flags};
    TRANSFER_ALL(self, fd, GS_READ, receive(self, fd, to));
}

ssize_t gs_cc___recv_chk(int fd, void *bytes, size_t n, size_t size, int flags)
{
    if (n > size)
        __builtin_trap();
    return gs_cc_recv(fd, bytes, n, flags);
}

ssize_t gs_cc_recvfrom(int fd, void *bytes, size_t n, int flags, struct sockaddr *address,
                       socklen_t *length)
{
    struct thread *self = thread_self();
    if (is_outside(self) || is_made_at_once(self, flags))
        return recvfrom(fd, bytes, n, flags, address, length);
    if (!address)
        return gs_cc_recv(fd, bytes, n, flags);
    const struct reception to = {bytes, n, flags, address, length};
    TRANSFER_ALL(self, fd, GS_READ, receive(self, fd, to));
}

ssize_t gs_cc___recvfrom_chk(int fd, void *bytes, size_t n, size_t size, int flags,
                             struct sockaddr *address, socklen_t *length)
{
    if (n > size)
        __builtin_trap();
    return gs_cc_recvfrom(fd, bytes, n, flags, address, length);
}

/* ---- Writing ----
 * A call on a blocking descriptor returns when everything is written.
 */

static ssize_t try_write(int fd, const void *bytes, size_t n, size_t before)
{
    if (gs_cc_kind(fd) == KIND_SOCKET) {
        ssize_t sent =
            negated(gs_cc_sent(fd, send(fd, bytes, n, SENDING), gs_cc_flags_after(before, 0)));
        if (sent != -ENOTSOCK)
            return sent;
        gs_cc_forget_kind(fd);
    }
    return gs_cc_try_writev(fd, &(struct iovec){(void *)bytes, n}, 1);
}

ssize_t gs_cc_write(int fd, const void *bytes, size_t n)
{
    struct thread *self = thread_self();
    if (is_outside(self))
        return write(fd, bytes, n);
    WRITE_ALL(
        self, fd, n,
        try_write(fd, (const char *)bytes + self->progress, n - self->progress, self->progress));
}

static ssize_t try_writev(int fd, const struct iovec *parts, int count, size_t skipped)
{
    struct iovec left[PARTS];
    int n = gs_cc_parts_after(parts, (size_t)count, skipped, left);
    struct msghdr message = {.msg_iov = left, .msg_iovlen = (size_t)n};
    if (skipped && gs_cc_kind(fd) == KIND_SOCKET)
        return negated(sendmsg(fd, &message, SENDING));
    return gs_cc_try_writev(fd, left, n);
}

ssize_t gs_cc_writev(int fd, const struct iovec *parts, int count)
{
    struct thread *self = thread_self();
    if (is_outside(self))
        return writev(fd, parts, count);
    WRITE_ALL(self, fd, gs_cc_length_of(parts, (size_t)count),
              try_writev(fd, parts, count, self->progress));
}

static ssize_t try_send(const struct thread *self, int fd, const void *bytes, size_t n, int flags)
{
    size_t before = self->progress;
    ssize_t sent = send(fd, (const char *)bytes + before, n - before, flags | SENDING);
    return negated(gs_cc_sent(fd, sent, gs_cc_flags_after(before, flags)));
}

ssize_t gs_cc_send(int fd, const void *bytes, size_t n, int flags)
{
    struct thread *self = thread_self();
    if (is_outside(self))
        return send(fd, bytes, n, flags);
    if (is_made_at_once(self, flags))
        return gs_cc_sent(fd, send(fd, bytes, n, flags | SENDING), flags);
    WRITE_ALL(self, fd, n, try_send(self, fd, bytes, n, flags));
}

static ssize_t try_sendto(int fd, const struct iovec *part, int flags,
                          const struct sockaddr *address, socklen_t length)
{
    return gs_cc_sent(
        fd, sendto(fd, part->iov_base, part->iov_len, flags | SENDING, address, length), flags);
}

ssize_t gs_cc_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *address,
                     socklen_t length)
{
    struct thread *self = thread_self();
    struct iovec part = {(void *)bytes, n};
    if (is_outside(self))
        return sendto(fd, bytes, n, flags, address, length);
    if (is_made_at_once(self, flags))
        return try_sendto(fd, &part, flags, address, length);
    if (!address)
        return gs_cc_send(fd, bytes, n, flags);
    size_t before = self->progress;
    part = (struct iovec){(char *)bytes + before, n - before};
    WRITE_ALL(
        self, fd, n,
        negated(try_sendto(fd, &part, gs_cc_flags_after(self->progress, flags), address, length)));
}

/* ---- Connections ---- */

/* A blocking listener is only called when it is ready: another process may take the connection in
 * between, and then the worker waits for the next. */
static int try_accept(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    if (!poll(&one, 1, 0))
        return -EAGAIN;
    int accepted = accept4(fd, address, length, flags);
    if (accepted < 0)
        return -errno;
    gs_cc_new_descriptor(accepted, KIND_SOCKET);
    return accepted;
}

int gs_cc_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    struct thread *self = thread_self();
    if (is_outside(self))
        return accept4(fd, address, length, flags);
    RETRY(self, fd, GS_READ, try_accept(fd, address, length, flags));
}

int gs_cc_accept(int fd, struct sockaddr *address, socklen_t *length)
{
    return gs_cc_accept4(fd, address, length, 0);
}

/* Why the wait of a connect ends; 0: it goes on. */
static int end_of_connect(const struct thread *self)
{
    if (must_cancel(self))
        return -ECANCELED;
    return gs_cc_is_interrupted(self, true) ? -EINTR : 0;
}

/* A connection in progress is waited for; its error is that of the call. It goes on if the time of
 * the call is over. */
static int finish_connect(struct thread *self, int fd)
{
    int err = 0, error = 0;
    socklen_t length = sizeof error;
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    while (!poll(&one, 1, 0)) {
        err = end_of_connect(self);
        if (!err && gs_cc_wait_fd(self, fd, GS_WRITE, limited_until(self), &err))
            return 0;
        if (err)
            return (int)gs_cc_result(self, err == -ETIMEDOUT ? -EINPROGRESS : err);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
        error = errno;
    return (int)gs_cc_result(self, -error);
}

/* The descriptor is non-blocking only during the system call. */
static int begin_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    int result = connect(fd, address, length) ? -errno : 0;
    fcntl(fd, F_SETFL, flags);
    return result;
}

/* No event tells when the listener of a Unix socket has room again; progress: it had none. */
int gs_cc_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    struct thread *self = thread_self();
    if (is_outside(self))
        return connect(fd, address, length);
    if (gs_cc_test_cancel(self))
        return 0;
    if (self->phase != PHASE_NEW && !self->progress)
        return finish_connect(self, fd);
    if (self->phase == PHASE_NEW) {
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || flags & O_NONBLOCK)
            return connect(fd, address, length);
        gs_cc_begin_limited_wait(self, gs_cc_limit_of(fd, GS_WRITE));
    }
    for (;;) {
        int result = begin_connect(fd, address, length);
        if (result == -EINPROGRESS)
            break;
        uint64_t deadline_ns = limited_until(self);
        if (result != -EAGAIN || address->sa_family != AF_UNIX || gs_clock_now() >= deadline_ns)
            return (int)gs_cc_result(self, result);
        if ((result = end_of_connect(self)))
            return (int)gs_cc_result(self, result);
        self->progress = 1;
        if (gs_cc_look_again(self, deadline_ns))
            return 0;
    }
    self->progress = 0;
    set_phase(self, PHASE_WAITING);
    return finish_connect(self, fd);
}
