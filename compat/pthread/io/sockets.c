/* Sockets: tried with MSG_DONTWAIT; the task waits, at most for the socket's timeout, and tries
 * again. */
#include "compat/pthread/io/io.h"
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

/* ---- Waiting for a socket ---- */

struct socket_wait {
    int fd;
    short events;
    int timeout_option;   /* SO_RCVTIMEO or SO_SNDTIMEO */
    uint64_t deadline_ns; /* 0: not known yet */
};

static uint64_t deadline_of(const struct socket_wait *wait)
{
    struct timeval timeout = {0};
    socklen_t length = sizeof timeout;
    long err = gs_syscall(SYS_getsockopt, wait->fd, SOL_SOCKET, wait->timeout_option,
                          (long)&timeout, (long)&length, 0);
    if (err || (!timeout.tv_sec && !timeout.tv_usec))
        return GS_NEVER;
    return gs_clock_now() + (uint64_t)timeout.tv_sec * GS_SECOND +
           (uint64_t)timeout.tv_usec * GS_MICROSECOND;
}

/* The call has returned -EAGAIN. Returns 0 to try again, or what the call returns. With a timeout a
 * socket's call is not restarted after a signal, as in the kernel. */
static long wait_for_socket(struct task *task, struct socket_wait *wait)
{
    if (gs_is_nonblocking(wait->fd))
        return -EAGAIN;
    if (!wait->deadline_ns)
        wait->deadline_ns = deadline_of(wait);
    int err =
        gs_wait_for_descriptor(task, wait->fd, (unsigned short)wait->events, wait->deadline_ns);
    if (err == -EINTR)
        return wait->deadline_ns == GS_NEVER ? RESTART_IF_ASKED : -EINTR;
    return err == -ETIMEDOUT ? -EAGAIN : err;
}

static struct socket_wait to_receive(int fd)
{
    return (struct socket_wait){
        .fd = fd, .events = POLLIN | POLLRDHUP, .timeout_option = SO_RCVTIMEO};
}

static struct socket_wait to_send(int fd)
{
    return (struct socket_wait){.fd = fd, .events = POLLOUT, .timeout_option = SO_SNDTIMEO};
}

/* ---- Receiving ---- */

static size_t length_of(const struct msghdr *message)
{
    size_t n = 0;
    struct iovec iov;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        n += gs_run_copy(&iov, &message->msg_iov[i], sizeof iov) ? 0 : iov.iov_len;
    return n;
}

/* As gs_syscall. Whether it has taken all that was there decides how the descriptor is waited for:
 * descriptors.c. message: NULL for recvfrom. */
static long receive(long number, const long *arguments, int flags, const struct msghdr *message)
{
    int fd = (int)arguments[0];
    bool can_drain =
        !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)) && gs_descriptor_begins_receive(fd);
    long n = gs_syscall(number, fd, arguments[1], arguments[2], arguments[3], arguments[4],
                        arguments[5]);
    if (GS_LIKELY(!can_drain || n == -EAGAIN))
        return n;
    size_t room = message ? length_of(message) : (size_t)arguments[2];
    if (n <= 0 || (size_t)n >= room)
        gs_descriptor_has_more(fd);
    return n;
}

static bool is_stream(int fd)
{
    int type = 0;
    socklen_t length = sizeof type;
    gs_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, (long)&type, (long)&length, 0);
    return type == SOCK_STREAM;
}

/* MSG_WAITALL: what has come is returned if the rest does not come. A datagram comes as a whole. */
long gs_socket_receive(struct task *task, const struct socket_io *io)
{
    struct socket_wait wait = to_receive(io->fd);
    bool waits_for_all =
        io->flags & MSG_WAITALL && !(io->flags & (MSG_PEEK | MSG_DONTWAIT)) && is_stream(io->fd);
    size_t received = 0;
    if (io->flags & MSG_ERRQUEUE)
        return gs_syscall(SYS_recvfrom, io->fd, (long)io->bytes, (long)io->n, io->flags,
                          (long)io->address, (long)io->length);
    for (;;) {
        const long arguments[6] = {io->fd,
                                   (long)io->bytes + (long)received,
                                   (long)(io->n - received),
                                   io->flags | MSG_DONTWAIT,
                                   (long)io->address,
                                   (long)io->length};
        long n = receive(SYS_recvfrom, arguments, io->flags, NULL);
        received += n > 0 ? (size_t)n : 0;
        if (n > 0 && waits_for_all && received < io->n)
            continue;
        if (n != -EAGAIN || io->flags & MSG_DONTWAIT)
            return n >= 0 || received ? (long)received : n;
        long err = wait_for_socket(task, &wait);
        if (err)
            return received ? (long)received : err;
    }
}

