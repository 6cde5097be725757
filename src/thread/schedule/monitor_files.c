/* The monitor's own table of descriptors. While kernel threads share a table, the kernel counts
 * the uses of a file in every system call that names a descriptor: two atomic operations, a tenth
 * of the time of a short call. A program with one worker may well have no kernel thread besides the
 * worker and the monitor. So the monitor leaves the program's table; no file is open in its own, so
 * none is kept open for it, and it borrows descriptors while it needs them, by a pidfd.
 *
 * With several workers the table is shared in any case. The sanitizers and valgrind write their
 * reports to descriptors of the kernel thread that causes them: there the monitor stays, too. */
#include "thread/schedule/monitor_files.h"

#include "thread/context/sanitizer.h"
#include "thread/context/valgrind.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Since Linux 5.9, 5.6 and 6.9. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#define CLOSE_RANGE_UNSHARE_ (1u << 1)
#define PIDFD_THREAD_ O_EXCL

static int worker_tid;
static int program = -1; /* the pidfd; negative: the table is the program's */

void gs_monitor_files_init(void)
{
    worker_tid = (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    program = -1;
}

/* By arguments that are invalid, so that nothing happens: a kernel without the call, or a filter of
 * system calls, returns something else. */
static bool can_borrow(void)
{
    return gs_syscall(SYS_close_range, 1, 0, 0, 0, 0, 0) == -EINVAL &&
           gs_syscall(SYS_pidfd_getfd, -1, 0, 0, 0, 0, 0) == -EBADF &&
           gs_sys_pidfd_open(-1, 0) == -EINVAL;
}

void gs_monitor_files_leave(void)
{
    if (GS_ASAN || GS_TSAN || valgrind_is_running() || !can_borrow())
        return;
    if (gs_syscall(SYS_close_range, 0, UINT_MAX, CLOSE_RANGE_UNSHARE_, 0, 0, 0))
        return;
    program = gs_sys_pidfd_open(worker_tid, PIDFD_THREAD_);
    if (program < 0) /* before Linux 6.9: of the process, which works while its main thread lives */
        program = gs_sys_pidfd_open(getpid(), 0);
    if (program < 0)
        program = INT_MAX; /* no borrowing succeeds */
}

static int borrow(int fd)
{
    return (int)gs_syscall(SYS_pidfd_getfd, program, fd, 0, 0, 0, 0);
}

/* What cannot be borrowed was closed meanwhile; poll ignores negative numbers. */
int gs_monitor_files_poll(struct pollfd *polls, unsigned count)
{
    if (program < 0)
        return gs_sys_poll(polls, count, 0);
    for (unsigned i = 0; i < count; i++)
        polls[i].fd = borrow(polls[i].fd);
    int n = gs_sys_poll(polls, count, 0);
    for (unsigned i = 0; i < count; i++)
        if (polls[i].fd >= 0)
            gs_sys_close(polls[i].fd);
    return n;
}

void gs_monitor_files_borrow(int fd)
{
    int borrowed = program < 0 || fd < 0 ? -1 : borrow(fd);
    if (borrowed < 0 || borrowed == fd)
        return;
    (void)gs_syscall(SYS_dup3, borrowed, fd, O_CLOEXEC, 0, 0, 0);
    gs_sys_close(borrowed);
}

void gs_monitor_files_return(int fd)
{
    if (program >= 0 && fd >= 0)
        gs_sys_close(fd);
}
