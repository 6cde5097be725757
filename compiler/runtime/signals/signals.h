/* Which waits a signal interrupts. */
#ifndef GS_COMPILER_SIGNALS_H
#define GS_COMPILER_SIGNALS_H

#include "compiler/runtime/threads/thread.h"

/* The thread is the first one, or, after a fork, the only one; its worker is the calling one.
 * has_mask: as gs_cc_masks_start. */
void gs_cc_signals_start(struct thread *thread, bool has_mask);

/* The thread is freed. */
void gs_cc_signals_forget(const struct thread *thread);

/* Whether the program has set a handler: then what a thread waits for may come from there. */
bool gs_cc_has_handlers(void);

/* Have the first worker look at what handlers have done. Any kernel thread, and handlers. */
void gs_cc_signals_send(void);

/* A call begins to wait: signals that were handled before do not interrupt it. */
void gs_cc_signals_begin_wait(struct thread *self);

/* Whether the call fails with EINTR. may_restart: only if a handler without SA_RESTART has run. */
bool gs_cc_is_interrupted(const struct thread *self, bool may_restart);

/* Have the thread look again at what it waits for. */
void gs_cc_signals_interrupt(struct thread *thread);

/* A handler with these flags has run for the thread; and interrupt what it waits for. */
void gs_cc_signals_mark(struct thread *thread, int flags);
void gs_cc_signals_handled(struct thread *thread, int flags);

/* Whether a signal that is not blocked has a handler of the program, which is to be called now. */
bool gs_cc_signals_is_handled(int number, struct sigaction *ret_action);
bool gs_cc_signals_has_handler(int number);
void gs_cc_signals_call(const struct sigaction *action, siginfo_t *information, void *context);

/* The handlers that run on this kernel thread. */
struct handling {
    struct thread *interrupted;  /* by the outermost one; NULL: none of the program's */
    struct thread *target;       /* whose signal the innermost one handles */
    struct thread *own;          /* the same, if the thread has called it itself */
    bool has_mask;               /* the kernel has called one */
    uint64_t mask;               /* of the kernel thread, before that */
    uint32_t boxes;              /* bytes in use for boxes: memory.c */
    bool is_allocating;          /* in the program's allocator (allocator.c) */
    struct __jmp_buf_tag *leave; /* where the handlers of this target end at once */
};
extern _Thread_local struct handling gs_cc_handling __attribute__((tls_model("initial-exec")));

/* As longjmp, and no mask is restored. */
_Noreturn void gs_cc_jump(void *to, int result) __asm__("_longjmp");

/* The running thread, or the one whose signal to itself is handled: its mask is in effect. */
struct thread *gs_cc_signals_self(void);

/* ---- Alternate stacks (alternate_stack.c) ---- */

/* Call the handler, on the alternate stack of the thread whose signal it is if the action says
 * so. */
void gs_cc_call_handler(const struct sigaction *action, siginfo_t *information, void *context);

/* The thread, which has `extra`, has ended, on this worker. */
void gs_cc_alternate_stack_end(struct thread *thread);

/* ---- Signals to one thread (thread_signals.c) ---- */

/* The running thread has written where nobody reads; the kernel has not told it. */
void gs_cc_raise_pipe(void);

/* The same after a call that may have left SIGPIPE pending for this kernel thread. */
void gs_cc_take_pipe(void);

/* Whether it was pending for this kernel thread; it is not any more. */
bool gs_cc_took_pipe(void);

/* Handle what is pending for the running thread and not blocked. */
void gs_cc_deliver_pending(struct thread *self);

/* Take a signal of the set that is pending for the thread. Returns 0: none. */
int gs_cc_take_pending(struct thread *thread, uint64_t set, siginfo_t *ret_information);

/* Forget what is pending for it. */
void gs_cc_free_pending(struct thread *thread);

/* Whether another thread that sends this one a signal lets it handle that itself
 * (handed_signals.c): it sets HANDED, and interrupts the thread. */
bool gs_cc_signals_is_hand_over(const struct thread *thread);

/* The thread does not wait for a descriptor any more, on its stack, or without one when it is to go
 * on: it handles what it was handed. The second function returns true if the thread has to wait for
 * that. */
void gs_cc_signals_handle_on_stack(struct thread *self);
bool gs_cc_signals_handle_in_step(struct thread *self, bool was_at_descriptor);

static inline bool has_handed(const struct thread *self)
{
    return atomic_load_explicit(&self->cancel, memory_order_relaxed) & HANDED;
}

/* ---- Waiting with another mask (signal_waits.c) ---- */

/* Replace the thread's mask while a call waits, or continue so: the call is about to wait. What
 * this returns is to be restored when it does not wait any more. */
uint64_t *gs_cc_signals_replace(struct thread *self, const sigset_t *mask);
void gs_cc_signals_restore(struct thread *self, uint64_t *before);

/* Hand over what handlers have posted (semaphore.c). */
void gs_cc_hand_over_posted(void);

#endif
