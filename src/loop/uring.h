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
 * the rest is its slot's generation and twice its descriptor number. The first four tags are
 * combined with the address of an operation or call. The last two stand alone. */
enum {
    TAG_OP = 1,          /* an operation */
    TAG_ACCEPT = 3,      /* an operation whose result is a new descriptor */
    TAG_CALL = 5,        /* a struct uring_call */
    TAG_ACCEPT_CALL = 7, /* a struct uring_call whose result is a new descriptor */
    TAG_MASK = 7,
    TAG_IGNORED = 9,      /* the completion is ignored */
    TAG_WAKE = 13,        /* the poll of wake_fd */
    TAG_ADDRESS_MIN = 16, /* odd values below it stand alone */
};

/* With TAG_OP and the address of a struct uring_call: its guard, whose completion is ignored. */
#define GUARD_BIT ((uint64_t)1 << 63)

/* A request outside of any watcher, whose caller waits for its completion only. The caller fills in
 * the entry. `completed` is called when a completion is collected, before any watcher is called: it
 * is the last one unless it has IORING_CQE_F_MORE. */
struct uring_call {
    void (*completed)(struct uring_call *call, const struct io_uring_cqe *cqe);
    uint32_t sq_position;    /* of its entry, as counted by gs_ring.tail */
    uint32_t guard_position; /* of its guard's first entry */
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

/* ---- op_uring.c: calls ---- */

static inline bool gs_uring_supports_calls(const struct gs_loop *loop)
{
    return loop->poller == &gs_loop_poller_io_uring;
}

/* tag: TAG_CALL or TAG_ACCEPT_CALL. Returns an entry that is zero except for user_data, or NULL if
 * the kernel accepts no more. The call must stay valid until it has completed. */
struct io_uring_sqe *gs_uring_start_call(struct gs_loop *loop, struct uring_call *call,
                                         unsigned tag);

/* Make the call end soon. Returns 0; 1: it was not submitted, and `completed` will not be called;
 * -ENOMEM: the kernel accepts no more requests for now. */
int gs_uring_cancel_call(struct gs_loop *loop, const struct uring_call *call, unsigned tag);

/* Perform the ring's work that is due, and collect the completions of this call, before their turn;
 * those of others are collected by the loop. Returns 0 or an error of the ring. */
int gs_uring_collect_call(struct gs_loop *loop, struct uring_call *call, unsigned tag);

/* Start a call (TAG_CALL) that receives from a socket until it is cancelled, or a completion lacks
 * IORING_CQE_F_MORE: at the end of the stream, after an error, or when all buffers are in use
 * (-ENOBUFS). A completion that has IORING_CQE_F_BUFFER names a buffer, which is the caller's from
 * gs_uring_hold_buffer to gs_uring_release_buffer. Returns 0 or -errno. */
int gs_uring_start_receive(struct gs_loop *loop, struct uring_call *call, int fd);

/* A multishot receive misses the peer's reset if that arrives before the kernel has received the
 * bytes in front of it: it then waits for an event that does not come. So a guard cancels the call
 * when the connection was reset, or closed by the peer. Start it after its call, and cancel it when
 * the call has completed: it keeps the file open. Returns as gs_uring_cancel_call; 0 is also that
 * it was started. */
int gs_uring_start_guard(struct gs_loop *loop, struct uring_call *call, int fd);
int gs_uring_cancel_guard(struct gs_loop *loop, const struct uring_call *call);

unsigned gs_uring_hold_buffer(struct gs_loop *loop, const struct io_uring_cqe *cqe);
const void *gs_uring_buffer(const struct gs_loop *loop, unsigned number);
void gs_uring_release_buffer(struct gs_loop *loop, unsigned number);

/* The kernel ran out of buffers: give it more, at most once per iteration. */
void gs_uring_add_buffers(const struct gs_loop *loop);

/* Cancel the request with this user_data and sq_position. Returns as gs_uring_cancel_call. */
int gs_uring_cancel(struct uring *uring, uint32_t sq_position, uint64_t data);

/* ---- op_uring.c: operations, as in struct poller ---- */

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
