/* System calls about signals. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECEIVED_WITHIN_NS (20 * GS_MILLISECOND)

long gs_call_sigaction(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    return gs_sigaction(task, arguments);
}

long gs_call_sigprocmask(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    return gs_sigprocmask(task, arguments);
}

/* Our handlers return by themselves, and the program's return to us. */
long gs_call_sigreturn(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)arguments, (void)context;
    gs_report_refusal("the program calls rt_sigreturn itself");
}

long gs_call_sigaltstack(struct task *task, const long *arguments, ucontext_t *context)
{
    const stack_t *stack = (const stack_t *)arguments[0];
    stack_t *old = (stack_t *)arguments[1];
    const uintptr_t sp = context ? (uintptr_t)context->uc_mcontext.gregs[REG_RSP]
                                 : (uintptr_t)__builtin_frame_address(0);
    stack_t before = task->alternate_stack;
    bool is_on = !(before.ss_flags & SS_DISABLE) && sp - (uintptr_t)before.ss_sp < before.ss_size;
    if (stack) {
        if (is_on)
            return -EPERM;
        if (stack->ss_flags & ~(SS_DISABLE | SS_ONSTACK | (int)(1u << 31)))
            return -EINVAL;
        if (!(stack->ss_flags & SS_DISABLE) && stack->ss_size < 2048)
            return -ENOMEM;
        task->alternate_stack = *stack;
        task->alternate_stack.ss_flags &= ~SS_ONSTACK;
        if (stack->ss_flags & SS_DISABLE)
            task->alternate_stack = (stack_t){.ss_flags = SS_DISABLE};
    }
    if (old) {
        *old = before;
        old->ss_flags |= is_on ? SS_ONSTACK : 0;
    }
    return 0;
}

long gs_call_sigpending(struct task *task, const long *arguments, ucontext_t *context)
{
    gs_signals pending = 0;
    (void)context;
    if ((size_t)arguments[1] > sizeof pending)
        return -EINVAL;
    gs_syscall(SYS_rt_sigpending, (long)&pending, sizeof pending, 0, 0, 0, 0);
    pending = (pending | atomic_load(&task->pending)) & atomic_load(&task->mask);
    memcpy((void *)arguments[0], &pending, (size_t)arguments[1]);
    return 0;
}

/* The handler of the signal that ends the wait runs before the mask is restored. */
long gs_call_sigsuspend(struct task *task, const long *arguments, ucontext_t *context)
{
    gs_signals before = atomic_load(&task->mask);
    long result = -EINTR;
    if (!context || (size_t)arguments[1] != sizeof before)
        return -EINVAL;
    gs_set_mask(task, *(const gs_signals *)arguments[0], false);
    context->uc_mcontext.gregs[REG_RAX] = -EINTR;
    for (unsigned handled = task->handled; task->handled == handled;) {
        gs_task_prepare(task, true);
        (void)gs_task_wait(task, GS_NEVER);
        gs_deliver(task, context, &result, -1);
    }
    gs_set_mask(task, before, false);
    return -EINTR;
}

/* ---- sigwait: from the task, from the process, or wait for either ---- */

static int take_signal(struct task *task, gs_signals set, siginfo_t *ret_info)
{
    const struct timespec now = {0};
    int number = gs_take_pending(task, set, ret_info);
    if (number)
        return number;
    long result =
        gs_syscall(SYS_rt_sigtimedwait, (long)&set, (long)ret_info, (long)&now, sizeof set, 0, 0);
    return result > 0 ? (int)result : 0;
}

/* A signalfd is ready when the process has one of the signals; that the task has one ends the wait
 * as `wanted` says. */
static long wait_for_signal(struct task *task, gs_signals set, siginfo_t *info,
                            uint64_t deadline_ns)
{
    long fd =
        gs_syscall(SYS_signalfd4, -1, (long)&set, sizeof set, SFD_CLOEXEC | SFD_NONBLOCK, 0, 0);
    long result = fd < 0 ? fd : 0;
    atomic_store(&task->wanted, set);
    while (!result) {
        result = take_signal(task, set, info);
        if (result)
            break;
        int err = gs_wait_for_descriptor(task, (int)fd, POLLIN, deadline_ns);
        if (err == -ETIMEDOUT)
            result = -EAGAIN;
        else if (err == -EINTR && gs_deliverable(task))
            result = -EINTR;
        else if (err && err != -EINTR)
            result = err;
    }
    atomic_store(&task->wanted, 0);
    if (fd >= 0)
        gs_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    return result;
}

