/* read, write and their vector forms. Sockets are tried with MSG_DONTWAIT, pipes with RWF_NOWAIT;
 * other files are polled first, except regular ones. If the open file has O_NONBLOCK, the kernel's
 * answer is the program's. */
#include "compat/pthread/io/io.h"
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

bool gs_is_nonblocking(int fd)
{
    long flags = gs_syscall(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0);
    return flags < 0 || flags & O_NONBLOCK;
}

bool gs_is_ready(int fd, short events)
{
    struct pollfd poll = {.fd = fd, .events = events};
    return gs_syscall(SYS_poll, (long)&poll, 1, 0, 0, 0, 0) != 0;
}

/* The kernel sent it to this kernel thread, where it is blocked. */
void gs_raise_pipe_signal(struct task *task)
{
    const gs_signals set = GS_SIGNAL(SIGPIPE);
    const struct timespec now = {0};
    siginfo_t info;
    gs_syscall(SYS_rt_sigtimedwait, (long)&set, (long)&info, (long)&now, sizeof set, 0, 0);
    gs_run_acquire(&gs_tasks_lock);
    gs_signal_task(task, SIGPIPE, NULL);
    gs_run_release(&gs_tasks_lock);
}

/* ---- Files that are no sockets ---- */

/* /dev/zero, full, random and urandom. */
static bool is_endless(const struct stat *stat)
{
    enum { ZERO = 5, FULL = 7, RANDOM = 8, URANDOM = 9 };
    unsigned number = minor(stat->st_rdev);
    return S_ISCHR(stat->st_mode) && major(stat->st_rdev) == 1 &&
           (number == ZERO || number == FULL || number == RANDOM || number == URANDOM);
}

/* Programs expect of a regular file all that they ask for: RWF_NOWAIT stops at what is not in
 * memory. Those of /proc, which may wait, have no size. The same holds for some devices: there
 * RWF_NOWAIT stops when the worker's time slice is over. */
static bool is_stored(int fd, bool is_read)
{
    struct stat stat;
    if (gs_syscall(SYS_fstat, fd, (long)&stat, 0, 0, 0, 0))
        return false;
    if (is_read && is_endless(&stat))
        return true;
    return S_ISBLK(stat.st_mode) || (S_ISREG(stat.st_mode) && (!is_read || stat.st_size));
}

/* Read at the file's own position, without waiting if the file can do that. */
static long try_read(int fd, const struct iovec *iov, long count)
{
    return gs_sys_preadv2(fd, iov, (int)count, -1, RWF_NOWAIT);
}

static size_t length_of(const struct iovec *iov, long count)
{
    size_t n = 0;
    for (long i = 0; i < count; i++)
        n += iov[i].iov_len;
    return n;
}

/* Skip n bytes. The array is changed. */
void gs_iovec_advance(struct iovec **iov, long *count, size_t n)
{
    while (*count && n >= (*iov)->iov_len) {
        n -= (*iov)->iov_len;
        ++*iov;
        --*count;
    }
    if (*count) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + n;
        (*iov)->iov_len -= n;
    }
}

/* What a kick has interrupted is finished by the pool. */
static long read_stored(struct task *task, int fd, struct iovec *iov, long count)
{
    const long arguments[6] = {fd, (long)iov, count};
    bool was_kicked;
    long n = gs_call_on_worker(task, SYS_readv, arguments, &was_kicked);
    if (GS_LIKELY(!was_kicked || n <= 0))
        return n;
    gs_iovec_advance(&iov, &count, (size_t)n);
    const long others[6] = {fd, (long)iov, count};
    long more = count ? gs_pool_call(task, SYS_readv, others) : 0;
    return more > 0 ? n + more : n;
}

/* Another process may read what makes the descriptor ready: then the task waits again. */
static long read_file(struct task *task, int fd, struct iovec *iov, long count)
{
    const long arguments[6] = {fd, (long)iov, count};
    bool is_last = false, was_kicked;
    if (is_stored(fd, true))
        return read_stored(task, fd, iov, count);
    for (;;) {
        long n = is_last ? -EOPNOTSUPP : try_read(fd, iov, count);
        if (n != -EAGAIN && n != -EOPNOTSUPP)
            return n;
        if (is_last)
            return gs_call_on_worker(task, SYS_readv, arguments, &was_kicked);
        if (gs_is_nonblocking(fd) || (n == -EOPNOTSUPP && gs_is_ready(fd, POLLIN))) {
            n = gs_call_waiting(task, SYS_readv, arguments, &was_kicked);
            if (!was_kicked || n != -EINTR)
                return gs_or_restart(n);
        }
        int err = gs_wait_for_descriptor(task, fd, POLLIN, GS_NEVER);
        if (err == -EINTR)
            return RESTART_IF_ASKED;
        is_last = err != 0;
    }
}

