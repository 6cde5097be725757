/* Refuses system calls to the process, like a sandbox. */
#ifndef GS_TESTS_SANDBOX_H
#define GS_TESTS_SANDBOX_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

/* Both calls fail with the error from now on. Returns 0, or -1 where the kernel has no filters. */
static inline int refuse_two_calls(const unsigned numbers[2], unsigned error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[0], 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[1], 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    int err = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return err ? err : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* The same for one call, which fails with EPERM. */
static inline int refuse_call(unsigned number)
{
    const unsigned numbers[] = {number, number};
    return refuse_two_calls(numbers, EPERM);
}

#endif
