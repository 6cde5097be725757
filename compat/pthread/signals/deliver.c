/* Calling the program's signal handlers, in the kernel's stead: on the task's stack or its
 * alternate one, with the context of the system call, the kick or the fault that interrupted the
 * program. */
#include "compat/pthread/start/dump.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <string.h>
#include <sys/syscall.h>

/* ---- The default action ---- */

static bool ends_process(int number)
{
    const gs_signals others = GS_SIGNAL(SIGCHLD) | GS_SIGNAL(SIGURG) | GS_SIGNAL(SIGWINCH) |
                              GS_SIGNAL(SIGCONT) | GS_SIGNAL(SIGSTOP) | GS_SIGNAL(SIGTSTP) |
                              GS_SIGNAL(SIGTTIN) | GS_SIGNAL(SIGTTOU);
    return !(others & GS_SIGNAL(number)) && gs_action_of(number).handler != (void *)SIG_IGN;
}

void gs_signal_default(int number)
{
    struct kernel_action action = {.handler = (void *)SIG_DFL};
    gs_signals signal = GS_SIGNAL(number), before;
    if (ends_process(number))
        gs_tasks_release_robust();
    if (gs_action_of(number).handler != (void *)SIG_IGN)
        gs_syscall(SYS_rt_sigaction, number, (long)&action, 0, sizeof action.mask, 0, 0);
    gs_syscall(SYS_tgkill, gs_run.process_id, gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0), number, 0,
               0, 0);
    gs_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&signal, (long)&before, sizeof signal, 0, 0);
    /* It has stopped the process, and that continues. */
    gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
}

/* ---- Handlers ---- */

#define AUTODISARM ((int)(1u << 31)) /* SS_AUTODISARM: a handler runs without it */
enum { STACK_MIN = 2048 };           /* the kernel's */

struct handler_call {
    struct kernel_action action;
    int number;
    siginfo_t info;
    ucontext_t *context;
};

static void call(void *argument)
{
    struct handler_call *call = argument;
    if (call->action.flags & SA_SIGINFO)
        ((void (*)(int, siginfo_t *, void *))call->action.handler)(call->number, &call->info,
                                                                   call->context);
    else
        ((void (*)(int))call->action.handler)(call->number);
}

static bool is_within(const stack_t *stack, const void *address)
{
    return (uintptr_t)address - (uintptr_t)stack->ss_sp < stack->ss_size;
}

static void call_on_its_stack(const stack_t *stack, struct handler_call *handler)
{
    if (handler->action.flags & SA_ONSTACK && !(stack->ss_flags & SS_DISABLE) &&
        !is_within(stack, __builtin_frame_address(0)))
        gs_run_call_on((char *)stack->ss_sp + stack->ss_size, call, handler);
    else
        call(handler);
}

/* As gs_task_leave, but nothing more is delivered first. */
static void leave_for_handler(struct task *task)
{
    struct carrier *carrier = gs_carrier();
    if (GS_UNLIKELY(task->side_in_hand))
        gs_descriptor_hand_on(task);
    carrier->selector = 1;
    atomic_store(&task->running_on, carrier->tid);
    gs_carrier_stop_if_ending();
    if (GS_UNLIKELY(atomic_load_explicit(&gs_run.is_ticker_asleep, memory_order_relaxed)))
        gs_receiver_wake();
    __asm__ volatile("" ::: "memory");
    gs_task_is_inside = false;
    /* What became pending since is announced again. */
    if (gs_has_signal(task))
        gs_kick(carrier->tid);
}

static void forget_action(int number)
{
    const struct kernel_action none = {.handler = (void *)SIG_DFL};
    const long arguments[] = {number, (long)&none, 0, sizeof none.mask};
    gs_sigaction(NULL, arguments);
}

