/* Calls that may block for longer than the kernel thread may wait, and cannot be told not to. */
#ifndef GS_BASE_INTERRUPT_H
#define GS_BASE_INTERRUPT_H

#include <stdint.h>
#include <sys/types.h>

typedef ssize_t gs_interrupted_fn(const void *argument);

/* Make a call in the calling kernel thread, and interrupt it when it has taken this long: a system
 * call in it that waits returns -EINTR, or what it has done. Returns what it returns, or -ENOMEM if
 * there is no timer or no signal for that; then it was not made. */
ssize_t gs_call_interrupted(gs_interrupted_fn *call, const void *argument, uint64_t after_ns);

#endif
