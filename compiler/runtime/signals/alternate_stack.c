/* Alternate stacks for handlers of signals, of which each thread has its own. What the kernel calls
 * runs on the one that was set last on its worker, as the kernel knows of no other. */
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/signals/signals.h"

#include <signal.h>

#define AUTODISARM (1u << 31)

/* What the kernel thread had before a thread of the program has set one, and that thread. */
static _Thread_local stack_t before;
static _Thread_local const struct thread *owner;

static bool is_on(const stack_t *stack)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return here - (uintptr_t)stack->ss_sp < stack->ss_size;
}

static void reset(struct thread *thread)
{
    thread->extra->alternate = (stack_t){0};
    if (owner != thread)
        return;
    owner = NULL;
    sigaltstack(&before, NULL);
}

void gs_cc_alternate_stack_end(struct thread *thread)
{
    if (thread->extra->alternate.ss_size)
        reset(thread);
}

/* Returns 0 or an error. */
static int set(struct thread *thread, const stack_t *wanted)
{
    unsigned flags = (unsigned)wanted->ss_flags & ~AUTODISARM;
    if (is_on(&thread->extra->alternate))
        return EPERM;
    if (flags == SS_DISABLE) {
        reset(thread);
        return 0;
    }
    if (flags && flags != SS_ONSTACK)
        return EINVAL;
    stack_t real = *wanted, old;
    real.ss_flags = 0;
    if (sigaltstack(&real, &old) && errno != EPERM)
        return errno;
    if (!owner)
        before = old;
    owner = thread;
    thread->extra->alternate = real;
    return 0;
}

int gs_cc_sigaltstack(const stack_t *wanted, stack_t *ret_old)
{
    struct thread *thread = thread_self() ? thread_self() : gs_cc_handling.target;
    if (!thread)
        return sigaltstack(wanted, ret_old);
    stack_t old = gs_cc_extra(thread)->alternate;
    old.ss_flags = !old.ss_size ? SS_DISABLE : is_on(&old) ? SS_ONSTACK : 0;
    int err = wanted ? set(thread, wanted) : 0;
    if (err)
        return result_of(err);
    if (ret_old)
        *ret_old = old;
    return 0;
}

/* ---- Handlers ---- */

struct handler_call {
    const struct sigaction *action;
    siginfo_t *information;
    void *context;
};

static void *call(void *argument)
{
    const struct handler_call *call = argument;
    int number = call->information->si_signo;
    if (call->action->sa_flags & SA_SIGINFO)
        call->action->sa_sigaction(number, call->information, call->context);
    else
        call->action->sa_handler(number);
    return NULL;
}

/* The same on another stack. The calling one is kept in a register that functions preserve. */
#if defined __x86_64__
static void call_below(uintptr_t top, struct handler_call *handler)
{
    void *argument = handler;
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "movq %[top], %%rsp\n\t"
                     "callq *%[call]\n\t"
                     "movq %%rbx, %%rsp"
                     : "+D"(argument)
                     : [top] "r"(top), [call] "r"(call)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory",
                       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}
#elif defined __aarch64__
static void call_below(uintptr_t top, struct handler_call *handler)
{
    register void *argument __asm__("x0") = handler;
    __asm__ volatile("mov x19, sp\n\t"
                     "mov sp, %[top]\n\t"
                     "blr %[call]\n\t"
                     "mov sp, x19"
                     : "+r"(argument)
                     : [top] "r"(top), [call] "r"(call)
                     : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                       "x13", "x14", "x15", "x16", "x17", "x19", "x30", "cc", "memory", "v0", "v1",
                       "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
                       "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
#else
static void call_below(uintptr_t top, struct handler_call *handler)
{
    (void)top;
    call(handler);
}
#endif

/* The kernel has changed the stack itself; and on several workers, two handlers of a thread may run
 * at the same time if others call them. */
static bool is_to_change(const struct sigaction *action, const struct thread *thread)
{
    bool is_own = gs_cc_handling.own == thread;
    bool is_called = is_own || (gs_cc_workers == 1 && !gs_cc_handling.has_mask);
    return !IS_SANITIZED && action->sa_flags & SA_ONSTACK && thread && is_called && thread->extra &&
           thread->extra->alternate.ss_size && !is_on(&thread->extra->alternate);
}

void gs_cc_call_handler(const struct sigaction *action, siginfo_t *information, void *context)
{
    struct handler_call handler = {action, information, context};
    const struct thread *thread = gs_cc_handling.target;
    if (!is_to_change(action, thread)) {
        call(&handler);
        return;
    }
    const stack_t *stack = &thread->extra->alternate;
    call_below(((uintptr_t)stack->ss_sp + stack->ss_size) & ~(uintptr_t)15, &handler);
}
