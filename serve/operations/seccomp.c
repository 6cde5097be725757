#include "serve/operations/seccomp.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#if defined __x86_64__
#define AUDIT_ARCH_HERE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define AUDIT_ARCH_HERE AUDIT_ARCH_AARCH64
#endif

/* glibc names mappings by it. */
#define SET_VMA 0x53564d41

/* From this number on, calls have the same numbers everywhere, and every C library makes older ones
 * in place of those that a kernel does not know. */
#define FIRST_NEW_CALL 424

/* New namespaces open parts of the kernel that a process without privileges does not reach. */
#define CLONE_NAMESPACES                                                                           \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET | CLONE_NEWTIME)

#define VALUES_MAX 6
#define FILTER_MAX 600

struct rule {
    unsigned number;
    unsigned needs; /* enum serve_seccomp_need; 0: all servers */
    enum { ANY, WITHOUT_BITS, ONE_OF } test;
    unsigned argument;           /* which is tested, from 0 on */
    unsigned bits;               /* WITHOUT_BITS: none of them may be set */
    unsigned values[VALUES_MAX]; /* ONE_OF */
    unsigned value_count;
};

/* Those made most often first: kernels before 5.11 run the filter for each call. */
static const struct rule rules[] = {
    {SYS_recvfrom},
    {SYS_sendto},
    {SYS_sendmsg},
    {SYS_writev},
    {SYS_read},
    {SYS_write},
    {SYS_epoll_pwait},
    {SYS_epoll_ctl},
    {SYS_futex},
    {SYS_accept4},
    {SYS_close},
    {SYS_sendfile},
    {SYS_openat},
    {SYS_openat2},
    {SYS_fstat},
    {SYS_newfstatat},
    {SYS_epoll_pwait2},
#ifdef SYS_epoll_wait
    {SYS_epoll_wait},
    {SYS_poll},
    {SYS_select},
    {SYS_open},
    {SYS_stat},
    {SYS_lstat},
    {SYS_access},
    {SYS_readlink},
    {SYS_pipe},
    {SYS_dup2},
    {SYS_getdents},
    {SYS_unlink},
    {SYS_fork},
    {SYS_vfork},
    {SYS_time},
    {SYS_arch_prctl},
#endif

    /* Files. */
    {SYS_pread64},
    {SYS_preadv},
    {SYS_preadv2},
    {SYS_readv},
    {SYS_pwrite64},
    {SYS_pwritev},
    {SYS_pwritev2},
    {SYS_lseek},
    {SYS_statx},
    {SYS_statfs},
    {SYS_fstatfs},
    {SYS_readlinkat},
    {SYS_getdents64},
    {SYS_faccessat},
    {SYS_fadvise64},
    {SYS_cachestat},
    {SYS_ftruncate},
    {SYS_unlinkat},
    {SYS_fcntl},
    {SYS_dup},
    {SYS_dup3},
    {SYS_pipe2},
    {SYS_eventfd2},
    {SYS_signalfd4},
    {SYS_timerfd_create},
    {SYS_timerfd_settime},
    {SYS_epoll_create1},
    {SYS_ppoll},
    {SYS_pselect6},
    {SYS_ioctl, .test = ONE_OF, .argument = 1, .values = {FIONREAD, FIONBIO, SIOCOUTQ, TCGETS},
     .value_count = 4},

    /* Sockets, which were created before, or are accepted. */
    {SYS_accept},
    {SYS_recvmsg},
    {SYS_shutdown},
    {SYS_getsockopt},
    {SYS_setsockopt},
    {SYS_getsockname},
    {SYS_getpeername},
    {SYS_io_uring_enter, .needs = SERVE_NEEDS_IO_URING},
    {SYS_io_uring_setup, .needs = SERVE_NEEDS_IO_URING},
    {SYS_io_uring_register, .needs = SERVE_NEEDS_IO_URING},

    /* Memory, of which none becomes code. */
    {SYS_brk},
    {SYS_mmap, .test = WITHOUT_BITS, .argument = 2, .bits = PROT_EXEC},
    {SYS_mprotect, .test = WITHOUT_BITS, .argument = 2, .bits = PROT_EXEC},
    {SYS_munmap},
    {SYS_mremap},
    {SYS_madvise},
    {SYS_mincore},
    {SYS_process_madvise},
    {SYS_getrandom},

    /* Threads and processes of the server. clone3 has its flags in memory, where a filter does not
     * see them: C libraries make the older call when it is unknown. */
    {SYS_clone, .test = WITHOUT_BITS, .argument = 0, .bits = CLONE_NAMESPACES},
    {SYS_exit},
    {SYS_exit_group},
    {SYS_wait4},
    {SYS_waitid},
    {SYS_pidfd_open},
    {SYS_futex_waitv},
    {SYS_set_robust_list},
    {SYS_get_robust_list},
    {SYS_set_tid_address},
    {SYS_rseq},
    {SYS_membarrier},
    {SYS_sched_yield},
    {SYS_sched_getaffinity},
    {SYS_sched_getparam},
    {SYS_sched_getscheduler},
    {SYS_sched_get_priority_max},
    {SYS_sched_get_priority_min},
    {SYS_sched_setscheduler, .test = ONE_OF, .argument = 1, .values = {SCHED_OTHER, SCHED_BATCH},
     .value_count = 2},
    {SYS_setpriority, .test = ONE_OF, .argument = 1, .values = {0}, .value_count = 1},
    {SYS_prctl, .test = ONE_OF, .argument = 0,
     .values = {PR_SET_PDEATHSIG, PR_SET_NAME, PR_GET_NAME, SET_VMA}, .value_count = 4},
    {SYS_process_vm_readv, .needs = SERVE_NEEDS_MEMORY},
    {SYS_getpid},
    {SYS_getppid},
    {SYS_gettid},
    {SYS_getuid},
    {SYS_geteuid},
    {SYS_getgid},
    {SYS_getegid},
    {SYS_getcpu},
    {SYS_getrusage},
    {SYS_prlimit64},
    {SYS_uname},
    {SYS_sysinfo},

    /* Signals and time. */
    {SYS_kill},
    {SYS_tkill},
    {SYS_tgkill},
    {SYS_rt_sigaction},
    {SYS_rt_sigprocmask},
    {SYS_rt_sigreturn},
    {SYS_rt_sigtimedwait},
    {SYS_rt_sigsuspend},
    {SYS_rt_sigpending},
    {SYS_sigaltstack},
    {SYS_restart_syscall},
    {SYS_clock_gettime},
    {SYS_clock_getres},
    {SYS_clock_nanosleep},
    {SYS_nanosleep},
    {SYS_gettimeofday},
    {SYS_timer_create},
    {SYS_timer_settime},
    {SYS_timer_gettime},
    {SYS_timer_delete},
    {SYS_setitimer},
};

