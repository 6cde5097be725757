/* Files and descriptors: calls that may wait for another process are made by the pool, and those
 * that close descriptors tell the tasks that wait for them. */
#include "compat/pthread/io/io.h"
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

long gs_call_close(struct task *task, const long *arguments, ucontext_t *context)
{
    int fd = (int)arguments[0];
    (void)task, (void)context;
    if (gs_is_own_descriptor(fd))
        return -EBADF;
    long result = gs_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (result != -EBADF)
        gs_descriptor_closed(fd);
    return result;
}

long gs_call_close_range(struct task *task, const long *arguments, ucontext_t *context)
{
    const unsigned first = (unsigned)arguments[0], last = (unsigned)arguments[1];
    (void)task, (void)context;
    long err = gs_close_range_but_own(first, last, (unsigned)arguments[2]);
    if (!err && !(arguments[2] & CLOSE_RANGE_CLOEXEC))
        gs_descriptors_closed(first, last);
    return err;
}

/* Which may close descriptors. */
long gs_call_io_uring_setup(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)context;
    gs_descriptors_disarm_always();
    return gs_syscall(SYS_io_uring_setup, arguments[0], arguments[1], 0, 0, 0, 0);
}

long gs_call_dup2(struct task *task, const long *arguments, ucontext_t *context)
{
    int to = (int)arguments[1];
    (void)task;
    if (gs_is_own_descriptor(to))
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

/* The name of a task, as /proc has it for a thread. */
static long open_name(const struct task *task)
{
    char line[sizeof task->name + 1];
    long fd = gs_syscall(SYS_memfd_create, (long)"comm", MFD_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0)
        return fd;
    int n = snprintf(line, sizeof line, "%s\n", task->name);
    gs_syscall(SYS_pwrite64, fd, (long)line, n, 0, 0, 0);
    return fd;
}

static long open_at(struct task *task, const long program_arguments[6])
{
    long arguments[6] = {program_arguments[0], program_arguments[1], program_arguments[2],
                         program_arguments[3]};
    int directory = (int)arguments[0];
    char buffer[PROC_PATH_MAX];
    struct task *named;
    bool was_kicked;
    const char *path = gs_proc_path(task, (const char *)arguments[1], buffer, &named);
    arguments[1] = (long)path;
    if (named && (arguments[2] & O_ACCMODE) == O_RDONLY)
        return open_name(named);
    /* O_TMPFILE contains O_DIRECTORY. */
    bool may_wait = !(arguments[2] & (O_NONBLOCK | O_PATH | O_TMPFILE));
    if (may_wait && path && is_fifo(directory, path))
        return gs_pool_call(task, SYS_openat, arguments);
    return gs_call_on_worker(task, SYS_openat, arguments, &was_kicked);
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

/* ---- Files of /proc that name a task ---- */

long gs_call_newfstatat(struct task *task, const long *arguments, ucontext_t *context)
{
    char buffer[PROC_PATH_MAX];
    struct task *named;
    (void)context;
    const char *path = gs_proc_path(task, (const char *)arguments[1], buffer, &named);
    return gs_syscall(SYS_newfstatat, arguments[0], (long)path, arguments[2], arguments[3], 0, 0);
}

long gs_call_stat(struct task *task, const long *arguments, ucontext_t *context)
{
    const long at[6] = {AT_FDCWD, arguments[0], arguments[1]};
    return gs_call_newfstatat(task, at, context);
}

long gs_call_access(struct task *task, const long *arguments, ucontext_t *context)
{
    char buffer[PROC_PATH_MAX];
    struct task *named;
    (void)context;
    const char *path = gs_proc_path(task, (const char *)arguments[0], buffer, &named);
    return gs_syscall(SYS_access, (long)path, arguments[1], 0, 0, 0, 0);
}

/* ---- Reading at a position: what is not in memory is read by the pool, to the end ---- */

static void advance(long arguments[6], long n, long *done)
{
    arguments[1] += n;
    arguments[2] -= n;
    arguments[3] += n;
    *done += n;
}

long gs_call_pread(struct task *task, const long *arguments, ucontext_t *context)
{
    long rest[6] = {arguments[0], arguments[1], arguments[2], arguments[3]}, done = 0, n;
    (void)context;
    if (rest[3] < 0)
        return -EINVAL;
    for (;;) {
        const struct iovec iov = {(void *)rest[1], (size_t)rest[2]};
        n = gs_sys_preadv2((int)rest[0], &iov, 1, rest[3], RWF_NOWAIT);
        if (n <= 0 || n >= rest[2])
            break;
        advance(rest, n, &done);
    }
    bool was_kicked = false;
    if (n == -EOPNOTSUPP)
        n = gs_call_on_worker(task, SYS_pread64, rest, &was_kicked);
    bool is_short = was_kicked && n > 0 && n < rest[2];
    if (is_short)
        advance(rest, n, &done);
    if (is_short || n == -EAGAIN)
        n = gs_pool_call(task, SYS_pread64, rest);
    return n >= 0 ? done + n : done ? done : n;
}

/* ---- Locks: tried first, as usually nobody holds them ---- */

long gs_call_fcntl(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    int attempt = (int)arguments[1];
    if (attempt == F_SETLKW)
        attempt = F_SETLK;
    else if (attempt == F_OFD_SETLKW)
        attempt = F_OFD_SETLK;
    long err = gs_syscall(SYS_fcntl, arguments[0], attempt, arguments[2], 0, 0, 0);
    if (attempt == (int)arguments[1] || (err != -EAGAIN && err != -EACCES))
        return err;
    return gs_pool_call(task, SYS_fcntl, arguments);
}

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
