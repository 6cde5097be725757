#include "base/refused.h"

#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

/* Those of enum gs_newer_call come first; the others are only named by gs_sys_refused. */
static const struct {
    const char *name;
    long number;
    long arguments[4];
    long error; /* what the kernel returns */
} calls[] = {
    [GS_OPENAT2] = {"openat2",
                    SYS_openat2,
                    {-1, (long)".", (long)&(struct open_how){0}, sizeof(struct open_how)},
                    -EBADF},
    [GS_EPOLL_PWAIT2] = {"epoll_pwait2",
                         SYS_epoll_pwait2,
                         {-1, (long)&(struct epoll_event){0}, 1},
                         -EBADF},
    [GS_PREADV2] = {"preadv2", SYS_preadv2, {-1}, -EBADF},
    [GS_PWRITEV2] = {"pwritev2", SYS_pwritev2, {-1}, -EBADF},
    {"cachestat", SYS_cachestat, {-1}, -EBADF},
    {"io_uring_setup", SYS_io_uring_setup, {1}, -EFAULT},
    {"io_uring_enter", SYS_io_uring_enter, {-1}, -EBADF},
    {"io_uring_register", SYS_io_uring_register, {-2}, -EBADF},
    {"memfd_create", SYS_memfd_create, {0}, -EFAULT},
    {"pidfd_open", SYS_pidfd_open, {0x7fffffff}, -ESRCH},
    {"process_madvise", SYS_process_madvise, {-1}, -EBADF},
    {"sendfile", SYS_sendfile, {-1, -1, 0, 1}, -EBADF},
};

_Atomic(bool) gs_known_refused[GS_NEWER_CALLS];
static _Atomic(bool) known_to_work[GS_NEWER_CALLS];

static bool probe(size_t index)
{
    const long *with = calls[index].arguments;
    long error = gs_syscall(calls[index].number, with[0], with[1], with[2], with[3], 0, 0);
    return error == calls[index].error;
}

/* A filter never goes away. One that is set up after a genuine error of the call is not noticed. */
bool gs_is_refused_error(enum gs_newer_call call, long error)
{
    if (!gs_is_known_refused(call) &&
        !atomic_load_explicit(&known_to_work[call], memory_order_relaxed)) {
        _Atomic(bool) *known = probe(call) ? known_to_work : gs_known_refused;
        atomic_store_explicit(&known[call], true, memory_order_relaxed);
    }
    return error == -ENOSYS || gs_is_known_refused(call);
}

const char *gs_sys_refused(unsigned index)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!probe(i) && !index--)
            return calls[i].name;
    return NULL;
}