/* The rest, in a call that may wait. What a kick has interrupted is finished by the pool. */
static long write_rest(struct task *task, int fd, struct iovec *iov, long count, size_t written)
{
    const long arguments[6] = {fd, (long)iov, count};
    bool was_kicked;
    long n = gs_call_on_worker(task, SYS_writev, arguments, &was_kicked);
    if (was_kicked && n > 0) {
        GS_COUNT(hand_overs);
        written += (size_t)n;
        gs_iovec_advance(&iov, &count, (size_t)n);
        const long others[6] = {fd, (long)iov, count};
        n = count ? gs_pool_call(task, SYS_writev, others) : 0;
    }
    return n >= 0 ? (long)written + n : written ? (long)written : n;
}

/* A pipe takes what fits; the call has written everything when it returns. */
static long write_file(struct task *task, int fd, struct iovec *iov, long count)
{
    size_t rest = length_of(iov, count), written = 0;
    bool is_last = is_stored(fd, false);
    for (;;) {
        long n = is_last ? -EOPNOTSUPP : gs_sys_pwritev2(fd, iov, (int)count, -1, RWF_NOWAIT);
        if (n > 0) {
            written += (size_t)n;
            rest -= (size_t)n;
            gs_iovec_advance(&iov, &count, (size_t)n);
        }
        bool must_return = n < 0 ? n != -EAGAIN && n != -EOPNOTSUPP : !n || !rest;
        if (must_return)
            return written ? (long)written : n;
        bool is_ready = is_last || (n == -EOPNOTSUPP && gs_is_ready(fd, POLLOUT));
        if (is_ready || gs_is_nonblocking(fd))
            return write_rest(task, fd, iov, count, written);
        if (n > 0)
            continue;
        int err = gs_wait_for_descriptor(task, fd, POLLOUT, GS_NEVER);
        if (err == -EINTR)
            return written ? (long)written : RESTART_IF_ASKED;
        is_last = err != 0;
    }
}

/* ---- The calls ---- */

long gs_call_read(struct task *task, const long *arguments, ucontext_t *context)
{
    int fd = (int)arguments[0];
    (void)context;
    const struct socket_io io = {
        .fd = fd, .bytes = (void *)arguments[1], .n = (size_t)arguments[2], .raises_signal = true};
    if (!io.n)
        return gs_syscall(SYS_read, fd, arguments[1], 0, 0, 0, 0);
    long n = gs_socket_receive(task, &io);
    if (n != -ENOTSOCK)
        return n;
    struct iovec iov = {io.bytes, io.n};
    return read_file(task, fd, &iov, 1);
}

long gs_call_write(struct task *task, const long *arguments, ucontext_t *context)
{
    int fd = (int)arguments[0];
    (void)context;
    const struct socket_io io = {
        .fd = fd, .bytes = (void *)arguments[1], .n = (size_t)arguments[2], .raises_signal = true};
    long n = gs_socket_send(task, &io);
    if (n != -ENOTSOCK)
        return n;
    struct iovec iov = {io.bytes, io.n};
    n = write_file(task, fd, &iov, 1);
    if (n == -EPIPE)
        gs_raise_pipe_signal(task);
    return n;
}

static bool is_valid(const long *arguments)
{
    return arguments[2] > 0 && arguments[2] <= IOVECS_MAX && arguments[1];
}

/* An array that is larger than ours, or none, which the kernel refuses at once. */
static long call_kernel(struct task *task, long number, const long *arguments)
{
    if (arguments[2] <= IOVECS_MAX)
        return gs_syscall(number, arguments[0], arguments[1], arguments[2], 0, 0, 0);
    long n = gs_pool_call(task, number, arguments);
    if (n == -EPIPE)
        gs_raise_pipe_signal(task);
    return n;
}

long gs_call_readv(struct task *task, const long *arguments, ucontext_t *context)
{
    int fd = (int)arguments[0];
    struct iovec copy[IOVECS_MAX];
    struct msghdr message = {.msg_iov = (struct iovec *)arguments[1],
                             .msg_iovlen = (size_t)arguments[2]};
    (void)context;
    if (!is_valid(arguments))
        return call_kernel(task, SYS_readv, arguments);
    long n = gs_socket_receive_message(task, fd, &message, 0);
    if (n != -ENOTSOCK)
        return n;
    if (gs_run_copy(copy, message.msg_iov, message.msg_iovlen * sizeof copy[0]))
        return -EFAULT;
    return read_file(task, fd, copy, arguments[2]);
}

long gs_call_writev(struct task *task, const long *arguments, ucontext_t *context)
{
    int fd = (int)arguments[0];
    struct iovec copy[IOVECS_MAX];
    struct msghdr message = {.msg_iov = (struct iovec *)arguments[1],
                             .msg_iovlen = (size_t)arguments[2]};
    (void)context;
    if (!is_valid(arguments))
        return call_kernel(task, SYS_writev, arguments);
    long n = gs_socket_send_message(task, fd, &message, 0);
    if (n != -ENOTSOCK)
        return n;
    if (gs_run_copy(copy, message.msg_iov, message.msg_iovlen * sizeof copy[0]))
        return -EFAULT;
    n = write_file(task, fd, copy, arguments[2]);
    if (n == -EPIPE)
        gs_raise_pipe_signal(task);
    return n;
}
