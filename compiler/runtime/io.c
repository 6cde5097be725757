/* Reading, writing, accepting and connecting, as the system calls on blocking descriptors. */
#include "compiler/runtime/descriptor.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Outside of the program's threads the system calls are made as they are. */
static bool is_outside(const struct thread *self)
{
    return !self;
}

/* Make the call until it does not block. */
#define RETRY(self_, fd_, direction_, call_)                                                       \
    do {                                                                                           \
        struct thread *caller_ = self_;                                                            \
        if (gs_cc_test_cancel(caller_))                                                            \
            return 0;                                                                              \
        for (;;) {                                                                                 \
            ssize_t result_ = (call_);                                                             \
            int err_ = 0;                                                                          \
            if (result_ != -EAGAIN)                                                                \
                return (__typeof__(call_))gs_cc_result(caller_, result_);                          \
            if (gs_cc_block(caller_, fd_, direction_, &err_))                                      \
                return 0;                                                                          \
            if (err_)                                                                              \
                return (__typeof__(call_))gs_cc_result(caller_, -err_);                            \
        }                                                                                          \
    } while (0)

static ssize_t negated(ssize_t result)
{
    return result < 0 ? -errno : result;
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

/* MSG_WAITALL: the bytes that came already are in the buffer, at each further call. */
static ssize_t receive(struct thread *self, int fd, void *bytes, size_t n, int flags)
{
    size_t before = self->progress;
    if (!flags)
        return try_receive(fd, bytes, n);
    ssize_t got = negated(
        recv(fd, (char *)bytes + before, n - before, (flags & ~MSG_WAITALL) | MSG_DONTWAIT));
    if (!(flags & MSG_WAITALL) || flags & (MSG_PEEK | MSG_DONTWAIT))
        return got;
    if (got <= 0)
        return before && got != -EAGAIN ? (ssize_t)before : got;
    self->progress = before + (size_t)got;
    return self->progress == n ? (ssize_t)n : -EAGAIN;
}

ssize_t gs_cc_recv(int fd, void *bytes, size_t n, int flags)
{
    struct thread *self = thread_self();
    if (is_outside(self) || flags & MSG_DONTWAIT)
        return recv(fd, bytes, n, flags);
    RETRY(self, fd, GS_READ, receive(self, fd, bytes, n, flags));
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
    if (is_outside(self) || flags & MSG_DONTWAIT)
        return recvfrom(fd, bytes, n, flags, address, length);
    if (!address)
        return gs_cc_recv(fd, bytes, n, flags);
    RETRY(self, fd, GS_READ,
          negated(recvfrom(fd, bytes, n, flags | MSG_DONTWAIT, address, length)));
}

ssize_t gs_cc___recvfrom_chk(int fd, void *bytes, size_t n, size_t size, int flags,
                             struct sockaddr *address, socklen_t *length)
{
    if (n > size)
        __builtin_trap();
    return gs_cc_recvfrom(fd, bytes, n, flags, address, length);
}

static void note_received_descriptors(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, (char *)part + at, sizeof fd);
            gs_cc_new_descriptor(fd, KIND_UNKNOWN);
        }
    }
}

static ssize_t try_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t n = negated(recvmsg(fd, message, flags));
    if (n >= 0 && message->msg_controllen)
        note_received_descriptors(message);
    return n;
}

ssize_t gs_cc_recvmsg(int fd, struct msghdr *message, int flags)
{
    struct thread *self = thread_self();
    if (is_outside(self) || flags & MSG_DONTWAIT)
        return recvmsg(fd, message, flags);
    RETRY(self, fd, GS_READ, try_recvmsg(fd, message, flags | MSG_DONTWAIT));
}

/* ---- Writing ----
 * A call on a blocking descriptor returns when everything is written.
 */

static ssize_t go_on(struct thread *self, ssize_t written, size_t n)
{
    if (written < 0)
        return self->progress && written != -EAGAIN ? (ssize_t)self->progress : written;
    self->progress += (size_t)written;
    return self->progress == n ? (ssize_t)n : -EAGAIN;
}

/* After a part, the part is the result: the descriptor may be non-blocking, or the disk full. */
static ssize_t finish_write(struct thread *self, ssize_t result)
{
    if (result < 0 && result != -ECANCELED && self->progress)
        result = (ssize_t)self->progress;
    return gs_cc_result(self, result);
}

