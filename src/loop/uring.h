/* The state of the io_uring poller: poller_io_uring.c polls descriptors, op_uring.c executes
 * operations. The loop's next wait submits the requests of both. */
#ifndef GS_LOOP_URING_H
#define GS_LOOP_URING_H

#include "base/ring.h"
#include "loop/state.h"

#define RESULTS_MAX 1024
#define BUFFERS_MAX 512
#define BUFFERS_STEP 16
#define BUFFER_SIZE 2048

/* The lowest bits of a request's user_data say what it belongs to. A poll request has bit 0 clear;
 * the rest is its slot's generation and twice its descriptor number. The first two tags are
 * combined with the address of an operation. The last two stand alone. */
enum {
    TAG_OP = 1,     /* an operation */
    TAG_ACCEPT = 3, /* an operation whose result is a new descriptor */
    TAG_MASK = 3,
    TAG_IGNORED = 5,      /* the completion is ignored */
    TAG_WAKE = 9,         /* the poll of wake_fd */
    TAG_ADDRESS_MIN = 16, /* odd values below it stand alone */
};

/* A result that waits for its operation's callback. */
struct queued_result {
    int32_t result;
    uint16_t buffer;
    uint16_t next; /* in the operation's queue or in the free list; 0: none */
};

struct uring {
    struct gs_ring ring;
    struct gs_ring_buffers buffers;     /* allocated at the first multishot receive */
    unsigned buffers_used;              /* registered so far: few, so that they stay in the cache */
    uint64_t grow_iteration;            /* the iteration in which buffers_used last grew */
    bool needs_wake_request;            /* there was no room for the poll of wake_fd */
    bool needs_cancel_retry;            /* there was no room for a cancellation */
    bool is_buffer_in_use[BUFFERS_MAX]; /* by a queued result or a callback */
    struct pollfd *polls;               /* slot_count elements */
    struct epoll *outer_epoll;          /* what an outer loop watches; NULL: never embedded */
    int notify_fd;                      /* an eventfd in outer_epoll that the ring signals */
    uint16_t free_result;
    struct queued_result results[RESULTS_MAX];
};

/* ---- poller_io_uring.c ---- */

/* Returns a zeroed entry, or NULL if the kernel accepts no more. */
struct io_uring_sqe *gs_uring_get_sqe(struct uring *uring);

/* Request what there was no room for, before a wait. Returns false if there is still too little
 * room. */
bool gs_uring_retry_requests(struct gs_loop *loop);

/* ---- op_uring.c: operations, as in struct poller ---- */

/* Cancel the request with this user_data and sq_position. Returns 0; 1: it was not submitted, and
 * will not complete; -ENOMEM: the kernel accepts no more requests for now. */
int gs_uring_cancel(struct uring *uring, uint32_t sq_position, uint64_t data);

void gs_uring_init_results(struct uring *uring);
int gs_uring_start_op(struct gs_loop *loop, struct gs_op *op);
int gs_uring_cancel_op(struct gs_loop *loop, struct gs_op *op);
bool gs_uring_next_result(struct gs_loop *loop, struct gs_op *op, struct op_result *ret_result);
void gs_uring_return_buffer(struct gs_loop *loop, const struct op_result *result);
/* Pass the completion to its operation. Returns false if there is no room for the result now. */
bool gs_uring_complete_op(struct gs_loop *loop, const struct io_uring_cqe *cqe);
/* After a fork: register the buffers with the new ring. */
int gs_uring_register_buffers(struct uring *uring, struct gs_ring *ring);
void gs_uring_free_buffers(struct uring *uring);

#endif
