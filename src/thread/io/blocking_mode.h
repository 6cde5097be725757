/* Calls on files that may be in blocking mode, where nothing says that a call is not to wait: there
 * is no MSG_DONTWAIT, no RWF_NOWAIT. */
#ifndef GS_THREAD_BLOCKING_MODE_H
#define GS_THREAD_BLOCKING_MODE_H

#include "base/interrupt.h"
#include "thread/io/blocking.h"
#include "thread/io/io_call.h"

/* Whether the file is in blocking mode, which any process that has it may change at any time. True
 * for a number that is not open. */
bool gs_is_in_blocking_mode(int fd);

/* The same, and remembered if it is not: for sockets. */
bool gs_opened_is_in_blocking_mode(const struct opened *file);

/* Make the call in a kernel thread of the pool, until it is not interrupted by a signal. Returns
 * what `try` returns, or -ETIMEDOUT, -ECANCELED, -ENOMEM or -EAGAIN (a kernel thread of the pool
 * cannot be created). What the call points to is not on a stack that is shared (off_stack.h). */
ssize_t gs_run_in_pool(enum job_kind kind, const struct io_call *call, uint64_t deadline_ns);

/* The same for a call that may block, whatever a poll has said: another thread or process may be
 * faster, or more may be written than there is room for. It is interrupted when it has taken
 * patience_ns: then it returns -EINTR, or a part of what was to be done. With the deadline 0 it is
 * made by the calling worker. */
ssize_t gs_run_interrupted(enum job_kind kind, const struct io_call *call, uint64_t patience_ns,
                           uint64_t deadline_ns);
#define POOL_PATIENCE (10 * GS_MILLISECOND)

/* Wait until the file of the call is ready, and make the call in this way, until it is not
 * interrupted. */
ssize_t gs_run_when_ready(const struct io_call *call, uint64_t deadline_ns);

#endif
