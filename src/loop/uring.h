/* The state of the poller io_uring: poller_io_uring.c has the readiness of descriptors, op_ring.c
 * the operations. Both hand over what they have for the kernel with the loop's next wait. */
#ifndef GS_LOOP_URING_H
#define GS_LOOP_URING_H

#include "base/ring.h"
#include "loop/state.h"

#define ANSWERS 1024
#define BUFFERS 512
#define FIRST_BUFFERS 16
#define BUFFER_SIZE 2048

/* What an answer's user_data says it belongs to: the lowest bits. In a descriptor's (its generation and
 * twice its number) the last is 0. Beside the first four stands the address of an operation or of a
 * call; the others stand alone. */
enum {
    FOR_OP = 1,             /* an operation */
    FOR_ACCEPT = 3,         /* one whose result is a new descriptor */
    FOR_CALL = 5,           /* a call */
    FOR_ACCEPTING_CALL = 7, /* one whose result is a new descriptor */
    FOR_MASK = 7,
    FOR_NOBODY = 9,
    FOR_WAKE = 13,
    FOR_ALONE = 16, /* odd ones below it */
};

/* A request of somebody who waits for its answer and for nothing else: who begins it fills the entry
 * in, and sees to its end. It is told of the answer when that is collected, which is before watchers
 * are called. */
struct uring_call {
    void (*ended)(struct uring_call *call, int result);
    uint32_t place; /* of its entry */
};

/* An answer that waits for its operation's callback. */
struct answer {
    int32_t result;
    uint16_t buffer;
    uint16_t next; /* in the operation's queue, or of those that are free; 0: none */
};

struct uring {
    struct gs_ring ring;
    struct gs_ring_buffers buffers; /* none before they are needed */
    unsigned in_use;   /* buffers that the kernel gets: they go round, so few stay in the cache */
    uint64_t grown_in; /* the iteration in which that last grew */
    bool is_lent[BUFFERS]; /* in an answer that waits, or in a callback */
    struct pollfd *polls;  /* room for as many as there are slots */
    struct epoll *outside; /* what an outer loop watches; NULL: there was none */
    int told_fd;           /* in it: an eventfd that the ring writes to */
    uint16_t free_answer;
    struct answer answers[ANSWERS];
};

/* An entry to be filled, or NULL when the kernel takes no more. */
struct io_uring_sqe *gs_uring_entry(struct uring *uring);

/* ---- Calls ---- */

static inline bool gs_uring_takes_calls(const struct gs_loop *loop)
{
    return loop->poller == &gs_loop_poller_io_uring;
}

/* An entry that is all zero but for whose it is, FOR_CALL or FOR_ACCEPTING_CALL; NULL: the kernel takes
 * no more. The call stays until it has ended. */
struct io_uring_sqe *gs_uring_begin_call(struct gs_loop *loop, struct uring_call *call,
                                         unsigned whose);

/* Have it end soon, whatever the kernel does with it: the loop tells so. Returns 0; 1: it was not
 * handed over, and is the caller's again; -ENOMEM: the kernel takes no more for now. */
int gs_uring_cancel_call(struct gs_loop *loop, const struct uring_call *call, unsigned whose);

/* ---- ring_inside.c ---- */

/* As of struct poller. */
int gs_uring_descriptor(struct gs_loop *loop);
bool gs_uring_hand_over(struct gs_loop *loop);
/* If it is open. */
void gs_uring_close_descriptor(struct uring *uring);

/* ---- op_ring.c ---- */

/* Cancel the request with this data, whose entry had that place. Returns as gs_uring_cancel_call. */
int gs_uring_cancel(struct uring *uring, uint32_t place, uint64_t data);

void gs_uring_init_answers(struct uring *uring);
int gs_uring_start_op(struct gs_loop *loop, struct gs_op *op);
bool gs_uring_cancel_op(struct gs_loop *loop, struct gs_op *op);
bool gs_uring_next_answer(struct gs_loop *loop, struct gs_op *op, struct op_answer *ret_answer);
void gs_uring_give_back(struct gs_loop *loop, const struct op_answer *answer);
/* Hand it to its operation. False: there is no room for it now. */
bool gs_uring_answer_op(struct gs_loop *loop, const struct io_uring_cqe *cqe);
/* After a fork: the new ring knows of no operation. */
int gs_uring_move_buffers(struct uring *uring, struct gs_ring *ring);
void gs_uring_free_buffers(struct uring *uring);

#endif
