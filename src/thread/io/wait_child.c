/* gs_wait_child: a thread waits for the end of a child process, by a pidfd. Where a kernel or a
 * sandbox refuses these, it asks again and again. */
#include "thread/io/io_call.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <sys/wait.h>

int gs_wait_child(pid_t pid, uint64_t deadline_ns, int *ret_status)
{
    CHECKED_WAIT(deadline_ns);
    if (pid <= 0)
        return -EINVAL;
    int fd = gs_sys_pidfd_open(pid, 0);
    bool is_refused = fd == -ENOSYS || fd == -EPERM || fd == -EINVAL;
    if (fd == -ESRCH || fd == -ENOENT)
        return -ECHILD;
    if (fd < 0 && !is_refused)
        return fd;
    uint64_t pause_ns = RETRY_FIRST;
    int err, status;
    do {
        err = gs_sys_wait4(pid, &status, WNOHANG);
        if (!err)
            err = is_refused ? gs_pause_before_retry(&pause_ns, deadline_ns)
                             : gs_wait_readable(fd, deadline_ns);
    } while (!err);
    if (!is_refused)
        gs_close(fd);
    if (err < 0)
        return err;
    *ret_status = status;
    return 0;
}