#define WRITE_ALL(self_, fd_, n_, call_)                                                           \
    do {                                                                                           \
        struct thread *caller_ = self_;                                                            \
        if (gs_cc_test_cancel(caller_))                                                            \
            return 0;                                                                              \
        for (;;) {                                                                                 \
            ssize_t result_ = go_on(caller_, (call_), n_);                                         \
            int err_ = 0;                                                                          \
            if (result_ != -EAGAIN)                                                                \
                return finish_write(caller_, result_);                                             \
            if (gs_cc_block(caller_, fd_, GS_WRITE, &err_))                                        \
                return 0;                                                                          \
            if (err_)                                                                              \
                return finish_write(caller_, -err_);                                               \
        }                                                                                          \
    } while (0)

static ssize_t try_write(int fd, const void *bytes, size_t n)
{
    if (gs_cc_kind(fd) == KIND_SOCKET) {
        ssize_t sent = negated(send(fd, bytes, n, MSG_DONTWAIT));
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
    WRITE_ALL(self, fd, n, try_write(fd, (const char *)bytes + self->progress, n - self->progress));
}

/* What is left of the parts behind the first `skipped` bytes, in at most 64 of them. */
enum { PARTS = 64 };
static int parts_after(const struct iovec *parts, int count, size_t skipped, struct iovec *ret_left)
{
    int left = 0;
    for (int i = 0; i < count && left < PARTS; i++) {
        if (skipped >= parts[i].iov_len && skipped) {
            skipped -= parts[i].iov_len;
            continue;
        }
        ret_left[left++] =
            (struct iovec){(char *)parts[i].iov_base + skipped, parts[i].iov_len - skipped};
        skipped = 0;
    }
    return left;
}

static ssize_t try_writev(int fd, const struct iovec *parts, int count, size_t skipped)
{
    struct iovec left[PARTS];
    int n = parts_after(parts, count, skipped, left);
    return gs_cc_try_writev(fd, left, n);
}

static size_t length_of(const struct iovec *parts, int count)
{
    size_t n = 0;
    for (int i = 0; i < count; i++)
        n += parts[i].iov_len;
    return n;
}

ssize_t gs_cc_writev(int fd, const struct iovec *parts, int count)
{
    struct thread *self = thread_self();
    if (is_outside(self))
        return writev(fd, parts, count);
    WRITE_ALL(self, fd, length_of(parts, count), try_writev(fd, parts, count, self->progress));
}

ssize_t gs_cc_send(int fd, const void *bytes, size_t n, int flags)
{
    struct thread *self = thread_self();
    if (is_outside(self) || flags & MSG_DONTWAIT)
        return send(fd, bytes, n, flags);
    WRITE_ALL(self, fd, n,
              negated(send(fd, (const char *)bytes + self->progress, n - self->progress,
                           flags | MSG_DONTWAIT)));
}

ssize_t gs_cc_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *address,
                     socklen_t length)
{
    struct thread *self = thread_self();
    if (is_outside(self) || flags & MSG_DONTWAIT)
        return sendto(fd, bytes, n, flags, address, length);
    if (!address)
        return gs_cc_send(fd, bytes, n, flags);
    RETRY(self, fd, GS_WRITE, negated(sendto(fd, bytes, n, flags | MSG_DONTWAIT, address, length)));
}

ssize_t gs_cc_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct thread *self = thread_self();
    if (is_outside(self) || flags & MSG_DONTWAIT)
        return sendmsg(fd, message, flags);
    RETRY(self, fd, GS_WRITE, negated(sendmsg(fd, message, flags | MSG_DONTWAIT)));
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

/* A connection in progress is waited for; its error is that of the call. */
static int finish_connect(struct thread *self, int fd)
{
    int err = 0, error = 0;
    socklen_t length = sizeof error;
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    while (!poll(&one, 1, 0)) {
        if (gs_cc_wait_fd(self, fd, GS_WRITE, GS_NEVER, &err))
            return 0;
        if (err)
            return (int)gs_cc_result(self, err);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
        error = errno;
    return (int)gs_cc_result(self, -error);
}

/* The descriptor is non-blocking only during the system call. */
int gs_cc_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    struct thread *self = thread_self();
    if (is_outside(self))
        return connect(fd, address, length);
    if (gs_cc_test_cancel(self))
        return 0;
    if (self->phase != PHASE_NEW)
        return finish_connect(self, fd);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || flags & O_NONBLOCK)
        return connect(fd, address, length);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    int result = connect(fd, address, length), err = errno;
    fcntl(fd, F_SETFL, flags);
    errno = err;
    if (!result || err != EINPROGRESS)
        return result;
    set_phase(self, PHASE_WAITING);
    return finish_connect(self, fd);
}
