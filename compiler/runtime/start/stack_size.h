/* How large the stack of a call is whose need was proven. */
#ifndef GS_COMPILER_STACK_SIZE_H
#define GS_COMPILER_STACK_SIZE_H

#include <stddef.h>

/* Before the first thread runs. */
void gs_cc_stack_sizes_start(void);

/* From now on, all stacks are large: a handler that interrupts itself has no bound. Any context. */
void gs_cc_stack_sizes_forget(void);

/* The need is in bytes, 0: there is no bound of it. Returns at most `most`. */
size_t gs_cc_stack_size_for(unsigned need, size_t most);

#endif
