/* Calls on sockets that the kernel carries out: where the worker's loop is on io_uring, its ring takes them with the system call that
 * waits, and answers with their results. So neither a thread that waits nor one that sends costs a call of its own.
 *
 * Only threads that stay with their worker: what a ring was asked for only its worker can take back, and who migrates had better go on
 * elsewhere when that is stuck. And only descriptors that no loop watches: who once had to wait for readiness goes on so. */
#ifndef GS_THREAD_RING_H
#define GS_THREAD_RING_H

#include "thread/descriptors.h"

#include <linux/io_uring.h>
#include <sys/socket.h>

/* A call and its arguments. */
struct call {
    ssize_t (*try)(const struct call *call); /* without waiting */
    unsigned char operation;                 /* of a ring, for the same; 0: none */
    int fd, flags, count;
    unsigned direction;
    void *bytes; /* or struct msghdr, struct iovec, struct sockaddr, offset */
    size_t n;
    socklen_t *length;
    int other_fd;
};

/* What is left after the call: nothing, or perhaps more. */
static inline bool call_may_find_more(const struct call *call, struct descriptor *descriptor,
                                      ssize_t n)
{
    if (n < 0 || !call->n || (size_t)n == call->n || call->direction == GS_WRITE)
        return n != -EAGAIN;
    return call->flags || atomic_load_explicit(&descriptor->is_hung_up, memory_order_relaxed) ||
           atomic_load_explicit(&descriptor->kind, memory_order_relaxed) != KIND_TCP;
}

/* Whether the call, which may wait, is one for the calling thread's ring. */
bool gs_ring_takes(const struct call *call, struct descriptor *descriptor);

/* Have the ring carry it out. Returns as the call does, or why it was ended before; -EINTR: it is to begin again; -EAGAIN: without the
 * ring. */
ssize_t gs_ring_run(const struct call *call, struct descriptor *descriptor, uint64_t deadline_ns);

#endif
