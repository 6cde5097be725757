/* The table of system calls, and the functions that emulate them. */
#ifndef GS_COMPAT_PTHREAD_CALLS_H
#define GS_COMPAT_PTHREAD_CALLS_H

#include <ucontext.h>

struct task;

enum gs_call_kind {
    CALL_UNKNOWN,     /* not in the table: passed on */
    CALL_PASSED,      /* the kernel executes it on the worker; it does not wait for others */
    CALL_MAY_WAIT,    /* as well, and it may wait for a device or a lock of the kernel */
    CALL_NONBLOCKING, /* tried without waiting; the task waits for readiness, and tries again */
    CALL_IN_POOL,     /* executed by a kernel thread of the pool while the task waits */
    CALL_EMULATED,    /* done here, at least for some arguments */
    CALL_REFUSED,     /* -ENOSYS, with which the C library has another way */
};

typedef long gs_call_fn(struct task *task, const long *arguments, ucontext_t *context);

struct gs_call {
    const char *name;
    gs_call_fn *emulate;
    unsigned char kind; /* enum gs_call_kind */
};

enum { CALLS = 512 };

/* For a wrapper, in a task: make the call, which a signal may interrupt and a cancellation end, as
 * the C library does. Returns its result, or -1 with errno. */
long gs_wait_in_task(long number, gs_call_fn *emulate, const long *arguments);

/* Returns the entry, or NULL if the number is not in the table. */
const struct gs_call *gs_call_of(long number);

/* read_write.c */
gs_call_fn gs_call_read, gs_call_readv, gs_call_write, gs_call_writev;
/* sockets.c */
gs_call_fn gs_call_recvfrom, gs_call_recvmsg, gs_call_recvmmsg, gs_call_sendto, gs_call_sendmsg,
    gs_call_sendmmsg, gs_call_accept, gs_call_accept4, gs_call_connect, gs_call_setsockopt;
/* poll.c */
gs_call_fn gs_call_poll, gs_call_ppoll, gs_call_select, gs_call_pselect6, gs_call_epoll_wait,
    gs_call_epoll_pwait, gs_call_epoll_pwait2;
/* sleep.c */
gs_call_fn gs_call_nanosleep, gs_call_clock_nanosleep, gs_call_pause, gs_call_sched_yield;
/* files.c */
gs_call_fn gs_call_close, gs_call_close_range, gs_call_open, gs_call_openat, gs_call_creat,
    gs_call_fcntl, gs_call_flock, gs_call_dup2, gs_call_wait4, gs_call_waitid, gs_call_sendfile,
    gs_call_splice, gs_call_newfstatat, gs_call_stat, gs_call_access, gs_call_pread,
    gs_call_io_uring_setup;
/* hand_over.c */
gs_call_fn gs_call_getrandom;
/* stacks.c */
gs_call_fn gs_call_mmap, gs_call_mprotect;
/* threads.c */
gs_call_fn gs_call_futex, gs_call_clone, gs_call_clone3, gs_call_fork, gs_call_vfork, gs_call_exec,
    gs_call_exit, gs_call_exit_group, gs_call_gettid, gs_call_set_tid_address,
    gs_call_set_robust_list, gs_call_get_robust_list, gs_call_rseq, gs_call_prctl,
    gs_call_arch_prctl;
/* credentials.c */
gs_call_fn gs_call_set_credentials, gs_call_setfsuid, gs_call_setfsgid;
/* scheduling.c */
gs_call_fn gs_call_setaffinity, gs_call_getaffinity, gs_call_setparam, gs_call_getparam,
    gs_call_setscheduler, gs_call_getscheduler, gs_call_rr_interval, gs_call_setattr,
    gs_call_getattr, gs_call_setpriority, gs_call_getpriority, gs_call_ioprio,
    gs_call_clock_gettime, gs_call_clock_getres, gs_call_getrusage;
/* signal_calls.c */
gs_call_fn gs_call_sigaction, gs_call_sigprocmask, gs_call_sigreturn, gs_call_sigaltstack,
    gs_call_sigpending, gs_call_sigsuspend, gs_call_sigtimedwait, gs_call_kill, gs_call_tkill,
    gs_call_tgkill, gs_call_sigqueueinfo, gs_call_tgsigqueueinfo, gs_call_pidfd_send_signal;
/* timers.c */
gs_call_fn gs_call_timer_create, gs_call_timer_delete, gs_call_timer_settime, gs_call_alarm,
    gs_call_setitimer;

#endif
