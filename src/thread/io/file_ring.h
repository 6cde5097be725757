/* Calls on files by io_uring. Each worker has a ring of its own, created at its first such call;
 * the entries of its threads are submitted together, before the worker's loop waits. A thread stays
 * on its worker while it waits for a completion. */
#ifndef GS_THREAD_FILE_RING_H
#define GS_THREAD_FILE_RING_H

#include "thread/schedule/thread.h"

#include <linux/io_uring.h>

struct opened;

/* Run the operation of the entry, which is complete except for its user_data, and wait for its
 * completion. file: whose number the entry has: -EBADF if that was closed before the kernel has
 * seen the entry; NULL: none. At the deadline it is canceled, and its completion is waited for.
 * Returns false if there is no ring or the kernel accepts no more entries: nothing was done.
 * Otherwise *ret_result is the result, -ETIMEDOUT or -ECANCELED. */
bool gs_file_ring_run(const struct io_uring_sqe *entry, const struct opened *file,
                      uint64_t deadline_ns, int64_t *ret_result);

/* Free the ring of the worker, if there is one. No thread waits for it. */
void gs_file_ring_free(struct worker *worker);

/* Called in the child instead of the above: the ring is shared with the parent. The worker's loop
 * was freed. */
void gs_file_ring_after_fork(struct worker *worker);

#endif
