/* gs_wait_child: a thread waits for the end of a child process, by a pidfd. */
#include "thread/report/checked.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <sys/wait.h>

int gs_wait_child(pid_t pid, uint64_t deadline_ns, int *ret_status)
{
    CHECKED_WAIT(deadline_ns);
    int fd = gs_sys_pidfd_open(pid, 0);
    if (fd < 0)
        return fd == -ESRCH ? -ECHILD : fd;
    int err, status;
    do {
        err = gs_sys_wait4(pid, &status, WNOHANG);
        if (!err)
            err = gs_wait_readable(fd, deadline_ns);
    } while (!err);
    gs_close(fd);
    if (err < 0)
        return err;
    *ret_status = status;
    return 0;
}
