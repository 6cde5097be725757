/* On which stack our signal handlers run.
 *
 * Code may run with a stack pointer that has no room below it: in compiled Erlang the stack of a
 * process grows towards its heap, and OCaml's threads have small stacks. Such programs give each
 * thread an alternate stack, on which all of their handlers run. Our kick comes without being asked
 * for, so it must not use their stack either.
 *
 * A kernel thread that runs tasks has an alternate stack of its own. The kernel puts the frame of a
 * kick there, and of a fault whose handler is to run on the alternate stack. The handler may wait,
 * and resume on another kernel thread: so gs_run_signal_entry (x86_64.S) moves the frame to the
 * stack on which the kernel would have made it for the task, before the handler begins. What
 * interrupts this library stays: it only sets a flag. */
#include "compat/pthread/threads/task.h"

#include <gossamer/sys.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    SIZE = 64 << 10,
    ROOM = 8 << 10, /* what our handlers need beside the frame */
    RED_ZONE = 128,
    ALIGNMENT = 64, /* of the state of the floating-point unit */
};

static bool is_within(const stack_t *stack, uintptr_t address)
{
    return !(stack->ss_flags & SS_DISABLE) && address - (uintptr_t)stack->ss_sp < stack->ss_size;
}

int gs_signal_stack_attach(struct carrier *carrier)
{
    if (!carrier->signal_stack.ss_sp) {
        long stack = gs_syscall(SYS_mmap, 0, SIZE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack < 0 && stack > -4096)
            return (int)stack;
        carrier->signal_stack = (stack_t){.ss_sp = (void *)stack, .ss_size = SIZE};
    }
    return (int)gs_syscall(SYS_sigaltstack, (long)&carrier->signal_stack, 0, 0, 0, 0, 0);
}

/* The frame ends where the state of the floating-point unit does, which is behind all else. */
static uintptr_t end_of_frame(const siginfo_t *info, const ucontext_t *context)
{
    enum { STORED_AT = 464, LEGACY = 512 }; /* in the area of FXSAVE */
    const char *state = (const char *)context->uc_mcontext.fpregs;
    struct _fpx_sw_bytes stored;
    if (!state)
        return (uintptr_t)(info + 1);
    memcpy(&stored, state + STORED_AT, sizeof stored);
    return (uintptr_t)state + (stored.magic1 == FP_XSTATE_MAGIC1 ? stored.extended_size : LEGACY);
}

/* Whether the next handler is to run where the program was. A turn that ends needs no handler. */
static bool wants_same_stack(struct task *task)
{
    gs_signals deliverable = gs_deliverable(task);
    if (!deliverable)
        return false;
    struct kernel_action action = gs_action_of(__builtin_ctzll(deliverable) + 1);
    return gs_is_handler(&action) && !(action.flags & SA_ONSTACK);
}

bool gs_must_move_back(struct task *task, const ucontext_t *context)
{
    const stack_t *stack = &task->alternate_stack;
    return GS_UNLIKELY(is_within(stack, (uintptr_t)__builtin_frame_address(0))) &&
           !is_within(stack, (uintptr_t)context->uc_mcontext.gregs[REG_RSP]) &&
           wants_same_stack(task);
}

bool gs_is_on_signal_stack(void)
{
    return is_within(&gs_carrier()->signal_stack, (uintptr_t)__builtin_frame_address(0));
}

/* Return below which address the frame belongs; 0: it stays. */
static uintptr_t place(struct task *task, int number, const ucontext_t *context, size_t size)
{
    uintptr_t sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP], below = sp - RED_ZONE;
    const stack_t *stack = &task->alternate_stack;
    bool is_usable = !(stack->ss_flags & SS_DISABLE) && !is_within(stack, sp);
    bool is_wanted = number != KICK || (stack->ss_size >= size + ROOM && !wants_same_stack(task));
    if (is_usable && is_wanted)
        return (uintptr_t)stack->ss_sp + stack->ss_size;
    return below;
}

/* For gs_run_signal_entry: move the frame of the kernel, which begins at `frame`. Returns by how
 * much. */
intptr_t gs_signal_move(int number, const siginfo_t *info, ucontext_t *context, void *frame)
{
    const stack_t *ours = &gs_carrier()->signal_stack;
    bool is_nested = is_within(ours, (uintptr_t)context->uc_mcontext.gregs[REG_RSP]);
    if (!is_within(ours, (uintptr_t)frame) || is_nested || !gs_is_in_program())
        return 0;
    uintptr_t end = end_of_frame(info, context);
    size_t size = end - (uintptr_t)frame;
    uintptr_t new_end = place(gs_task, number, context, size);
    /* Both at the same offset in a line. */
    new_end -= (new_end - end) % ALIGNMENT;
    intptr_t distance = (intptr_t)(new_end - end);
    if (gs_run_copy((char *)frame + distance, frame, size)) {
        /* The stack is full. The kernel ends a program of which it cannot call a handler. */
        if (number != KICK)
            gs_signal_default(SIGSEGV);
        return 0;
    }
    ucontext_t *moved = (ucontext_t *)((char *)context + distance);
    if (moved->uc_mcontext.fpregs)
        moved->uc_mcontext.fpregs =
            (fpregset_t)((uintptr_t)moved->uc_mcontext.fpregs + (uintptr_t)distance);
    moved->uc_stack = gs_task->alternate_stack;
    return distance;
}
