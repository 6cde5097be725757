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

/* ---- By frame pointers, which never leave the stack and only go up ---- */

NOT_FOR_ASAN NOT_FOR_TSAN static void follow(struct walk *walk, uintptr_t frame)
{
    const struct gs_thread *thread = walk->thread;
    uintptr_t low = (uintptr_t)thread->stack, high = (uintptr_t)thread->stack_top - 16;
    note(walk->calls, walk->from - !walk->is_exact);
    while (frame >= low && frame <= high && frame % 8 == 0) {
        const uintptr_t *words = (const uintptr_t *)frame;
        if (!words[1])
            return;
        note(walk->calls, words[1] - 1);
        if (words[0] <= frame)
            return;
        frame = words[0];
    }
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
        follow(&walk, (uintptr_t)context_frame(thread->sp));
}

void gs_calls_of_caller(const struct gs_thread *thread, const void *pc, struct calls *ret_calls)
{
    struct walk walk = {.thread = thread, .calls = ret_calls, .from = (uintptr_t)pc};
    *ret_calls = (struct calls){0};
    unwind(&walk);
}

void gs_calls_of_interrupted(const struct gs_thread *thread, const void *context,
                             struct calls *ret_calls)
{
    const ucontext_t *user = context;
    struct walk walk = {.thread = thread, .calls = ret_calls, .is_exact = true};
#ifdef __x86_64__
    walk.from = (uintptr_t)user->uc_mcontext.gregs[REG_RIP];
    uintptr_t frame = (uintptr_t)user->uc_mcontext.gregs[REG_RBP];
#else
    walk.from = (uintptr_t)user->uc_mcontext.pc;
    uintptr_t frame = (uintptr_t)user->uc_mcontext.regs[29];
#endif
    *ret_calls = (struct calls){0};
    unwind(&walk);
    if (!walk.is_begun)
        follow(&walk, frame);
}
