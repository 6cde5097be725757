/* Refuses system calls to the process, like a sandbox. */
#ifndef GS_TESTS_SANDBOX_H
#define GS_TESTS_SANDBOX_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* These calls, at most 32, fail with the error from now on. Returns 0, or -1 where the kernel has
 * no filters. */
static inline int refuse_calls(const unsigned *numbers, unsigned count, unsigned error)
{
    struct sock_filter filter[2 * 32 + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short n = 1;
    for (unsigned i = 0; i < count; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {n, filter};
    int err = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return err ? err : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* The same for one call, which fails with EPERM. */
static inline int refuse_call(unsigned number)
{
    return refuse_calls(&number, 1, EPERM);
}

/* Calls that kernels or sandboxes may not know, and in whose place the library makes others. */
static const unsigned newer_calls[] = {
    SYS_openat2,    SYS_epoll_pwait2,    SYS_preadv2,        SYS_pwritev2,
    SYS_cachestat,  SYS_io_uring_setup,  SYS_io_uring_enter, SYS_io_uring_register,
    SYS_pidfd_open, SYS_process_madvise, SYS_memfd_create,   SYS_sendfile,
};
enum { NEWER_CALLS = sizeof newer_calls / sizeof *newer_calls };

#endif
