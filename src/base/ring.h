/* io_uring by direct system calls: a submission queue and a completion queue.
 *
 *     gs_ring_init(&ring, 64, 0);
 *     struct io_uring_sqe *sqe = gs_ring_get_sqe(&ring);
 *     gs_ring_prep(sqe, IORING_OP_READ, fd, bytes, n);
 *     sqe->user_data = 7;
 *     gs_ring_enter(&ring, 1, GS_NEVER);
 *     for (struct io_uring_cqe *cqe; (cqe = gs_ring_peek_cqe(&ring)); gs_ring_cqe_seen(&ring))
 *         ...                                                    cqe->user_data, res, flags
 *
 * gs_ring_enter submits all entries in one system call. The memory that an entry points to must
 * stay valid until its completion. A ring is used by one kernel thread at a time.
 *
 * io_uring is not available on kernels before 5.11, where the administrator forbids it, and with
 * GOSSAMER_NO_IO_URING in the environment.
 */
#ifndef GS_BASE_RING_H
#define GS_BASE_RING_H

#include <errno.h>
#include <gossamer/api.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct gs_ring {
    int fd;
    uint32_t features; /* IORING_FEAT_... */
    uint32_t setup;    /* IORING_SETUP_... */

    struct io_uring_sqe *sqes;
    _Atomic(uint32_t) *sq_head, *sq_tail; /* shared with the kernel */
    uint32_t sq_count, tail;              /* tail: includes unsubmitted entries */

    struct io_uring_cqe *cqes;
    _Atomic(uint32_t) *cq_head, *cq_tail;
    uint32_t cq_mask, head;

    void *queues;
    size_t queues_size;
};

enum {
    /* Only one kernel thread enters the ring, the first one to do so, and completions are posted
     * only while it does. The cheapest mode; needs Linux 6.1. */
    GS_RING_SINGLE_ISSUER = 1,
};

/* Open a ring with a submission queue of `entries` and a completion queue twice as long. Returns 0,
 * -ENOSYS (no io_uring, or not with these flags), -EPERM (forbidden), -ENOMEM, -EMFILE or
 * -ENFILE. */
GS_MUST_CHECK int gs_ring_init(struct gs_ring *ring, unsigned entries, unsigned flags);

/* The kernel cancels outstanding requests some time later, unless gs_ring_cancel_all was called. */
void gs_ring_done(struct gs_ring *ring);

/* Whether the kernel supports all of these operations (IORING_OP_...). */
bool gs_ring_supports(const struct gs_ring *ring, const uint8_t *operations, unsigned count);

/* Returns the next entry with its previous contents, or NULL if the submission queue is full. */
static inline struct io_uring_sqe *gs_ring_reuse_sqe(struct gs_ring *ring)
{
    /* Acquire: the kernel no longer reads the entries before the head. */
    uint32_t head = atomic_load_explicit(ring->sq_head, memory_order_acquire);
    if (ring->tail - head == ring->sq_count)
        return NULL;
    return &ring->sqes[ring->tail++ & (ring->sq_count - 1)];
}

/* Returns the next entry, zeroed, or NULL if the submission queue is full. */
static inline struct io_uring_sqe *gs_ring_get_sqe(struct gs_ring *ring)
{
    struct io_uring_sqe *sqe = gs_ring_reuse_sqe(ring);
    return sqe ? memset(sqe, 0, sizeof *sqe) : NULL;
}

static inline void gs_ring_prep(struct io_uring_sqe *sqe, unsigned operation, int fd,
                                const void *bytes, uint32_t n)
{
    sqe->opcode = (uint8_t)operation;
    sqe->fd = fd;
    sqe->addr = (uintptr_t)bytes;
    sqe->len = n;
}

/* The number of entries that were not submitted yet. */
static inline unsigned gs_ring_unsubmitted(const struct gs_ring *ring)
{
    return ring->tail - atomic_load_explicit(ring->sq_head, memory_order_relaxed);
}

/* Submit all entries, and wait until there are `count` completions or timeout_ns have passed
 * (UINT64_MAX: no limit; 0: do not wait). Returns 0 also if the wait was interrupted by a signal,
 * or if the kernel accepted only some of the entries because memory is exhausted or completions
 * must be consumed first: the others remain for the next call. Returns -EEXIST if a
 * GS_RING_SINGLE_ISSUER ring belongs to another thread, or another error of the ring. */
GS_MUST_CHECK int gs_ring_enter(struct gs_ring *ring, unsigned count, uint64_t timeout_ns);

/* Returns the first completion, or NULL if there is none. */
static inline struct io_uring_cqe *gs_ring_peek_cqe(struct gs_ring *ring)
{
    /* Acquire: pairs with the kernel's release, publishing the completions. */
    if (ring->head == atomic_load_explicit(ring->cq_tail, memory_order_acquire))
        return NULL;
    return &ring->cqes[ring->head & ring->cq_mask];
}

/* The number of completions. */
static inline unsigned gs_ring_cq_ready(const struct gs_ring *ring)
{
    return atomic_load_explicit(ring->cq_tail, memory_order_relaxed) - ring->head;
}

/* Consume the first completion, which the kernel may then overwrite. */
static inline void gs_ring_cqe_seen(struct gs_ring *ring)
{
    atomic_store_explicit(ring->cq_head, ++ring->head, memory_order_release);
}

/* Whether the result is that of a request whose system call was interrupted, as by a cancellation.
 * io_uring also returns the kernel's internal codes of calls that are to be restarted. */
static inline bool gs_ring_is_interrupted(int64_t result)
{
    return result == -EINTR || result == -ECANCELED || result <= -512;
}

/* Cancel all outstanding requests. Those that wait for a descriptor have completed then, and access
 * no memory any more; if the completion queue is full, some of them may remain for a later call.
 * Those that a kernel thread of io_uring executes are only asked to end: IOSQE_ASYNC, and files.
 * There must be no unsubmitted entries. Returns 0 or -errno: -EEXIST as for gs_ring_enter, -EINVAL
 * on kernels before 6.0. */
int gs_ring_cancel_all(struct gs_ring *ring);

/* ---- Provided buffers: the kernel selects one when bytes have arrived (Linux 5.19) ----
 * An entry with IOSQE_BUFFER_SELECT and buf_group = group uses one of them. Its completion has
 * IORING_CQE_F_BUFFER and the buffer's number in the upper half of its flags, or -ENOBUFS. */

struct gs_ring_buffers {
    struct io_uring_buf_ring *queue; /* of available buffers; the bytes follow it in memory */
    uint8_t *bytes;
    uint32_t size, count; /* size of each; count: a power of two, at most 32768 */
    uint16_t group, tail;
};

/* Allocate the buffers. The caller has set size and count. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_ring_new_buffers(struct gs_ring_buffers *buffers);

/* The ring that they are registered with must be closed. */
void gs_ring_free_buffers(struct gs_ring_buffers *buffers);

/* Register the buffers with a ring. None is available to the kernel yet. Returns 0, -ENOMEM, or
 * -ENOSYS before Linux 5.19. */
GS_MUST_CHECK int gs_ring_register_buffers(struct gs_ring *ring, struct gs_ring_buffers *buffers);

static inline uint8_t *gs_ring_buffer(const struct gs_ring_buffers *buffers, unsigned number)
{
    return buffers->bytes + (size_t)number * buffers->size;
}

/* Make the buffer available to the kernel. */
void gs_ring_return_buffer(struct gs_ring_buffers *buffers, unsigned number);

#endif
