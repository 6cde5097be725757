/* Which waits a signal interrupts. */
#ifndef GS_COMPILER_SIGNALS_H
#define GS_COMPILER_SIGNALS_H

#include "compiler/runtime/thread.h"

/* The thread stands for the process; its worker is the calling one. Called again after a fork. */
void gs_cc_signals_start(struct thread *thread);

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

/* A descriptor that becomes readable if a signal is to interrupt what the thread waits for on its
 * stack, or has done so; -1: none does. The thread waits for it, too, and looks again then. */
int gs_cc_signals_descriptor(const struct thread *self);

/* Replace the mask of the process while a call waits, or continue so: the call is about to wait.
 * What this returns is to be restored when it does not wait any more. */
sigset_t *gs_cc_signals_replace(struct thread *self, const sigset_t *mask);
void gs_cc_signals_restore(const struct thread *self, sigset_t *before);

/* Hand over what handlers have posted (semaphore.c). */
void gs_cc_hand_over_posted(void);

#endif
