/* I/O calls: each is tried at once, and waits if it would block. */
#include "thread/descriptors.h"
#include "thread/files.h"
#include "thread/io_call.h"
#include "thread/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/uio.h>

/* Bytes of one sendfile call, so that other threads get their turn. */
#define SENDFILE_MAX ((size_t)1 << 20)

/* Try the call without waiting. */
static ssize_t try_call(const struct io_call *call, struct descriptor *descriptor)
{
    descriptor_clear(descriptor, call->direction);
    ssize_t n = call->try(call);
    if (call_may_leave_more(call, descriptor, n))
        gs_descriptor_set_ready(descriptor, call->direction);
    return n;
}

static ssize_t run_call(const struct io_call *call, uint64_t deadline_ns)
{
    struct descriptor *descriptor = gs_descriptor(call->fd);
    if (UNLIKELY(!descriptor))
        return descriptor_error(call->fd);
    /* With the deadline 0 the call is tried in any case: an event may still be undelivered. */
    bool may_be_ready = !deadline_ns || descriptor_may_be_ready(descriptor, call->direction);
    for (;;) {
        ssize_t n = may_be_ready ? try_call(call, descriptor) : -EAGAIN;
        if (n != -EAGAIN && n != -EINTR) {
            turn_spend(n, deadline_ns);
            return n;
        }
        int err = gs_descriptor_wait(descriptor, call->fd, call->direction, deadline_ns);
        if (err)
            return err;
        may_be_ready = true;
    }
}

/* Poll the descriptor. */
static bool is_ready(int fd, unsigned direction)
{
    struct pollfd poll = {.fd = fd, .events = direction == GS_READ ? POLLIN | POLLRDHUP : POLLOUT};
    return gs_sys_poll(&poll, 1, 0) != 0;
}

/* An event since the last try may be out of date; the bit of one that is not must stay set for the
 * try that follows. */
static int wait_until_ready(int fd, unsigned direction, uint64_t deadline_ns)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return descriptor_error(fd);
    if (!gs_runtime.is_multi && !descriptor_may_be_ready(descriptor, direction))
        return gs_descriptor_wait(descriptor, fd, direction, deadline_ns);
    for (;;) {
        int err = gs_descriptor_wait(descriptor, fd, direction, deadline_ns);
        if (err || descriptor_may_be_ready(descriptor, direction))
            return err;
        if (is_ready(fd, direction)) {
            gs_descriptor_set_ready(descriptor, direction);
            return 0;
        }
    }
}

/* Wait until a descriptor whose calls would block is ready. gs_poll may let others run after it has
 * looked: so this looks once more. Threads of other workers and other processes may still be
 * faster. */
static int wait_until_polled(int fd, unsigned direction, uint64_t deadline_ns)
{
    do {
        struct gs_poll poll = {.fd = fd, .events = (uint8_t)direction};
        int ready = gs_poll(&poll, 1, deadline_ns);
        if (ready <= 0)
            return ready < 0 ? ready : -ETIMEDOUT;
    } while (!is_ready(fd, direction));
    return 0;
}

int gs_wait_readable(int fd, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    int err = wait_until_ready(fd, GS_READ, deadline_ns);
    turn_spend(0, deadline_ns);
    return err;
}

int gs_wait_writable(int fd, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    int err = wait_until_ready(fd, GS_WRITE, deadline_ns);
    turn_spend(0, deadline_ns);
    return err;
}

/* ---- Sockets ---- */

static ssize_t try_recv(const struct io_call *call)
{
    return gs_sys_recv(call->fd, call->bytes, call->n, call->flags | MSG_DONTWAIT);
}

static ssize_t try_send(const struct io_call *call)
{
    return gs_sys_send(call->fd, call->bytes, call->n, call->flags | MSG_DONTWAIT);
}

static ssize_t try_recvmsg(const struct io_call *call)
{
    return gs_sys_recvmsg(call->fd, call->bytes, call->flags | MSG_DONTWAIT);
}

