/* Files and descriptors: calls that may wait for another process are made by the pool, and those
 * that close descriptors tell the tasks that wait for them. */
#include "compat/pthread/calls.h"
#include "compat/pthread/io.h"
#include "compat/pthread/task.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLOSE_LIMIT (1u << 20)

long gs_call_close(struct task *task, const long *arguments, ucontext_t *context)
{
    int fd = (int)arguments[0];
    (void)task, (void)context;
    if (gs_descriptor_is_own(fd))
        return -EBADF;
    long result = gs_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (result != -EBADF)
        gs_descriptor_closed(fd);
    return result;
}

static long close_between(unsigned first, unsigned last, long flags)
{
    return first <= last ? gs_syscall(SYS_close_range, first, last, flags, 0, 0, 0) : 0;
}

/* Around the descriptors of this library. */
long gs_call_close_range(struct task *task, const long *arguments, ucontext_t *context)
{
    unsigned first = (unsigned)arguments[0], last = (unsigned)arguments[1], from = first;
    (void)task, (void)context;
    if (first > last)
        return -EINVAL;
    for (unsigned fd = first; fd <= last && fd < CLOSE_LIMIT; fd++) {
        if (!gs_descriptor_is_own((int)fd))
            continue;
        long err = fd ? close_between(from, fd - 1, arguments[2]) : 0;
        if (err)
            return err;
        from = fd + 1;
    }
    return close_between(from, last, arguments[2]);
}

long gs_call_dup2(struct task *task, const long *arguments, ucontext_t *context)
{
    int to = (int)arguments[1];
    (void)task;
    if (gs_descriptor_is_own(to))
        return -EBUSY;
    long flags = context && context->uc_mcontext.gregs[REG_RAX] == SYS_dup3 ? arguments[2] : -1;
    long result = flags < 0 ? gs_syscall(SYS_dup2, arguments[0], to, 0, 0, 0, 0)
                            : gs_syscall(SYS_dup3, arguments[0], to, flags, 0, 0, 0);
    if (result >= 0 && arguments[0] != to)
        gs_descriptor_closed(to);
    return result;
}

/* ---- Opening: a FIFO waits for its other end ---- */

static bool is_fifo(int directory, const char *path)
{
    struct stat stat;
    return !gs_syscall(SYS_newfstatat, directory, (long)path, (long)&stat, 0, 0, 0) &&
           S_ISFIFO(stat.st_mode);
}

static long open_at(struct task *task, const long arguments[6])
{
    int directory = (int)arguments[0];
    const char *path = (const char *)arguments[1];
    /* O_TMPFILE contains O_DIRECTORY. */
    bool may_wait = !(arguments[2] & (O_NONBLOCK | O_PATH | O_TMPFILE));
    if (may_wait && path && is_fifo(directory, path))
        return gs_pool_call(task, SYS_openat, arguments);
    return gs_syscall(SYS_openat, directory, (long)path, arguments[2], arguments[3], 0, 0);
}

long gs_call_openat(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    return open_at(task, arguments);
}

long gs_call_open(struct task *task, const long *arguments, ucontext_t *context)
{
    const long at[6] = {AT_FDCWD, arguments[0], arguments[1], arguments[2]};
    (void)context;
    return open_at(task, at);
}

long gs_call_creat(struct task *task, const long *arguments, ucontext_t *context)
{
    const long at[6] = {AT_FDCWD, arguments[0], O_CREAT | O_WRONLY | O_TRUNC, arguments[1]};
    (void)context;
    return open_at(task, at);
}

/* ---- Locks ---- */

long gs_call_fcntl(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if (arguments[1] == F_SETLKW || arguments[1] == F_OFD_SETLKW)
        return gs_pool_call(task, SYS_fcntl, arguments);
    return gs_syscall(SYS_fcntl, arguments[0], arguments[1], arguments[2], 0, 0, 0);
}

/* Tried first: usually nobody holds it. */
long gs_call_flock(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    long err = gs_syscall(SYS_flock, arguments[0], arguments[1] | LOCK_NB, 0, 0, 0, 0);
    if (err != -EWOULDBLOCK || arguments[1] & LOCK_NB)
        return err;
    return gs_pool_call(task, SYS_flock, arguments);
}

/* ---- Children ---- */

long gs_call_wait4(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    long pid = gs_syscall(SYS_wait4, arguments[0], arguments[1], arguments[2] | WNOHANG,
                          arguments[3], 0, 0);
    if (pid || arguments[2] & WNOHANG)
        return pid;
    return gs_pool_call(task, SYS_wait4, arguments);
}

long gs_call_waitid(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if (arguments[3] & WNOHANG)
        return gs_syscall(SYS_waitid, arguments[0], arguments[1], arguments[2], arguments[3],
                          arguments[4], 0);
    return gs_pool_call(task, SYS_waitid, arguments);
}

/* ---- Between descriptors: the task waits until the receiving one has room ---- */

static long wait_for_room(struct task *task, int fd)
{
    while (!gs_is_ready(fd, POLLOUT)) {
        int err = gs_wait_for_descriptor(task, fd, POLLOUT, GS_NEVER);
        if (err)
            return err == -EINTR ? RESTART_IF_ASKED : 0;
    }
    return 0;
}

long gs_call_sendfile(struct task *task, const long *arguments, ucontext_t *context)
{
    int fd = (int)arguments[0];
    (void)context;
    if (gs_is_nonblocking(fd))
        return gs_syscall(SYS_sendfile, fd, arguments[1], arguments[2], arguments[3], 0, 0);
    long err = wait_for_room(task, fd);
    if (err)
        return err;
    long n = gs_pool_call(task, SYS_sendfile, arguments);
    if (n == -EPIPE)
        gs_raise_pipe_signal(task);
    return n;
}

long gs_call_splice(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if (arguments[5] & SPLICE_F_NONBLOCK)
        return gs_syscall(SYS_splice, arguments[0], arguments[1], arguments[2], arguments[3],
                          arguments[4], arguments[5]);
    return gs_pool_call(task, SYS_splice, arguments);
}
