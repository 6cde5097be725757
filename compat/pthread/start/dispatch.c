/* Syscall User Dispatch: the kernel sends SIGSYS for a system call that the program makes, with the
 * registers of the call in the handler's context. Calls from the text of this library reach the
 * kernel. The handler runs on the stack of the task and may return on another worker. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

extern const char text_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

struct gs_run_counts gs_counts;

void gs_dispatch_attach(struct carrier *carrier)
{
    carrier->selector = 0;
    long err = gs_syscall(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, 1, (long)text_start,
                          etext - text_start, (long)&carrier->selector, 0);
    if (err)
        gs_report_refusal(
            "the kernel has no Syscall User Dispatch (Linux 5.11, CONFIG_GENERIC_ENTRY)");
}

static bool may_last(const struct gs_call *call, long number, const long *arguments)
{
    int command = (int)arguments[1] & FUTEX_CMD_MASK;
    switch (number) {
    case SYS_futex:
        return command != FUTEX_WAKE && command != FUTEX_WAKE_BITSET;
    case SYS_rt_sigtimedwait:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_pause:
        return true;
    default:
        return call && (call->kind == CALL_NONBLOCKING || call->kind == CALL_IN_POOL);
    }
}

long gs_emulate(struct task *task, long number, const long *arguments, ucontext_t *context)
{
    const struct gs_call *call = gs_call_of(number);
    task->call = number;
    task->call_arguments = arguments;
    if (GS_UNLIKELY(gs_run.traces))
        gs_trace(task, number);
    if (GS_UNLIKELY(atomic_load_explicit(&task->mask, memory_order_relaxed) &
                    GS_INTERNAL_SIGNALS) &&
        may_last(call, number, arguments))
        gs_mask_lasts(task);
    if (GS_LIKELY(call != NULL)) {
        if (call->emulate) {
            long result = call->emulate(task, arguments, context);
            if (call->kind == CALL_NONBLOCKING)
                gs_task_count_vain(task, result);
            return result;
        }
        if (call->kind == CALL_REFUSED)
            return -ENOSYS;
        if (call->kind == CALL_IN_POOL)
            return gs_pool_call(task, number, arguments);
    }
    bool was_kicked;
    if (!call || call->kind == CALL_MAY_WAIT)
        return gs_call_on_worker(task, number, arguments, &was_kicked);
    return gs_or_restart(gs_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                                    arguments[4], arguments[5]));
}

#define SINGLE_STEP (1 << 8) /* a flag of the processor */

/* Without the system call by which handlers return, which is a fifth of the way. It would set the
 * mask, which is the same in all workers, and the alternate stack, which gs_carrier_attach has set.
 * Registers of the floating-point unit are restored, if the kernel has stored them as it should.
 * Not if a handler of the program was called, which may have changed any register; nor in single
 * steps, which would be seen in here. */
static void return_fast(const ucontext_t *context)
{
    enum { STORED_AT = 464 }; /* in the area of FXSAVE */
    const char *state = (const char *)context->uc_mcontext.fpregs;
    struct _fpx_sw_bytes stored;
    if (GS_UNLIKELY(!state))
        return;
    memcpy(&stored, state + STORED_AT, sizeof stored);
    if (GS_LIKELY(stored.magic1 == FP_XSTATE_MAGIC1))
        gs_run_return(context->uc_mcontext.gregs, state, stored.xstate_bv);
}

/* Make the call that the context has, and leave. The program counter is behind the instruction that
 * has made it; a call that is made again has its number in rax, as before. Inside. */
static void emulate_in(struct task *task, ucontext_t *context)
{
    greg_t *registers = context->uc_mcontext.gregs;
    long call = registers[REG_RAX];
    long arguments[6] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                         registers[REG_R10], registers[REG_R8],  registers[REG_R9]};
    long result = gs_emulate(task, call, arguments, context);
    registers[REG_RAX] = result;
    if (gs_task != task) { /* in a forked child, which is no task */
        context->uc_stack = task->alternate_stack;
        return;
    }
    gs_task_leave(task, context, &result, call);
    if (GS_UNLIKELY(gs_task != task)) /* a handler has forked, and this is the child */
        return;
    if (result == RESTART_IF_ASKED || result == RESTART_NEVER) {
        registers[REG_RAX] = call;
        registers[REG_RIP] -= 2;
    }
    /* The kernel restores it for this kernel thread, which may be another one now. */
    context->uc_stack = gs_carrier()->signal_stack;
}

void gs_on_system_call(int number, siginfo_t *info, void *context_argument)
{
    ucontext_t *context = context_argument;
    struct task *task = gs_task;
    if (GS_UNLIKELY(info->si_code != 2 /* SYS_USER_DISPATCH */ || !task || gs_task_is_inside)) {
        gs_on_signal(number, info, context);
        return;
    }
    unsigned handled = task->handled;
    gs_task_enter(task);
    GS_COUNT(dispatched);
    emulate_in(task, context);
    bool is_as_before = gs_task == task && task->handled == handled;
    if (GS_LIKELY(is_as_before && !(context->uc_mcontext.gregs[REG_EFL] & SINGLE_STEP)))
        return_fast(context);
}