/* As the kernel, which takes it from the context when the handler returns, unless that uses it. */
static void restore_alternate_stack(struct task *task, const struct handler_call *handler,
                                    const stack_t *before)
{
    const stack_t *stack = &handler->context->uc_stack;
    const void *sp = (const void *)handler->context->uc_mcontext.gregs[REG_RSP];
    bool is_used = !(before->ss_flags & (SS_DISABLE | AUTODISARM)) &&
                   (handler->action.flags & SA_ONSTACK || is_within(before, sp));
    if (is_used || stack->ss_flags & ~(SS_DISABLE | AUTODISARM))
        return;
    if (stack->ss_flags & SS_DISABLE)
        task->alternate_stack = (stack_t){.ss_flags = SS_DISABLE};
    else if (stack->ss_size >= STACK_MIN)
        task->alternate_stack = *stack;
}

/* Inside. The kernel will take its mask for this kernel thread from the context. */
static void call_handler(struct task *task, struct handler_call *handler)
{
    gs_signals kernel_mask, before = atomic_load(&task->mask), mask = before;
    memcpy(&kernel_mask, &handler->context->uc_sigmask, sizeof kernel_mask);
    memcpy(&handler->context->uc_sigmask, &before, sizeof before);
    const stack_t stack = handler->context->uc_stack = task->alternate_stack;
    if (stack.ss_flags & AUTODISARM)
        task->alternate_stack = (stack_t){.ss_flags = SS_DISABLE};
    mask |= handler->action.mask;
    if (!(handler->action.flags & SA_NODEFER))
        mask |= GS_SIGNAL(handler->number);
    if (handler->action.flags & SA_RESETHAND)
        forget_action(handler->number);
    task->handled++;
    task->handled_without_restart += !(handler->action.flags & SA_RESTART);
    gs_set_mask(task, mask, true);
    leave_for_handler(task);
    call_on_its_stack(&stack, handler);
    if (GS_UNLIKELY(gs_task != task))
        return; /* a forked child, which is no task: the kernel takes what the program has left */
    gs_task_enter(task);
    restore_alternate_stack(task, handler, &stack);
    memcpy(&mask, &handler->context->uc_sigmask, sizeof mask);
    memcpy(&handler->context->uc_sigmask, &kernel_mask, sizeof kernel_mask);
    gs_set_mask(task, mask, false);
}

/* What the interrupted system call returns, or that it is made again. */
static void settle_call(ucontext_t *context, const struct kernel_action *action, long *result,
                        long number)
{
    greg_t *registers = context->uc_mcontext.gregs;
    if (!result || (*result != RESTART_IF_ASKED && *result != RESTART_NEVER))
        return;
    if (*result == RESTART_IF_ASKED && action->flags & SA_RESTART) {
        registers[REG_RAX] = *result = number;
        registers[REG_RIP] -= 2;
    } else {
        registers[REG_RAX] = *result = -EINTR;
    }
}

void gs_deliver(struct task *task, ucontext_t *context, long *result, long number)
{
    gs_signals deliverable;
    while ((deliverable = gs_deliverable(task)) && !gs_must_move_back(task, context)) {
        struct handler_call handler = {.context = context};
        handler.number = gs_take_pending(task, deliverable, &handler.info);
        if (!handler.number)
            return;
        handler.action = gs_action_of(handler.number);
        if (handler.action.handler == (void *)SIG_IGN)
            continue;
        if (handler.action.handler == (void *)SIG_DFL) {
            gs_signal_default(handler.number);
            continue;
        }
        settle_call(context, &handler.action, result, number);
        call_handler(task, &handler);
        if (GS_UNLIKELY(gs_task != task))
            return;
    }
}

/* ---- What the kernel calls ---- */

static bool is_fault(int number, const siginfo_t *info)
{
    return info->si_code > 0 && (number == SIGSEGV || number == SIGBUS || number == SIGFPE ||
                                 number == SIGILL || number == SIGTRAP || number == SIGSYS);
}

/* The thread pointer may still be that of a task which another worker has resumed: the selector
 * says that this kernel thread is in here. */
bool gs_is_in_program(void)
{
    return gs_task && !gs_task_is_inside && gs_carrier()->selector;
}

