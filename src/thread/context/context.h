/* Switching from one stack to another, in assembler (x86_64.S, aarch64.S). A stack that is not
 * running is identified by its stack pointer, at which the registers stand that the ABI preserves
 * across a call. No thread-local storage and no errno is used. */
#ifndef GS_THREAD_CONTEXT_H
#define GS_THREAD_CONTEXT_H

#include "thread/context/sanitizer.h"

#include <gossamer/thread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Save the registers on the running stack, store its stack pointer in *ret_sp, and resume the stack
 * at to_sp, where the suspended call returns `result`. Returns the `result` given by the caller
 * that later switches back. */
int gs_context_switch(void **ret_sp, void *to_sp, int result);

/* gs_context_switch that also calls then(argument) on the stack at to_sp before that resumes: from
 * then on the stack that was left may run on another worker, or be freed. */
int gs_context_switch_then(void **ret_sp, void *to_sp, int result, void (*then)(void *),
                           void *argument);

/* gs_context_switch from a stack that will not run again. */
__attribute__((noreturn, always_inline)) static inline void context_leave(void *to_sp, int result)
{
#ifdef __x86_64__
    __asm__ volatile("jmp gs_context_leave" : : "D"(to_sp), "S"(result) : "memory");
#else
    void *unused;
    gs_context_switch(&unused, to_sp, result);
#endif
    __builtin_unreachable();
}

/* Call fn(argument) on another stack, below sp, which is aligned to 16. Then clear *in_use, and
 * GS_THREADS_ON_WORKER_STACK in *mode. Returns what fn returns. */
void *gs_context_call(void *(*fn)(void *), void *argument, void *sp, bool *in_use, unsigned *mode);

/* Call fn(argument) such that unwinding the stack from there continues with the suspended stack at
 * sp. */
void gs_context_call_for_unwind(void (*fn)(void *), void *argument, const void *sp);

void gs_context_start(void);

/* What is saved on a suspended stack; lowest address first. */
#if defined(__x86_64__)
struct context {
    uint32_t mxcsr;
    uint32_t x87; /* the control word */
    uint64_t r15, r14, r13, r12, rbx, rbp;
    uint64_t return_address;
};
#elif defined(__aarch64__)
struct context {
    uint64_t x29, x30;
    uint64_t x19, x20, x21_to_x28[8];
    uint64_t d8_to_d15[8];
    uint64_t fpcr, unused;
};
_Static_assert(sizeof(struct context) == 176, "as in aarch64.S");
#else
#error "There is a context switch for x86-64 and aarch64."
#endif

/* Prepare a stack whose end is `top`, aligned to 16, such that switching to the result calls
 * entry(argument). The label stays at context_label(top): as the frame pointer that `entry` saves
 * first, or above its frame. */
static inline void *context_make(void *top, void (*entry)(void *), void *argument, uintptr_t label)
{
    struct context *context = (struct context *)((char *)top - sizeof *context);
#if defined(__x86_64__)
    *context = (struct context){
        .mxcsr = 0x1f80,
        .x87 = 0x37f,
        .r12 = (uint64_t)entry,
        .r13 = (uint64_t)argument,
        .rbp = label,
        .return_address = (uint64_t)gs_context_start,
    };
#else
    *context = (struct context){
        .x30 = (uint64_t)gs_context_start,
        .x19 = (uint64_t)entry,
        .x20 = (uint64_t)argument,
        .x21_to_x28 = {label},
        .unused = label,
    };
#endif
    return context;
}

/* The address of the label on a stack, also before its first frame. */
static inline uintptr_t context_label(const void *top)
{
#if defined(__x86_64__)
    return (uintptr_t)top - 16;
#else
    return (uintptr_t)top - 8;
#endif
}

/* Prepare a context that resumes as `start` says, with its stack pointer at sp. */
static inline void *context_make_start(void *sp, const struct gs_thread_start *start)
{
    struct context *context = (struct context *)((char *)sp - sizeof *context);
    const uintptr_t *registers = start->preserved;
#if defined(__x86_64__)
    *context = (struct context){
        .mxcsr = 0x1f80,
        .x87 = 0x37f,
        .rbx = registers[0],
        .r12 = registers[1],
        .r13 = registers[2],
        .r14 = registers[3],
        .r15 = registers[4],
        .rbp = start->frame,
        .return_address = (uint64_t)start->pc,
    };
#else
    *context = (struct context){
        .x29 = start->frame,
        .x30 = (uint64_t)start->pc,
        .x19 = registers[0],
        .x20 = registers[1],
    };
    memcpy(context->x21_to_x28, registers + 2, sizeof context->x21_to_x28);
#endif
    return context;
}

/* The address where a suspended stack resumes, and its frame pointer there. Reports read them while
 * the thread may run. */
NOT_FOR_TSAN NOT_FOR_ASAN static inline void *context_pc(const void *sp)
{
    const struct context *context = sp;
#if defined(__x86_64__)
    return (void *)context->return_address;
#else
    return (void *)context->x30;
#endif
}

NOT_FOR_TSAN NOT_FOR_ASAN static inline void *context_frame(const void *sp)
{
    const struct context *context = sp;
#if defined(__x86_64__)
    return (void *)context->rbp;
#else
    return (void *)context->x29;
#endif
}

#endif
