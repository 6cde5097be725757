/* io_uring by direct system calls: a queue of requests to the kernel, and one of its answers.
 *
 *     gs_ring_init(&ring, 64, 0);
 *     struct io_uring_sqe *entry = gs_ring_entry(&ring);
 *     gs_ring_prepare(entry, IORING_OP_READ, fd, bytes, n);
 *     entry->user_data = 7;
 *     gs_ring_enter(&ring, 1, GS_NEVER);
 *     for (struct io_uring_cqe *cqe; (cqe = gs_ring_first(&ring)); gs_ring_advance(&ring))
 *         ...                                                    cqe->user_data, res, flags
 *
 * Entries cost nothing until gs_ring_enter hands all of them over in one system call. What an entry
 * points to must stay until its answer has come. One kernel thread at a time.
 *
 * No ring is to be had on kernels before 5.11, where the administrator forbids it, and with
 * GOSSAMER_NO_IO_URING in the environment: be prepared to do without.
 */
#ifndef GS_BASE_RING_H
#define GS_BASE_RING_H

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
    uint32_t sq_count, tail;              /* tail: with what was not handed over yet */

    struct io_uring_cqe *cqes;
    _Atomic(uint32_t) *cq_head, *cq_tail;
    uint32_t cq_mask, head;

    void *queues;
    size_t queues_size;
};

enum {
    /* One kernel thread enters the ring, the first to do so, and answers are made within its enters
     * only. The cheapest way; Linux 6.1. */
    GS_RING_OWNED = 1,
};

/* A ring for that many requests at once, and for twice as many answers before the kernel must put
 * them aside. Returns 0, -ENOSYS (no io_uring, or not with these flags), -EPERM (forbidden),
 * -ENOMEM, -EMFILE or -ENFILE. */
GS_MUST_CHECK int gs_ring_init(struct gs_ring *ring, unsigned entries, unsigned flags);

/* Requests under way are cancelled by the kernel some time later, unless gs_ring_cancel_all was
 * called. */
void gs_ring_done(struct gs_ring *ring);

/* Whether the kernel knows these operations (IORING_OP_...), all of them. */
bool gs_ring_knows(const struct gs_ring *ring, const uint8_t *operations, unsigned count);

/* The next entry, as it was last filled, or NULL if as many wait to be handed over as there is room
 * for. */
static inline struct io_uring_sqe *gs_ring_next_entry(struct gs_ring *ring)
{
    /* Acquire: the kernel is done with the entries before the head. */
    uint32_t head = atomic_load_explicit(ring->sq_head, memory_order_acquire);
    if (ring->tail - head == ring->sq_count)
        return NULL;
    return &ring->sqes[ring->tail++ & (ring->sq_count - 1)];
}

/* The same, all zero. */
static inline struct io_uring_sqe *gs_ring_entry(struct gs_ring *ring)
{
    struct io_uring_sqe *entry = gs_ring_next_entry(ring);
    return entry ? memset(entry, 0, sizeof *entry) : NULL;
}

static inline void gs_ring_prepare(struct io_uring_sqe *entry, unsigned operation, int fd,
                                   const void *bytes, uint32_t n)
{
    entry->opcode = (uint8_t)operation;
    entry->fd = fd;
    entry->addr = (uintptr_t)bytes;
    entry->len = n;
}

/* How many entries were not handed over yet. */
static inline unsigned gs_ring_waiting(const struct gs_ring *ring)
{
    return ring->tail - atomic_load_explicit(ring->sq_head, memory_order_relaxed);
}

/* Hand over all entries, and wait until there are `count` answers or timeout_ns have passed
 * (UINT64_MAX: no limit); 0: do not wait. Returns 0 also when the wait was interrupted by a signal
 * or the kernel took only some of the entries, for want of memory or because answers must be taken
 * first: the others are kept for the next time. Returns -EEXIST when a GS_RING_OWNED ring is
 * another thread's, or what is wrong with the ring. */
GS_MUST_CHECK int gs_ring_enter(struct gs_ring *ring, unsigned count, uint64_t timeout_ns);

/* The first answer not yet taken, or NULL. */
static inline struct io_uring_cqe *gs_ring_first(struct gs_ring *ring)
{
    /* Acquire: pairs with the kernel's release, publishing the answers. */
    if (ring->head == atomic_load_explicit(ring->cq_tail, memory_order_acquire))
        return NULL;
    return &ring->cqes[ring->head & ring->cq_mask];
}

/* How many there are. */
static inline unsigned gs_ring_ready(const struct gs_ring *ring)
{
    return atomic_load_explicit(ring->cq_tail, memory_order_relaxed) - ring->head;
}

/* Take it; the kernel may overwrite it then. */
static inline void gs_ring_advance(struct gs_ring *ring)
{
    atomic_store_explicit(ring->cq_head, ++ring->head, memory_order_release);
}

/* Cancel all requests under way and wait until none can touch memory any more; their answers are
 * there to be taken. Entries not handed over must be none. Returns 0, or -errno (-EEXIST and
 * -EINVAL as for gs_ring_enter and on kernels before 6.0). */
int gs_ring_cancel_all(struct gs_ring *ring);

/* ---- Buffers that the kernel picks when bytes have come (Linux 5.19) ----
 * An entry with IOSQE_BUFFER_SELECT and buf_group = group takes one of them; its answer has
 * IORING_CQE_F_BUFFER and the buffer's number in the upper half of its flags, or is -ENOBUFS. */

struct gs_ring_buffers {
    struct io_uring_buf_ring *queue; /* of those that the kernel may pick; the bytes follow it */
    uint8_t *bytes;
    uint32_t size, count; /* of each; how many: a power of two, at most 32768 */
    uint16_t group, tail;
};

/* Memory for as many as `size` and `count` say. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_ring_new_buffers(struct gs_ring_buffers *buffers);

/* The ring that they belong to is gone. */
void gs_ring_free_buffers(struct gs_ring_buffers *buffers);

/* They belong to this ring from now on; none is the kernel's yet. Returns 0, -ENOMEM, or -ENOSYS
 * before Linux 5.19. */
GS_MUST_CHECK int gs_ring_register_buffers(struct gs_ring *ring, struct gs_ring_buffers *buffers);

static inline uint8_t *gs_ring_buffer(const struct gs_ring_buffers *buffers, unsigned number)
{
    return buffers->bytes + (size_t)number * buffers->size;
}

/* The kernel may pick it now. */
void gs_ring_give_buffer(struct gs_ring_buffers *buffers, unsigned number);

#endif
