/* Calls that block, which kernel threads of the pool make for threads that wait meanwhile. */
#ifndef GS_COMPILER_POOL_H
#define GS_COMPILER_POOL_H

#include "compiler/runtime/threads/thread.h"

/* What ends the call, which fails with EINTR then: that the thread was canceled, and signals whose
 * handlers do not restart calls, or any handled signal. */
enum pool_options { POOL_CANCELS = 1, POOL_SIGNALS = 2, POOL_BOTH = 3, POOL_EVERY_SIGNAL = 4 };

/* Make a call (blocking.c). Returns the box of the first call; NULL: the caller must return. */
void *gs_cc_in_pool(void (*call)(void *box), void *box, unsigned options);

/* The same on a stack. */
void gs_cc_run_in_pool(void (*call)(void *), void *argument, unsigned options);

/* Make a system call, of which only those with POOL_CANCELS are cancellation points. Returns -1 and
 * sets errno, or the result, or any while the caller must return. */
enum { CALL_ARGUMENTS = 6 };
long gs_cc_call_in_pool(unsigned options, long number, const long *arguments);

/* The call has failed with errno, or not, and has left nothing to be freed: the thread ends if it
 * was canceled meanwhile, or jumps. Returns true if the caller must return. */
bool gs_cc_end_in_pool(struct thread *self);

/* The thread was canceled, a signal of it was handled, or it is to jump: if that ends a call that
 * the pool makes for it, have it do so. Any kernel thread, and handlers. */
void gs_cc_pool_interrupt(struct thread *thread);

/* In a call of the pool: whether the thread for which it is made was canceled. */
bool gs_cc_pool_is_canceled(void);

#endif
