/* System calls about signals. */
#include "compat/pthread/calls.h"
#include "compat/pthread/credentials.h"
#include "compat/pthread/task.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    return gs_syscall(SYS_kill, arguments[0], number, 0, 0, 0, 0);
}

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
    (void)context;
    if (arguments[0] <= 0 || (int)arguments[1] <= 0)
        return -EINVAL;
    if (arguments[0] == own_pid() && (int)arguments[2] == GS_SET_USER)
        return gs_credentials_signal(task, (unsigned)arguments[1]);
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
