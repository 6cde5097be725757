/* Receiving ahead (gs_recv_ahead): a multishot receive of the worker's ring, which lasts while
 * threads use gs_recv_with, and receives into the ring's buffers.
 *
 *     nothing <---- bytes or the end are taken ---- something (a buffer, copies, or the end)
 *      |   ^                                            ^
 *    start `--- it is cancelled, or no buffer is free --|-------.
 *      v                                                |       |
 *     coming ------------- it completes ----------------'-------'
 *
 * If a thread waits when bytes arrive, it gets the ring's buffer. What arrives while none waits is
 * copied, so that the buffer is free for other sockets. If more arrives before that is taken,
 * receiving ends: what follows stays in the socket. All other calls that read or poll end it first,
 * without a wait; then they take what was received, and after that they find the rest in the
 * socket.
 *
 * Only the worker whose ring receives looks at it and changes it; others find under the
 * descriptor's lock that it is not theirs. Any worker may close the descriptor: then it is handed
 * over to its own, which frees it after its last completion. */
#ifndef GS_THREAD_RECEIVE_AHEAD_H
#define GS_THREAD_RECEIVE_AHEAD_H

#include "thread/descriptors.h"

#include <sys/types.h>

struct iovec;

enum ahead_state {
    AHEAD_NOTHING, /* what comes is in the socket */
    AHEAD_COMING,  /* the kernel receives */
    AHEAD_BUFFER,  /* gs_ahead_take_buffer has something */
    AHEAD_BYTES,   /* gs_ahead_take has something, or the end */
};

/* The state of a descriptor that had one. If the caller must not wait until something comes, ends
 * the receive: then the state is AHEAD_COMING only if the ring has no room. Returns the state, or
 * -EBUSY: another worker receives. */
int gs_ahead_look(struct descriptor *descriptor, bool may_wait);

/* Start to receive, in the state AHEAD_NOTHING. Returns 0 or -errno: it cannot be. */
int gs_ahead_start(struct descriptor *descriptor, int fd);

/* Wait until the state may have changed. Returns 0 or -errno. */
int gs_ahead_wait(struct descriptor *descriptor, int fd, uint64_t deadline_ns);

/* Copy what was received, as recv(2) with these flags. Returns the number of bytes, 0 or -errno at
 * the end, -EAGAIN (nothing was received), -EBUSY or -ENOMEM. */
ssize_t gs_ahead_take(struct descriptor *descriptor, const struct iovec *parts, int count,
                      int flags);

/* gs_ahead_take for a call that reads, which waits while the state is AHEAD_COMING. Returns -EAGAIN
 * if the call has to try the socket, or as gs_ahead_take, or the outcome of the wait. */
struct io_call;
ssize_t gs_ahead_run(struct descriptor *descriptor, const struct io_call *call,
                     uint64_t deadline_ns);

/* Take the ring's buffer, in the state AHEAD_BUFFER. The caller is on the worker until it has
 * released it. */
struct ahead_buffer {
    const void *bytes;
    size_t n;
    unsigned number;
};
struct ahead_buffer gs_ahead_take_buffer(struct descriptor *descriptor);
void gs_ahead_release_buffer(const struct ahead_buffer *buffer);

/* Whether a read has something to take. Returns 1, 0 (what comes is in the socket) or -EBUSY. */
int gs_ahead_is_ready(struct descriptor *descriptor);

/* The descriptor is closed, and has one. The caller holds the lock. */
void gs_ahead_close(struct descriptor *descriptor);

/* End those that other workers have closed. */
void gs_ahead_end_closed(struct worker *worker);

/* Free the memory only, after the worker's loop, or in the child after a fork. worker: the one
 * whose state is consistent; NULL: each. */
void gs_aheads_forget_closed(struct worker *worker);
void gs_ahead_forget(struct descriptor *descriptor, const struct worker *worker);

#endif
