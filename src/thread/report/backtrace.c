/* Backtraces. The compiler's unwinder uses the tables that every module contains, with or without
 * frame pointers; for a suspended stack it starts at a call that seems to have been made there. It
 * trusts what it reads: if the stack may change meanwhile, or if unwinding fails, the frame
 * pointers are followed. */
#include "thread/report/backtrace.h"
#include "thread/stack/shared_stack.h"

#include <ucontext.h>
#include <unwind.h>

/* A walk over the frames of a stack. */
struct walk {
    const struct gs_thread *thread;
    struct backtrace *backtrace;
    uintptr_t from; /* where the backtrace starts */
    bool has_started;
    bool is_exact; /* `from` is no return address, but was interrupted */
};

static void add_call(struct backtrace *backtrace, uintptr_t pc)
{
    const void *at = (const void *)pc;
    if (backtrace->count < BACKTRACE_FIRST)
        backtrace->first[backtrace->count] = at;
    backtrace->last[backtrace->count % BACKTRACE_LAST] = at;
    backtrace->count++;
}

/* ---- By unwind tables ---- */

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *data)
{
    struct walk *walk = data;
    uintptr_t pc = _Unwind_GetIP(context);
    if (!pc)
        return _URC_END_OF_STACK;
    if (!walk->has_started && pc != walk->from)
        return _URC_NO_REASON;
    bool is_call = walk->has_started || !walk->is_exact;
    walk->has_started = true;
    add_call(walk->backtrace, pc - is_call);
    return _URC_NO_REASON;
}

static void unwind(void *walk)
{
    _Unwind_Backtrace(on_frame, walk);
}

/* ---- By frame pointers, which only go up on a stack ---- */

NOT_FOR_ASAN NOT_FOR_TSAN static void follow_thread(struct walk *walk, uintptr_t frame)
{
    uintptr_t low = (uintptr_t)gs_stack_bottom(walk->thread),
              high = (uintptr_t)walk->thread->stack_top - 16;
    add_call(walk->backtrace, walk->from - !walk->is_exact);
    while (frame >= low && frame <= high && frame % 8 == 0) {
        const uintptr_t *words = gs_stack_readable(walk->thread, frame);
        gs_chaos(CHAOS_STEAL);
        if (!words || !words[1])
            return;
        add_call(walk->backtrace, words[1] - 1);
        if (words[0] <= frame)
            return;
        frame = words[0];
    }
}

/* ---- Of which thread ---- */

static void unwind_suspended(void *walk)
{
    const struct gs_thread *thread = ((struct walk *)walk)->thread;
    gs_context_call_for_unwind(unwind, walk, thread->sp);
}

NOT_FOR_ASAN NOT_FOR_TSAN void gs_backtrace_of_waiting(struct gs_thread *thread, bool is_stable,
                                                       struct backtrace *ret_backtrace)
{
    struct walk walk = {.thread = thread, .backtrace = ret_backtrace};
    *ret_backtrace = (struct backtrace){0};
    struct gs_spin *lock = gs_stack_reading_lock(thread);
    const void *context = gs_stack_readable(thread, (uintptr_t)thread->sp);
    uintptr_t frame = context ? (uintptr_t)context_frame(context) : 0;
    walk.from = context ? (uintptr_t)context_pc(context) : 0;
    gs_stack_reading_unlock(lock, thread);
    if (!context ||
        (is_stable && gs_stack_with(thread, unwind_suspended, &walk) && walk.has_started))
        return;
    lock = gs_stack_reading_lock(thread);
    follow_thread(&walk, frame);
    gs_stack_reading_unlock(lock, thread);
}

void gs_backtrace_of_caller(const struct gs_thread *thread, const void *pc,
                            struct backtrace *ret_backtrace)
{
    struct walk walk = {.thread = thread, .backtrace = ret_backtrace, .from = (uintptr_t)pc};
    *ret_backtrace = (struct backtrace){0};
    unwind(&walk);
}

struct registers {
    uintptr_t pc, frame, sp;
};

static struct registers registers_of(const void *context)
{
    const mcontext_t *machine = &((const ucontext_t *)context)->uc_mcontext;
#ifdef __x86_64__
    return (struct registers){
        .pc = (uintptr_t)machine->gregs[REG_RIP],
        .frame = (uintptr_t)machine->gregs[REG_RBP],
        .sp = (uintptr_t)machine->gregs[REG_RSP],
    };
#else
    return (struct registers){machine->pc, machine->regs[29], machine->sp};
#endif
}

const void *gs_stack_pointer_of_interrupted(const void *context)
{
    return (const void *)registers_of(context).sp;
}

const void *gs_pc_of_interrupted(const void *context)
{
    return (const void *)registers_of(context).pc;
}

void gs_backtrace_of_interrupted(const struct gs_thread *thread, const void *context,
                                 struct backtrace *ret_backtrace)
{
    const struct registers registers = registers_of(context);
    struct walk walk = {
        .thread = thread, .backtrace = ret_backtrace, .from = registers.pc, .is_exact = true};
    *ret_backtrace = (struct backtrace){0};
    unwind(&walk);
    if (!walk.has_started && thread)
        follow_thread(&walk, registers.frame);
}
