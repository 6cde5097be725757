/* Stacks that are away: a thread that waits long, and whose stack is used by nobody else meanwhile
 * (gs_thread_attributes.stack_is_shared), keeps only its control block. What its stack contains is
 * moved to allocated memory, and its pages are given back to the kernel. The thread's resume
 * function brings it back to the same addresses, when a worker is about to run it: so a switch to
 * any other thread costs nothing more. (docs/design/threads.md)
 *
 *     resident -- sweep of a worker --> away -- gs_thread_resume_private --> resident
 *
 * Invariants:
 *   1. A stack goes away only while its thread waits, has left it, and cannot be resumed: the
 *      caller is the thread's worker on its own stack or, if the thread is mobile, holds the lock
 *      of the deadlines of its worker, which gs_thread_make_ready_mobile takes before the thread
 *      can be resumed.
 *   2. A thread whose stack is away has that memory, and gs_thread_resume_private as its
 *      resume function: it is run from a worker's own stack only.
 *   3. The bit of a slot in `resident` is set if its stack may have memory. */
#ifndef GS_THREAD_STACK_AWAY_H
#define GS_THREAD_STACK_AWAY_H

#include "thread/stack/stacks.h"

/* Reports call it at any time: then the answer may be out of date. */
NOT_FOR_TSAN static inline bool thread_is_away(const struct gs_thread *thread)
{
    return *(void (*const volatile *)(struct worker *, struct runnable *))&thread->run.resume ==
               gs_thread_resume_private &&
           *(char *const volatile *)&thread->saved;
}

/* The class for a private stack (gs_thread_attributes.stack_is_shared), or -EINVAL if it is too
 * large. */
int gs_stack_away_class(const struct gs_thread_attributes *attributes, size_t stack_size);

/* Called before a thread whose stack may go away runs first. worker: the caller, or NULL if it is
 * no worker. */
void gs_stack_away_watch(struct worker *worker, struct gs_thread *thread);

/* The thread will never run: free what is kept of its stack. */
void gs_stack_forget(struct gs_thread *thread);

/* For reports. Where the word at this address of the thread's stack can be read now: there, or
 * where it is saved. NULL: nowhere. The caller holds the lock, which keeps that from being freed;
 * or no worker can resume the thread. */
const void *gs_stack_readable(const struct gs_thread *thread, uintptr_t address);

/* Call fn(argument) while the stack of the thread is where it belongs. The thread must not be
 * resumed meanwhile. */
void gs_stack_with(struct gs_thread *thread, void (*fn)(void *argument), void *argument);

void gs_stack_saved_lock(void);
void gs_stack_saved_unlock(void);

/* How many threads have no stack now, and how much of them is saved. */
uint64_t gs_stack_away_count(void);
uint64_t gs_stack_away_bytes(void);

#endif
