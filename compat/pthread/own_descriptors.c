/* The descriptors of the runtime: they get numbers above those that programs expect for their own,
 * and the program cannot close them. While the runtime starts, no task runs, and the numbers below
 * are all taken; a descriptor that was not open before and is afterwards is the runtime's. */
#include "compat/pthread/task.h"

#include <fcntl.h>
#include <gossamer/sys.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define FLOOR_MAX 800
#define OWN_MAX 64

static short fillers[FLOOR_MAX];
static int filler_count, floor_fd;
static uint64_t was_open, is_own; /* of the OWN_MAX numbers from floor_fd on */

static uint64_t find_open(void)
{
    uint64_t open = 0;
    for (int i = 0; i < OWN_MAX; i++)
        open |= gs_syscall(SYS_fcntl, floor_fd + i, F_GETFD, 0, 0, 0, 0) < 0 ? 0 : (uint64_t)1 << i;
    return open;
}

void gs_own_descriptors_begin(int filler)
{
    struct rlimit limit = {0};
    gs_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit, 0, 0);
    floor_fd = limit.rlim_cur / 2 < FLOOR_MAX ? (int)(limit.rlim_cur / 2) : FLOOR_MAX;
    was_open = find_open();
    filler_count = 0;
    while (filler_count < floor_fd) {
        long fd = gs_syscall(SYS_fcntl, filler, F_DUPFD_CLOEXEC, 0, 0, 0, 0);
        if (fd < 0)
            break;
        if (fd >= floor_fd) {
            gs_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
            break;
        }
        fillers[filler_count++] = (short)fd;
    }
}

void gs_own_descriptors_end(void)
{
    is_own = find_open() & ~was_open;
    while (filler_count)
        gs_syscall(SYS_close, fillers[--filler_count], 0, 0, 0, 0, 0);
}

bool gs_own_descriptors_have(int fd)
{
    return fd >= floor_fd && fd < floor_fd + OWN_MAX && is_own >> (fd - floor_fd) & 1;
}

/* In a child: the runtime's are the parent's. */
void gs_own_descriptors_forget(void)
{
    for (int i = 0; i < OWN_MAX; i++)
        if (is_own >> i & 1)
            gs_syscall(SYS_close, floor_fd + i, 0, 0, 0, 0, 0);
    is_own = 0;
}
