/* Calls on files by io_uring. A worker has a ring of its own, made at its first such call; what its threads ask for is handed over
 * together, before the worker's loop waits. A thread stays with its worker while it waits for an answer. */
#ifndef GS_THREAD_FILE_RING_H
#define GS_THREAD_FILE_RING_H

#include "thread/state.h"

#include <linux/io_uring.h>

/* Have the kernel do what the entry says, which is filled in but for its user_data, and wait for the answer. What has begun by the
 * deadline is cancelled, and waited for. False: there is no ring, or the kernel takes no more; nothing was done. Otherwise
 * *ret_result is the answer, -ETIMEDOUT or -ECANCELED. */
bool gs_file_ring_run(const struct io_uring_sqe *entry, uint64_t deadline_ns, int64_t *ret_result);

/* The worker's, if there is one. Nobody waits for it any more. */
void gs_file_ring_free(struct worker *worker);

/* In the child, in place of the above: the ring is the parent's. The worker's loop is gone. */
void gs_file_ring_forked(struct worker *worker);

#endif