long gs_socket_receive_message(struct task *task, int fd, struct msghdr *message, int flags)
{
    struct socket_wait wait = to_receive(fd);
    struct msghdr original;
    if (gs_run_copy(&original, message, sizeof original))
        return -EFAULT;
    /* A stream's MSG_WAITALL needs a copy of the vector to continue: the kernel does it. */
    if (flags & MSG_WAITALL && !(flags & MSG_DONTWAIT)) {
        const long arguments[6] = {fd, (long)message, flags};
        return gs_pool_call(task, SYS_recvmsg, arguments);
    }
    const long to_try[6] = {fd, (long)message, flags | MSG_DONTWAIT};
    for (;;) {
        long n = receive(SYS_recvmsg, to_try, flags, &original);
        if (n != -EAGAIN || flags & (MSG_DONTWAIT | MSG_ERRQUEUE))
            return n;
        *message = original;
        long err = wait_for_socket(task, &wait);
        if (err)
            return err;
    }
}

/* ---- Sending ---- */

static long finish_send(struct task *task, long n, size_t sent, int flags)
{
    if (n == -EPIPE && !sent && !(flags & MSG_NOSIGNAL))
        gs_raise_pipe_signal(task);
    return sent ? (long)sent : n;
}

long gs_socket_send(struct task *task, const struct socket_io *io)
{
    struct socket_wait wait = to_send(io->fd);
    size_t sent = 0;
    for (;;) {
        long n = gs_syscall(SYS_sendto, io->fd, (long)io->bytes + (long)sent, (long)(io->n - sent),
                            io->flags | MSG_DONTWAIT | MSG_NOSIGNAL, (long)io->address,
                            (long)io->length);
        sent += n > 0 ? (size_t)n : 0;
        bool is_done = n >= 0 && (sent >= io->n || !n);
        if (is_done || (n < 0 && n != -EAGAIN) || io->flags & MSG_DONTWAIT)
            return finish_send(task, n, sent, io->flags);
        if (n > 0 && !gs_is_nonblocking(io->fd))
            continue;
        long err = wait_for_socket(task, &wait);
        if (err)
            return sent ? (long)sent : err;
    }
}

/* What was sent of a stream is skipped in a copy of the vector; control data goes first. */
long gs_socket_send_message(struct task *task, int fd, const struct msghdr *message, int flags)
{
    struct socket_wait wait = to_send(fd);
    struct iovec copy[IOVECS_MAX];
    struct msghdr rest;
    size_t sent = 0;
    if (gs_run_copy(&rest, message, sizeof rest))
        return -EFAULT;
    if (rest.msg_iovlen > IOVECS_MAX) {
        const long arguments[6] = {fd, (long)message, flags};
        return gs_pool_call(task, SYS_sendmsg, arguments);
    }
    long n = gs_syscall(SYS_sendmsg, fd, (long)&rest, flags | MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0, 0);
    if (GS_LIKELY(n > 0 && (size_t)n == length_of(&rest)))
        return n;
    if (gs_run_copy(copy, rest.msg_iov, rest.msg_iovlen * sizeof copy[0]))
        return finish_send(task, n, 0, flags);
    rest.msg_iov = copy;
    long count = (long)rest.msg_iovlen;
    for (;;) {
        if (n >= 0) {
            sent += (size_t)n;
            gs_iovec_advance(&rest.msg_iov, &count, (size_t)n);
            rest.msg_control = NULL;
            rest.msg_controllen = 0;
        }
        if ((n >= 0 && (!count || !n)) || (n < 0 && n != -EAGAIN) || flags & MSG_DONTWAIT)
            return finish_send(task, n, sent, flags);
        long err = n >= 0 && !gs_is_nonblocking(fd) ? 0 : wait_for_socket(task, &wait);
        if (err)
            return sent ? (long)sent : err;
        rest.msg_iovlen = (size_t)count;
        n = gs_syscall(SYS_sendmsg, fd, (long)&rest, flags | MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0, 0);
    }
}