static ssize_t try_sendmsg(const struct io_call *call)
{
    return gs_sys_sendmsg(call->fd, call->bytes, call->flags | MSG_DONTWAIT);
}

ssize_t gs_recv(int fd, void *bytes, size_t n, int flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct io_call call = {
        .try = try_recv, .fd = fd, .flags = flags, .direction = GS_READ, .bytes = bytes, .n = n};
    return run_call(&call, deadline_ns);
}

ssize_t gs_send(int fd, const void *bytes, size_t n, int flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct io_call call = {.try = try_send,
                                 .fd = fd,
                                 .flags = flags,
                                 .direction = GS_WRITE,
                                 .bytes = (void *)bytes,
                                 .n = n};
    return run_call(&call, deadline_ns);
}

ssize_t gs_send_all(int fd, const void *bytes, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
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
    CHECKED_WAIT(deadline_ns);
    const struct io_call call = {
        .try = try_recvmsg, .fd = fd, .flags = flags, .direction = GS_READ, .bytes = message};
    return run_call(&call, deadline_ns);
}

static bool is_to_unix(const struct msghdr *message)
{
    const struct sockaddr *address = message->msg_name;
    return address && message->msg_namelen >= sizeof address->sa_family &&
           address->sa_family == AF_UNIX;
}

/* A socket is ready to send although the receiver that a datagram names has a full queue. Nothing
 * tells when that has room, and every try causes an event. */
static ssize_t send_to_unix(const struct io_call *call, uint64_t deadline_ns)
{
    struct descriptor *descriptor = gs_descriptor(call->fd);
    if (!descriptor)
        return descriptor_error(call->fd);
    for (uint64_t pause_ns = RETRY_FIRST;; pause_ns = earlier(2 * pause_ns, RETRY_MAX)) {
        ssize_t n = try_call(call, descriptor);
        if (n != -EAGAIN && n != -EINTR) {
            turn_spend(n, deadline_ns);
            return n;
        }
        uint64_t until_ns = earlier(gs_clock_now() + pause_ns, deadline_ns);
        int err;
        do
            err = gs_descriptor_wait_unwatched(descriptor, call->fd, GS_WRITE, until_ns);
        while (!err);
        if (err != -ETIMEDOUT || until_ns == deadline_ns)
            return err;
    }
}

ssize_t gs_sendmsg(int fd, const struct msghdr *message, int flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct io_call call = {.try = try_sendmsg,
                                 .fd = fd,
                                 .flags = flags,
                                 .direction = GS_WRITE,
                                 .bytes = (void *)message};
    return is_to_unix(message) ? send_to_unix(&call, deadline_ns) : run_call(&call, deadline_ns);
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

static ssize_t try_accept(const struct io_call *call)
{
    return gs_sys_accept(call->fd, call->bytes, call->length, call->flags | SOCK_NONBLOCK);
}

/* A blocking listener must not be tried before it is readable: one that is shared by workers or
 * processes should be non-blocking. */
static int wait_for_connection(struct descriptor *descriptor, int fd, uint64_t deadline_ns)
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
    return wait_until_polled(fd, GS_READ, deadline_ns);
}

/* An accept that finds no connection is expensive (gs_sys_accept_queue): so one that no event has
 * announced asks first, and takes as many connections as there are without asking again. Others may
 * take some of them: then an accept fails, and waits. Returns 0 if the accept is to be tried, or to
 * wait for an event, or -errno. */
static int ask_for_connection(struct descriptor *listener, int fd, uint64_t deadline_ns)
{
    unsigned known = atomic_load_explicit(&listener->acceptable, memory_order_relaxed);
    if (deadline_ns && !descriptor_may_be_ready(listener, GS_READ))
        known = 1;
    if (!known) {
        descriptor_clear(listener, GS_READ); /* before asking, as before a system call */
        known = gs_sys_accept_queue(fd);
        if (!known)
            return deadline_ns ? 0 : gs_descriptor_wait(listener, fd, GS_READ, 0);
        gs_descriptor_set_ready(listener, GS_READ);
        known = known < TURN_ACCEPTS ? known : TURN_ACCEPTS;
    }
    atomic_store_explicit(&listener->acceptable, (unsigned char)(known - 1), memory_order_relaxed);
    return 0;
}

