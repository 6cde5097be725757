/* Receiving ahead (gs_recv_ahead): a multishot receive of the worker's ring, which lasts for many
 * calls, and receives into the ring's buffers.
 *
 *     receive:        idle --start--> active --cancel--> canceled
 *                      ^  ^             |                   |
 *                      |  '-------------'-------------------'
 *                      |   the last completion: the peer's end, an error, no buffer, the cancel
 *                      '-- cancel, if the kernel has not seen the request
 *
 *     what it holds:  nothing --completion--> something --take--> nothing
 *
 * Something is a buffer of the ring, if a thread waited when the bytes arrived; then copies of what
 * arrived while none waited, so that buffers are free for other sockets; then an error. If a second
 * piece arrives before the first was taken, the receive is canceled: what follows stays in the
 * socket. No call reads from the socket while the receive is active or canceled, or while it holds
 * something: so bytes keep their order.
 *
 * Who may move it:
 *
 *   1. Only the worker whose ring receives looks at it or changes it, except for `worker` and
 *      `next`. Others find under the descriptor's lock that it is not theirs.
 *   2. start, take: threads of the worker. They do not switch between a look and a wait.
 *   3. Completions: the worker's loop, or a thread that collects them because it must not wait
 *      (deadline 0). They wake all readers, under the lock.
 *   4. cancel: a completion (see above), gs_recv_ahead_end, or its end (5). If the kernel has not
 *      seen the request, nothing completes, and the canceler wakes the readers. A cancellation may
 *      miss a request that is being executed: it is repeated while there are completions.
 *   5. Any worker closes the descriptor: it is no longer the descriptor's, under the lock, and the
 *      closer wakes the readers. Its own worker cancels it, and frees it at its last completion
 *      (is_ending). Others hand it over (closed_aheads), and wake that worker.
 *   6. A request names a descriptor by its number. If others could close that and get it again, it
 *      is submitted at once, before its thread waits; else closing withdraws it. */
#ifndef GS_THREAD_RECEIVE_AHEAD_H
#define GS_THREAD_RECEIVE_AHEAD_H

#include "thread/io_call.h"

#include <sys/types.h>

struct ahead;
struct iovec;

enum ahead_state {
    AHEAD_NOTHING, /* what comes is in the socket */
    AHEAD_COMING,  /* the kernel receives */
    AHEAD_BUFFER,  /* gs_ahead_take_buffer has something */
    AHEAD_BYTES,   /* gs_ahead_take has something */
};

/* Find the descriptor's. must_know: collect what was received but not reported yet. Returns its
 * state, or -EBUSY: another worker receives. *ret_ahead is valid until the caller switches threads
 * or closes the descriptor; NULL: there is none. */
int gs_ahead_look(struct descriptor *descriptor, bool must_know, struct ahead **ret_ahead);

/* Start to receive, in the state AHEAD_NOTHING. Returns the new state, or -errno: it cannot be. */
int gs_ahead_start(struct ahead *ahead, int fd);

/* Wait in the state AHEAD_COMING, until that may have changed. Returns 0 or -errno. */
int gs_ahead_wait(struct descriptor *descriptor, const struct ahead *ahead, int fd,
                  uint64_t deadline_ns);

/* Copy what was received, as recv(2) with these flags. Returns the number of bytes or -errno. */
ssize_t gs_ahead_take(struct ahead *ahead, const struct iovec *parts, int count, int flags);

/* Take the ring's buffer, in the state AHEAD_BUFFER. The caller stays on the worker until it has
 * released it. */
struct ahead_buffer {
    const char *bytes;
    size_t n;
    unsigned number;
};
struct ahead_buffer gs_ahead_take_buffer(struct ahead *ahead);
void gs_ahead_release_buffer(const struct ahead_buffer *buffer);

/* gs_ahead_take for a call that reads, which waits in the state AHEAD_COMING. Returns -EAGAIN if
 * the call has to try the socket, or as gs_ahead_take, -EBUSY, or the outcome of the wait. */
ssize_t gs_ahead_run(struct descriptor *descriptor, const struct io_call *call,
                     uint64_t deadline_ns);

/* Whether something was received. If not, the descriptor's readers are woken when it is. Returns 1,
 * 0 or -EBUSY. */
int gs_ahead_is_ready(struct descriptor *descriptor);

/* The descriptor is closed, and has one. The caller holds the lock. */
void gs_ahead_close(struct descriptor *descriptor);

/* End those that other workers have closed. */
void gs_ahead_end_closed(struct worker *worker);

/* Free the memory only: of those that were closed, after the worker's loop, or in the child after a
 * fork; and the descriptor's, at the end of the run or in that child, where nobody knows what
 * workers other than `survivor` were changing. survivor is NULL at the end. */
void gs_aheads_forget_closed(struct worker *worker);
void gs_ahead_forget(struct descriptor *descriptor, const struct worker *survivor);

#endif
