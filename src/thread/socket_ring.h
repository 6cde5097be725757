/* I/O calls on sockets by io_uring completions: if the worker's loop uses io_uring, calls are
 * submitted to its ring together with the system call that waits for events, so that neither
 * waiting nor sending needs a system call of its own.
 *
 * Only for threads that stay on their worker: only the ring's worker can cancel a submitted call,
 * and a migrating thread should be able to resume elsewhere if that is stuck. And only for
 * descriptors that no loop watches: a descriptor that was once waited for by readiness continues
 * that way. */
#ifndef GS_THREAD_SOCKET_RING_H
#define GS_THREAD_SOCKET_RING_H

#include "thread/io_call.h"

#include <linux/io_uring.h>

/* Whether the calling thread's ring can run the call. No loop watches the descriptor. */
bool gs_socket_ring_can_run(const struct io_call *call, struct descriptor *descriptor);

/* Run the call by the ring. Returns its result, or why it was canceled; -EINTR: it must be
 * repeated; -EAGAIN: it must be repeated without the ring. */
ssize_t gs_socket_ring_run(const struct io_call *call, struct descriptor *descriptor,
                           uint64_t deadline_ns);

#endif