long gs_call_sigtimedwait(struct task *task, const long *arguments, ucontext_t *context)
{
    gs_signals set = *(const gs_signals *)arguments[0];
    siginfo_t info;
    uint64_t deadline_ns;
    (void)context;
    int err = gs_deadline_after((const struct timespec *)arguments[2], &deadline_ns);
    if (err || (size_t)arguments[3] != sizeof set)
        return -EINVAL;
    set &= ~(GS_SIGNAL(SIGKILL) | GS_SIGNAL(SIGSTOP) | GS_SIGNAL(SIGSYS));
    long number = take_signal(task, set, &info);
    if (!number)
        number = wait_for_signal(task, set, &info, deadline_ns);
    if (number > 0 && arguments[1])
        *(siginfo_t *)arguments[1] = info;
    return number;
}

/* ---- Sending ---- */

static long own_pid(void)
{
    return gs_run.process_id;
}

static void fill(siginfo_t *info, int number, int code)
{
    memset(info, 0, sizeof *info);
    info->si_signo = number;
    info->si_code = code;
    info->si_pid = gs_run.process_id;
    info->si_uid = (uid_t)gs_syscall(SYS_getuid, 0, 0, 0, 0, 0, 0);
}

/* Without a handler the kernel acts for the whole process. If every task blocks the signal, the
 * kernel keeps it, and otherwise a handler runs before the call returns. */
static bool send_to_process(int number, const siginfo_t *info)
{
    struct kernel_action action = gs_action_of(number);
    if (action.handler == (void *)SIG_DFL || action.handler == (void *)SIG_IGN)
        return false;
    return gs_signal_process(number, info);
}

/* The process is one of the group, and its handler runs before the call returns, if the receiver
 * gets the signal soon. */
static long send_to_group(struct task *task, long pid, int number)
{
    const unsigned before = gs_signals_received();
    long result = gs_syscall(SYS_kill, pid, number, 0, 0, 0, 0);
    struct kernel_action action = {.handler = (void *)SIG_DFL};
    if (!result && number > 0 && number <= SIGNALS)
        action = gs_action_of(number);
    if (!gs_is_handler(&action) || atomic_load(&task->mask) & GS_SIGNAL(number))
        return result;
    const uint64_t until_ns = gs_clock_now() + RECEIVED_WITHIN_NS;
    while (gs_signals_received() == before && gs_clock_now() < until_ns)
        gs_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    return result;
}

static bool is_own_group(long pid)
{
    return !pid || (pid < -1 && gs_syscall(SYS_getpgid, 0, 0, 0, 0, 0, 0) == -pid);
}

long gs_call_kill(struct task *task, const long *arguments, ucontext_t *context)
{
    int number = (int)arguments[1];
    siginfo_t info;
    (void)context;
    if (arguments[0] == own_pid() && number > 0 && number <= SIGNALS && number != SIGKILL &&
        number != SIGSTOP && number != gs_run.dump_signal) {
        fill(&info, number, SI_USER);
        if (send_to_process(number, &info))
            return 0;
        bool is_default = gs_action_of(number).handler == (void *)SIG_DFL;
        if (is_default && !(atomic_load(&task->mask) & GS_SIGNAL(number))) {
            gs_signal_default(number);
            return 0;
        }
    }
    if (arguments[0] == own_pid() && number == SIGKILL)
        gs_tasks_release_robust();
    if (is_own_group((int)arguments[0]))
        return send_to_group(task, (int)arguments[0], number);
    return gs_syscall(SYS_kill, arguments[0], number, 0, 0, 0, 0);
}

/* Of the C library, to all of its threads: each makes the same call. */
enum { SET_USER = 33 };

