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

/* What an answer's user_data says it belongs to: the lowest bits, which are 0 in a descriptor's
 * (its generation and twice its number). Beside the first two stands the operation's address. */
enum {
    FOR_OP = 1,     /* an operation */
    FOR_ACCEPT = 3, /* one whose result is a new descriptor */
    FOR_NOBODY = 5,
    FOR_WAKE = 7,
    FOR_MASK = 7,
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
    uint16_t free_answer;
    struct answer answers[ANSWERS];
};

/* An entry to be filled, or NULL when the kernel takes no more. */
struct io_uring_sqe *gs_uring_entry(struct uring *uring);

/* ---- op_ring.c ---- */

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