int gs_accept(int fd, struct sockaddr *address, socklen_t *length, int flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct io_call call = {.try = try_accept,
                                 .fd = fd,
                                 .flags = flags,
                                 .direction = GS_READ,
                                 .bytes = address,
                                 .length = length};
    struct descriptor *listener = gs_descriptor(fd);
    if (!listener)
        return descriptor_error(fd);
    turn_accept(deadline_ns);
    int new_fd = wait_for_connection(listener, fd, deadline_ns);
    if (!new_fd)
        new_fd = ask_for_connection(listener, fd, deadline_ns);
    if (new_fd)
        return new_fd;
    new_fd = (int)run_call(&call, deadline_ns);
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

int gs_connect_result(int fd)
{
    int result = 0;
    struct sockaddr_storage peer;
    socklen_t size = sizeof result, length = sizeof peer;
    int err = gs_sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &size);
    if (err || result)
        return err ? err : -result;
    return gs_sys_getpeername(fd, (struct sockaddr *)&peer, &length);
}

int gs_connect(int fd, const struct sockaddr *address, socklen_t length, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct descriptor *descriptor = gs_descriptor(fd);
    int result = gs_sys_connect(fd, address, length);
    if (result != -EINPROGRESS && result != -EINTR)
        return result;
    if (!descriptor)
        return -ENOMEM;
    do {
        int err = gs_descriptor_wait(descriptor, fd, GS_WRITE, deadline_ns);
        if (err)
            return err;
        result = gs_connect_result(fd);
    } while (result == -ENOTCONN);
    if (!result)
        descriptor_set(descriptor, GS_WRITE);
    return result;
}

/* ---- Any descriptor ---- */

static ssize_t try_read(const struct io_call *call)
{
    return gs_sys_preadv2(call->fd, call->bytes, call->count, -1, RWF_NOWAIT);
}

static ssize_t try_write(const struct io_call *call)
{
    return gs_sys_pwritev2(call->fd, call->bytes, call->count, -1, RWF_NOWAIT);
}

/* Called when the descriptor is ready, so that this does not block: a writable pipe has room for
 * PIPE_BUF bytes, and a larger write would wait for more. */
static ssize_t transfer_ready(const struct io_call *call)
{
    if (call->direction == GS_READ)
        return gs_sys_readv(call->fd, call->bytes, call->count);
    struct iovec part = {0};
    for (const struct iovec *iov = call->bytes;
         !part.iov_len && iov < (const struct iovec *)call->bytes + call->count; iov++)
        part = *iov;
    return gs_sys_write(call->fd, part.iov_base, part.iov_len < PIPE_BUF ? part.iov_len : PIPE_BUF);
}

/* For files that do not support RWF_NOWAIT. */
static ssize_t transfer_when_ready(const struct io_call *call, uint64_t deadline_ns)
{
    ssize_t n;
    do {
        int err = wait_until_polled(call->fd, call->direction, deadline_ns);
        if (err)
            return err;
        n = transfer_ready(call);
    } while (n == -EAGAIN || n == -EINTR);
    return n;
}

static ssize_t transfer(const struct io_call *call, uint64_t deadline_ns)
{
    bool is_read = call->direction == GS_READ;
    struct descriptor *descriptor = gs_descriptor(call->fd);
    if (!descriptor)
        return descriptor_error(call->fd);
    if (gs_descriptor_kind(descriptor, call->fd) == KIND_REGULAR)
        return gs_file_transfer(
            &(struct file_transfer){call->fd, is_read, call->bytes, call->count, -1},
            atomic_load_explicit(&descriptor->file_hash, memory_order_relaxed), deadline_ns);
    ssize_t n = run_call(call, deadline_ns);
    return n == -EOPNOTSUPP ? transfer_when_ready(call, deadline_ns) : n;
}

