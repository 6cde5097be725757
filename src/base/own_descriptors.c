#include "base/own_descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define FLOOR_MAX 800
#define WORDS 64 /* a bit for each number; larger ones are not known */

static int floor_fd; /* 0: nothing is moved */
static _Atomic(uint64_t) own[WORDS];

static bool is_known(int fd)
{
    return fd >= 0 && fd < WORDS * 64;
}

void gs_own_descriptors_start(void)
{
    struct rlimit limit = {0};
    gs_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit, 0, 0);
    floor_fd = limit.rlim_cur / 2 < FLOOR_MAX ? (int)(limit.rlim_cur / 2) : FLOOR_MAX;
}

void gs_own_descriptors_move(int first, int count)
{
    if (is_known(first) && is_known(first + count))
        floor_fd = first;
}

static uint64_t bit_of(int fd)
{
    return (uint64_t)1 << fd % 64;
}

int gs_own_descriptor(int fd)
{
    if (fd < 0 || !floor_fd)
        return fd;
    int high = gs_sys_fcntl(fd, F_DUPFD_CLOEXEC, floor_fd);
    if (high >= 0) {
        gs_sys_close(fd);
        fd = high;
    }
    if (is_known(fd))
        atomic_fetch_or(&own[fd / 64], bit_of(fd));
    return fd;
}

int gs_own_descriptor_close(int fd)
{
    if (is_known(fd))
        atomic_fetch_and(&own[fd / 64], ~bit_of(fd));
    return gs_sys_close(fd);
}

bool gs_is_own_descriptor(int fd)
{
    return is_known(fd) && atomic_load_explicit(&own[fd / 64], memory_order_relaxed) & bit_of(fd);
}

static int close_range_of(unsigned first, unsigned last, unsigned flags)
{
    return (int)gs_syscall(SYS_close_range, first, last, flags, 0, 0, 0);
}

int gs_close_range_but_own(unsigned first, unsigned last, unsigned flags)
{
    if (first > last)
        return -EINVAL;
    for (unsigned fd = first; fd <= last && fd < WORDS * 64; fd++) {
        if (!gs_is_own_descriptor((int)fd))
            continue;
        int err = fd > first ? close_range_of(first, fd - 1, flags) : 0;
        if (err)
            return err;
        first = fd + 1;
    }
    return first <= last ? close_range_of(first, last, flags) : 0;
}

void gs_own_descriptors_close(void)
{
    for (int fd = 0; fd < WORDS * 64; fd++)
        if (gs_is_own_descriptor(fd))
            gs_own_descriptor_close(fd);
}