#ifdef AUDIT_ARCH_HERE

struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short length;
};

static void put(struct filter *filter, struct sock_filter instruction)
{
    if (filter->length < FILTER_MAX)
        filter->code[filter->length++] = instruction;
}

static void put_return(struct filter *filter, unsigned action)
{
    put(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static void put_load(struct filter *filter, size_t offset)
{
    put(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

/* Compare what was loaded, and go on behind so many instructions. */
static void put_jump(struct filter *filter, unsigned how, unsigned with, unsigned if_not)
{
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | how | BPF_K, with, 0, (uint8_t)if_not));
}

/* What is loaded before and after it is the number of the call. */
static void put_rule(struct filter *filter, const struct rule *rule)
{
    bool is_any = rule->test == ANY, is_one_of = rule->test == ONE_OF;
    put_jump(filter, BPF_JEQ, rule->number, is_any ? 1 : is_one_of ? 2 + 2 * rule->value_count : 4);
    if (!is_any) /* on these processors, the lower half is first */
        put_load(filter, offsetof(struct seccomp_data, args) + rule->argument * sizeof(uint64_t));
    for (unsigned i = 0; is_one_of && i < rule->value_count; i++) {
        put_jump(filter, BPF_JEQ, rule->values[i], 1);
        put_return(filter, SECCOMP_RET_ALLOW);
    }
    if (rule->test == WITHOUT_BITS) {
        put_jump(filter, BPF_JSET, rule->bits, 1);
        put_return(filter, SECCOMP_RET_ERRNO | EPERM);
    }
    put_return(filter, is_one_of ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW);
}

static void write_filter(struct filter *filter, unsigned needs)
{
    put_load(filter, offsetof(struct seccomp_data, arch));
    put_jump(filter, BPF_JEQ, AUDIT_ARCH_HERE, 1);
    put_jump(filter, BPF_JA, 1, 0);
    put_return(filter, SECCOMP_RET_KILL_PROCESS);
    put_load(filter, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!(rules[i].needs & ~needs))
            put_rule(filter, &rules[i]);
    put_jump(filter, BPF_JGE, FIRST_NEW_CALL, 1);
    put_return(filter, SECCOMP_RET_ERRNO | ENOSYS);
    put_return(filter, SECCOMP_RET_ERRNO | EPERM);
}

/* SPEC_ALLOW: the program runs no foreign code, so it needs no mitigation that slows it down, as
 * kernels before 5.16 have for filtered processes. LOG: what is refused can be audited. */
int serve_seccomp_enforce(unsigned needs)
{
    struct filter filter = {.length = 0};
    write_filter(&filter, needs);
    const struct sock_fprog program = {filter.length, filter.code};
    if (filter.length == FILTER_MAX)
        return -E2BIG;
    return (int)gs_syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                           SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_LOG, (long)&program,
                           0, 0, 0);
}

#else

int serve_seccomp_enforce(unsigned needs)
{
    (void)needs;
    return rules[0].number ? -ENOSYS : 0;
}

#endif