static long send_to_thread(unsigned tid, int number, const siginfo_t *info)
{
    if (number < 0 || number > SIGNALS)
        return -EINVAL;
    gs_run_acquire(&gs_tasks_lock);
    struct task *target = gs_task_find(tid);
    if (target && number)
        gs_signal_task(target, number, info);
    gs_run_release(&gs_tasks_lock);
    return target ? 0 : -ESRCH;
}

/* SIGKILL and SIGSTOP are for the process in any case. */
static long send_code(long pid, unsigned tid, int number, int code)
{
    siginfo_t info;
    if (!gs_task_is_tid(tid))
        return gs_syscall(SYS_tgkill, pid, tid, number, 0, 0, 0);
    if (pid != own_pid())
        return -ESRCH;
    if (number == SIGKILL || number == SIGSTOP || (number && number == gs_run.dump_signal))
        return gs_syscall(SYS_kill, pid, number, 0, 0, 0, 0);
    fill(&info, number, code);
    return send_to_thread(tid, number, &info);
}

long gs_call_tgkill(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)context;
    if (arguments[0] <= 0 || (int)arguments[1] <= 0)
        return -EINVAL;
    if (arguments[0] == own_pid() && (int)arguments[2] == SET_USER)
        gs_credentials_refuse();
    return send_code(arguments[0], (unsigned)arguments[1], (int)arguments[2], SI_TKILL);
}

long gs_call_tkill(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)context;
    if (!gs_task_is_tid((unsigned)arguments[0]))
        return gs_syscall(SYS_tkill, arguments[0], arguments[1], 0, 0, 0, 0);
    return send_code(own_pid(), (unsigned)arguments[0], (int)arguments[1], SI_TKILL);
}

long gs_call_sigqueueinfo(struct task *task, const long *arguments, ucontext_t *context)
{
    int number = (int)arguments[1];
    (void)task, (void)context;
    if (arguments[0] == own_pid() && number > 0 && number <= SIGNALS &&
        send_to_process(number, (const siginfo_t *)arguments[2]))
        return 0;
    return gs_syscall(SYS_rt_sigqueueinfo, arguments[0], number, arguments[2], 0, 0, 0);
}

long gs_call_tgsigqueueinfo(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)task, (void)context;
    if (!gs_task_is_tid((unsigned)arguments[1]))
        return gs_syscall(SYS_rt_tgsigqueueinfo, arguments[0], arguments[1], arguments[2],
                          arguments[3], 0, 0);
    return send_to_thread((unsigned)arguments[1], (int)arguments[2],
                          (const siginfo_t *)arguments[3]);
}

/* ---- A process that a descriptor names ---- */

/* Copy what the file of /proc says. Returns the number of bytes, and a zero follows. */
static long read_text(const char *path, char *buffer, size_t size)
{
    long fd = gs_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    long n = fd < 0 ? 0 : gs_syscall(SYS_read, fd, (long)buffer, (long)size - 1, 0, 0, 0);
    if (fd >= 0)
        gs_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    n = n < 0 ? 0 : n;
    buffer[n] = 0;
    return n;
}

/* A descriptor of pidfd_open, or of the process's folder in /proc. */
static bool names_own_process(int fd)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    read_text(path, text, sizeof text);
    const char *line = strstr(text, "\nPid:");
    if (line)
        return strtol(line + sizeof "\nPid:" - 1, NULL, 10) == own_pid();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    long n = gs_syscall(SYS_readlink, (long)path, (long)text, sizeof text - 1, 0, 0, 0);
    if (n <= 0)
        return false;
    text[n] = 0;
    snprintf(path, sizeof path, "/proc/%ld", own_pid());
    return !strcmp(text, path);
}

long gs_call_pidfd_send_signal(struct task *task, const long *arguments, ucontext_t *context)
{
    const long sent[] = {own_pid(), arguments[1], arguments[2]};
    const int number = (int)arguments[1];
    const siginfo_t *info = (const siginfo_t *)arguments[2];
    bool is_valid = number > 0 && number <= SIGNALS && !arguments[3];
    if (!is_valid || (info && info->si_signo != number) || !names_own_process((int)arguments[0]))
        return gs_syscall(SYS_pidfd_send_signal, arguments[0], number, arguments[2], arguments[3],
                          0, 0);
    return info ? gs_call_sigqueueinfo(task, sent, context) : gs_call_kill(task, sent, context);
}