/* ---- Accept and connect ---- */

/* There is no accept that does not wait. One task at a time polls and accepts, so that no other
 * takes the connection in between; another process may, and then the call is handed over. */
static long try_accept(struct task *task, const long *arguments)
{
    int fd = (int)arguments[0];
    long result = -EAGAIN;
    bool was_kicked = false;
    gs_descriptor_lock(task, fd);
    if (gs_is_ready(fd, POLLIN))
        result = gs_call_waiting(task, SYS_accept4, arguments, &was_kicked);
    gs_descriptor_unlock(fd);
    /* Another process has taken the connection. */
    if (was_kicked && result == -EINTR)
        return -EAGAIN;
    return gs_or_restart(result);
}

long gs_call_accept4(struct task *task, const long *arguments, ucontext_t *context)
{
    int fd = (int)arguments[0];
    struct socket_wait wait = to_receive(fd);
    (void)context;
    for (;;) {
        long result = try_accept(task, arguments);
        if (result != -EAGAIN)
            return result;
        long err = wait_for_socket(task, &wait);
        if (err)
            return err;
    }
}

long gs_call_accept(struct task *task, const long *arguments, ucontext_t *context)
{
    const long with_flags[6] = {arguments[0], arguments[1], arguments[2]};
    return gs_call_accept4(task, with_flags, context);
}

long gs_call_connect(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if (gs_is_nonblocking((int)arguments[0]))
        return gs_syscall(SYS_connect, arguments[0], arguments[1], arguments[2], 0, 0, 0);
    return gs_pool_call(task, SYS_connect, arguments);
}

/* ---- The other calls ---- */

static struct socket_io io_of(const long *arguments)
{
    return (struct socket_io){.fd = (int)arguments[0],
                              .bytes = (void *)arguments[1],
                              .n = (size_t)arguments[2],
                              .flags = (int)arguments[3],
                              .address = (void *)arguments[4],
                              .length = (unsigned long)arguments[5]};
}

long gs_call_recvfrom(struct task *task, const long *arguments, ucontext_t *context)
{
    const struct socket_io io = io_of(arguments);
    (void)context;
    return gs_socket_receive(task, &io);
}

long gs_call_sendto(struct task *task, const long *arguments, ucontext_t *context)
{
    const struct socket_io io = io_of(arguments);
    (void)context;
    return gs_socket_send(task, &io);
}

long gs_call_recvmsg(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    return gs_socket_receive_message(task, (int)arguments[0], (struct msghdr *)arguments[1],
                                     (int)arguments[2]);
}

long gs_call_sendmsg(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    return gs_socket_send_message(task, (int)arguments[0], (const struct msghdr *)arguments[1],
                                  (int)arguments[2]);
}

long gs_call_recvmmsg(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if (gs_is_nonblocking((int)arguments[0]) || arguments[3] & MSG_DONTWAIT)
        return gs_syscall(SYS_recvmmsg, arguments[0], arguments[1], arguments[2], arguments[3],
                          arguments[4], 0);
    return gs_pool_call(task, SYS_recvmmsg, arguments);
}

long gs_call_sendmmsg(struct task *task, const long *arguments, ucontext_t *context)
{
    struct mmsghdr *messages = (struct mmsghdr *)arguments[1];
    unsigned count = (unsigned)arguments[2];
    long n = 0;
    unsigned sent = 0;
    (void)context;
    for (; sent < count; sent++) {
        n = gs_socket_send_message(task, (int)arguments[0], &messages[sent].msg_hdr,
                                   (int)arguments[3]);
        if (n < 0)
            break;
        messages[sent].msg_len = (unsigned)n;
    }
    return sent ? (long)sent : n;
}

/* Another protocol above TCP ends receives where it pleases. */
long gs_call_setsockopt(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)context;
    if (arguments[1] == IPPROTO_TCP && arguments[2] == TCP_ULP)
        gs_descriptors_disarm_always();
    return gs_syscall(SYS_setsockopt, arguments[0], arguments[1], arguments[2], arguments[3],
                      arguments[4], 0);
}
