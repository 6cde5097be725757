/* Faults of the workers' rings: before the kernel sees the requests, some are changed, so that it
 * completes them as it would without a feature or without room. */
#ifndef GS_TESTS_THREAD_RING_FAULTS_H
#define GS_TESTS_THREAD_RING_FAULTS_H

#include "loop/uring.h"
#include "thread/worker.h"

#include <stdatomic.h>
#include <sys/syscall.h>

enum {
    FAULT_NO_MULTISHOT = 1, /* as Linux 5.19: multishot receives fail with -EINVAL */
    FAULT_NO_BUFFER = 2,    /* multishot receives find no buffer: -ENOBUFS */
};
static atomic_uint ring_faults;
static atomic_int cancels_to_lose; /* of the next cancellations */
static atomic_uint receives_by_call, multishots;

static inline struct gs_ring *ring_of_worker(void)
{
    const struct worker *worker = gs_runtime.worker_count ? worker_current() : NULL;
    return worker ? &((struct uring *)worker->loop->poller_state)->ring : NULL;
}

static inline void spoil(struct io_uring_sqe *sqe)
{
    unsigned faults = atomic_load(&ring_faults);
    if (sqe->opcode == IORING_OP_RECV && sqe->ioprio & IORING_RECV_MULTISHOT) {
        atomic_fetch_add(&multishots, 1);
        if (faults & FAULT_NO_MULTISHOT)
            sqe->ioprio |= 1u << 15;
        if (faults & FAULT_NO_BUFFER)
            sqe->buf_group = 77;
    }
    if (sqe->opcode == IORING_OP_ASYNC_CANCEL && atomic_load(&cancels_to_lose) > 0) {
        atomic_fetch_sub(&cancels_to_lose, 1);
        sqe->opcode = IORING_OP_NOP;
        sqe->addr = 0;
    }
}

static inline long spoil_requests(long number, void *data)
{
    (void)data;
    struct gs_ring *ring = number == SYS_io_uring_enter ? ring_of_worker() : NULL;
    if (number == SYS_recvfrom)
        atomic_fetch_add(&receives_by_call, 1);
    for (unsigned i = ring ? gs_ring_unsubmitted(ring) : 0; i; i--)
        spoil(&ring->sqes[(ring->tail - i) & (ring->sq_count - 1)]);
    return 0;
}

/* Fill the completion queue, in which the loop finds nothing to do, and more. */
static inline void fill_completions(void)
{
    struct uring *uring = worker_current()->loop->poller_state;
    for (unsigned i = 0; i < 2 * (uring->ring.cq_mask + 1); i++) {
        struct io_uring_sqe *sqe = gs_uring_get_sqe(uring);
        if (!sqe)
            break; /* the kernel waits until some are consumed */
        sqe->opcode = IORING_OP_NOP;
        sqe->user_data = TAG_IGNORED;
    }
}

/* The ring's buffers that are held. */
static inline unsigned count_held_buffers(void)
{
    const struct uring *uring = worker_current()->loop->poller_state;
    unsigned count = 0;
    for (unsigned i = 0; i < BUFFERS_MAX; i++)
        count += uring->is_buffer_in_use[i];
    return count;
}

#endif