/* An access of ours to memory of the program, which is not there. */
static bool is_access(const ucontext_t *context)
{
    const char *pc = (const char *)context->uc_mcontext.gregs[REG_RIP];
    return pc == gs_run_copy_access || pc == gs_run_probe_access;
}

/* The kernel blocks more until the handler returns, which may be on another worker. */
static void accept_kicks(void)
{
    const gs_signals mask = GS_WORKER_MASK;
    gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask, 0, 0);
}

/* A fault that the program does not handle happens again, with the default action. */
static void handle_fault(int number, const siginfo_t *info, ucontext_t *context)
{
    struct task *task = gs_task;
    gs_dump_fault(task);
    if (is_access(context)) {
        context->uc_mcontext.gregs[REG_RIP] = (greg_t)gs_run_access_failed;
        return;
    }
    struct handler_call handler = {gs_action_of(number), number, *info, context};
    bool is_handled = gs_is_in_program() && handler.action.handler != (void *)SIG_DFL &&
                      handler.action.handler != (void *)SIG_IGN &&
                      !(atomic_load(&task->mask) & GS_SIGNAL(number));
    if (!is_handled) {
        struct kernel_action none = {.handler = (void *)SIG_DFL};
        if (gs_is_in_program()) {
            gs_task_enter(task);
            gs_tasks_release_robust();
        }
        gs_syscall(SYS_rt_sigaction, number, (long)&none, 0, sizeof none.mask, 0, 0);
        if (number == SIGSYS || number == SIGTRAP)
            gs_signal_default(number);
        return;
    }
    gs_task_enter(task);
    accept_kicks();
    call_handler(task, &handler);
    if (GS_UNLIKELY(gs_task != task))
        return;
    gs_task_leave(task, context, NULL, -1);
    context->uc_stack = gs_carrier()->signal_stack;
}

static atomic_uint received;

unsigned gs_signals_received(void)
{
    return atomic_load(&received);
}

/* Only the receiver itself may say who has sent it, if that was not by sigqueue. */
static void pass_to_receiver(int receiver, int number, const siginfo_t *info)
{
    if (gs_syscall(SYS_rt_tgsigqueueinfo, receiver, receiver, number, (long)info, 0, 0) == -EPERM)
        gs_syscall(SYS_tgkill, receiver, receiver, number, 0, 0, 0);
}

/* A signal of the process. Some are not blocked in other kernel threads, which may hold a lock now:
 * they pass it to the receiver. If all tasks block it now, the kernel shall keep it: the receiver
 * blocks it before it waits again. */
void gs_on_signal(int number, siginfo_t *info, void *context)
{
    if (is_fault(number, info)) {
        handle_fault(number, info, context);
        return;
    }
    const int receiver = gs_run.process_id;
    if (gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0) != receiver)
        pass_to_receiver(receiver, number, info);
    else if (number == gs_run.dump_signal)
        gs_dump_request();
    else if (!gs_signal_process(number, info))
        gs_syscall(SYS_rt_sigqueueinfo, receiver, number, (long)info, 0, 0, 0);
    atomic_fetch_add(&received, 1);
}

void gs_on_kick(int number, siginfo_t *info, void *context)
{
    struct task *task = gs_task;
    if (info->si_code == SI_TIMER && !task && gs_timer_expired(info))
        return;
    if (info->si_code != -KICK) {
        gs_on_signal(number, info, context);
        return;
    }
    if (!gs_is_in_program() || gs_is_on_signal_stack()) {
        gs_carrier()->was_kicked = true;
        return;
    }
    gs_carrier_stop_if_ending();
    gs_task_enter(task);
    accept_kicks();
    if (GS_UNLIKELY(atomic_load_explicit(&task->must_dump, memory_order_relaxed)))
        gs_dump_self(task);
    gs_task_leave(task, context, NULL, -1);
    if (GS_LIKELY(gs_task == task))
        ((ucontext_t *)context)->uc_stack = gs_carrier()->signal_stack;
}
