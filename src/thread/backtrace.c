/* The calls on a stack. The compiler's unwinder finds them by the tables that every module brings along, with or without frame
 * pointers; of a stack that is not running, from a call that seems to have been made there. It trusts what it reads: where that
 * may change meanwhile, or where it leads nowhere, the frame pointers are followed. */
#include "thread/calls.h"

#include <ucontext.h>
#include <unwind.h>

/* Where to begin, and what was found. */
struct walk {
    const struct gs_thread *thread;
    struct calls *calls;
    uintptr_t from; /* the first call of interest */
    bool is_begun;
    bool is_exact; /* that one is no call, but was interrupted */
};

static void note_often(struct calls *calls, const void *pc)
{
    for (unsigned i = 0; i < CALLS_OFTEN; i++) {
        if (calls->often[i].count && calls->often[i].pc != pc)
            continue;
        calls->often[i].pc = pc;
        calls->often[i].count++;
        return;
    }
}

static void note(struct calls *calls, uintptr_t pc)
{
    const void *at = (const void *)pc;
    if (calls->count < CALLS_FIRST)
        calls->first[calls->count] = at;
    calls->last[calls->count % CALLS_LAST] = at;
    note_often(calls, at);
    calls->count++;
}

/* ---- By tables ---- */

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *data)
{
    struct walk *walk = data;
    uintptr_t pc = _Unwind_GetIP(context);
    if (!pc)
        return _URC_END_OF_STACK;
    if (!walk->is_begun && pc != walk->from)
        return _URC_NO_REASON;
    bool is_call = walk->is_begun || !walk->is_exact;
    walk->is_begun = true;
    note(walk->calls, pc - is_call);
    return _URC_NO_REASON;
}

static void unwind(void *walk)
{
    _Unwind_Backtrace(on_frame, walk);
}

/* ---- By frame pointers, which only go up on a stack ---- */

/* Returns the frame that is not between low and high, or does not go up; 0: none. */
NOT_FOR_ASAN NOT_FOR_TSAN static uintptr_t follow(struct walk *walk, uintptr_t frame,
                                                  const void *low, const void *high)
{
    while (frame && frame >= (uintptr_t)low && frame <= (uintptr_t)high - 16 && frame % 8 == 0) {
        const uintptr_t *words = (const uintptr_t *)frame;
        if (!words[1])
            return 0;
        note(walk->calls, words[1] - 1);
        if (words[0] <= frame)
            return words[0];
        frame = words[0];
    }
    return frame;
}

NOT_FOR_ASAN NOT_FOR_TSAN static void follow_thread(struct walk *walk, uintptr_t frame)
{
    note(walk->calls, walk->from - !walk->is_exact);
    follow(walk, frame, walk->thread->stack, walk->thread->stack_top);
}

/* ---- Whose ---- */

NOT_FOR_ASAN NOT_FOR_TSAN void gs_calls_of_waiting(const struct gs_thread *thread, bool is_steady,
                                                   struct calls *ret_calls)
{
    struct walk walk = {.thread = thread, .calls = ret_calls};
    *ret_calls = (struct calls){0};
    walk.from = (uintptr_t)context_pc(thread->sp);
    if (is_steady)
        gs_context_view(unwind, &walk, thread->sp);
    if (!walk.is_begun)
        follow_thread(&walk, (uintptr_t)context_frame(thread->sp));
}

void gs_calls_of_caller(const struct gs_thread *thread, const void *pc, struct calls *ret_calls)
{
    struct walk walk = {.thread = thread, .calls = ret_calls, .from = (uintptr_t)pc};
    *ret_calls = (struct calls){0};
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

void gs_calls_of_interrupted(const struct gs_thread *thread, const void *context,
                             struct calls *ret_calls)
{
    const struct registers registers = registers_of(context);
    struct walk walk = {
        .thread = thread, .calls = ret_calls, .from = registers.pc, .is_exact = true};
    *ret_calls = (struct calls){0};
    unwind(&walk);
    if (!walk.is_begun)
        follow_thread(&walk, registers.frame);
}

/* What the thread does on the worker's own stack is shown with what it has called that from. */
NOT_FOR_ASAN NOT_FOR_TSAN void gs_calls_of_sampled(const struct worker *worker,
                                                   const struct gs_thread *thread,
                                                   const void *context, struct calls *ret_calls)
{
    const struct registers registers = registers_of(context);
    const char *sp = (const char *)registers.sp,
               *end = (const char *)worker->stack + worker->stack_size;
    struct walk walk = {
        .thread = thread, .calls = ret_calls, .from = registers.pc, .is_exact = true};
    uintptr_t frame = registers.frame;
    bool is_on_worker = sp >= (const char *)worker->stack && sp < end;
    bool is_on_thread = sp >= thread->stack && sp < thread->stack_top;
    *ret_calls = (struct calls){0};
    if (worker->current != thread || !(is_on_worker || is_on_thread))
        return;
    note(walk.calls, walk.from);
    if (is_on_worker)
        frame = follow(&walk, frame, sp, end);
    follow(&walk, frame, is_on_thread ? sp : thread->stack, thread->stack_top);
}