ssize_t gs_readv(int fd, const struct iovec *iov, int count, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct io_call call = {
        .try = try_read, .fd = fd, .direction = GS_READ, .bytes = (void *)iov, .count = count};
    return transfer(&call, deadline_ns);
}

ssize_t gs_writev(int fd, const struct iovec *iov, int count, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct io_call call = {
        .try = try_write, .fd = fd, .direction = GS_WRITE, .bytes = (void *)iov, .count = count};
    return transfer(&call, deadline_ns);
}

ssize_t gs_read(int fd, void *bytes, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct iovec part = {.iov_base = bytes, .iov_len = n};
    return gs_readv(fd, &part, 1, deadline_ns);
}

ssize_t gs_write(int fd, const void *bytes, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
    return gs_writev(fd, &part, 1, deadline_ns);
}

/* Not an errno: the file is not in the page cache. */
#define NOT_CACHED (-4095)

static ssize_t try_sendfile(const struct io_call *call)
{
    const off_t *offset = call->bytes;
    struct worker *worker = worker_current();
    if (!gs_page_cache_has(&worker->page_cache, call->other_fd, *offset, call->n, *worker->now_ns))
        return NOT_CACHED;
    return gs_sys_sendfile(call->fd, call->other_fd, call->bytes, call->n);
}

struct sending {
    const struct io_call *call;
    ssize_t result;
};

static void send_uncached(void *argument)
{
    struct sending *sending = argument;
    const struct io_call *call = sending->call;
    do
        sending->result = gs_sys_sendfile(call->fd, call->other_fd, call->bytes, call->n);
    while (sending->result == -EINTR);
}

/* Run sendfile in the pool, where it may wait for the disk. Meanwhile another thread, also of this
 * worker, may have found the bit clear, and waits: no event need come if there is still room. */
static ssize_t run_uncached(const struct io_call *call, uint64_t deadline_ns)
{
    struct descriptor *descriptor = gs_descriptor(call->fd);
    struct sending sending = {.call = call};
    descriptor_clear(descriptor, GS_WRITE);
    int err = gs_run_blocking(send_uncached, &sending, deadline_ns);
    if (err || sending.result != -EAGAIN) {
        spin_lock(&descriptor->lock);
        gs_descriptor_notify(worker_current(), descriptor, GS_WRITE, 0);
        spin_unlock(&descriptor->lock);
    }
    return err ? err : sending.result;
}

ssize_t gs_sendfile(int out_fd, int in_fd, off_t *offset, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct io_call call = {.try = try_sendfile,
                                 .fd = out_fd,
                                 .other_fd = in_fd,
                                 .direction = GS_WRITE,
                                 .bytes = offset,
                                 .n = n < SENDFILE_MAX ? n : SENDFILE_MAX};
    for (;;) {
        ssize_t sent = run_call(&call, deadline_ns);
        if (sent == NOT_CACHED)
            sent = run_uncached(&call, deadline_ns);
        if (sent != -EAGAIN)
            return sent;
        int err = gs_wait_writable(out_fd, deadline_ns);
        if (err)
            return err;
    }
}

/* Either end may be the one that would block: check the input first. */
ssize_t gs_splice(int in_fd, int out_fd, size_t n, unsigned flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    for (;;) {
        ssize_t done = gs_sys_splice(in_fd, out_fd, n, flags | SPLICE_F_NONBLOCK);
        if (done != -EAGAIN && done != -EINTR) {
            turn_spend(done, deadline_ns);
            return done;
        }
        struct gs_poll poll = {.fd = in_fd, .events = GS_READ};
        int ready = gs_poll(&poll, 1, 0);
        if (ready < 0)
            return ready;
        int err =
            ready ? gs_wait_writable(out_fd, deadline_ns) : gs_wait_readable(in_fd, deadline_ns);
        if (err)
            return err;
    }
}
