/* The two-lock queue of Michael and Scott ("Simple, Fast, and Practical Non-Blocking and Blocking
 * Concurrent Queue Algorithms", PODC 1996): pushes and pops do not contend, because a dummy node is
 * always between them. Here, a pop from an empty queue waits.
 *
 *     popped here (head lock)                          pushed here (tail lock)
 *     head --> [dummy] --> [first] --> [second] --> ... [last] <-- tail
 *
 * A pop makes the node of the first value the next dummy, and gives the old dummy to the caller:
 * so a caller that brings a node for each value always gets one back, and nothing is allocated.
 *
 * All functions may be called by any kernel thread. (tests/model/two_lock_queue.pml) */
#ifndef GS_SERVE_TWO_LOCK_QUEUE_H
#define GS_SERVE_TWO_LOCK_QUEUE_H

#include <gossamer/api.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

struct serve_queue_node {
    _Atomic(struct serve_queue_node *) next;
    void *value;
};

/* Invariants:
 *   Q1  head is the dummy, and the last node that can be reached from it is tail, which has no next
 *   Q2  the queue has at least as many values as `filled` counts, so that a thread that has passed
 *       it finds one, or a closed queue
 *   Q3  until it is popped, a node is changed only by the push behind it, in its next */
struct serve_queue {
    _Alignas(64) pthread_mutex_t head_lock;
    struct serve_queue_node *head;
    _Alignas(64) pthread_mutex_t tail_lock;
    struct serve_queue_node *tail;
    _Alignas(64) sem_t filled;
    _Atomic(uint64_t) length;
};

/* Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_queue_init(struct serve_queue *queue);

/* Free the dummy of an empty queue, at which no thread waits. */
void serve_queue_done(struct serve_queue *queue);

/* The queue takes the node. */
void serve_queue_push(struct serve_queue *queue, struct serve_queue_node *node, void *value);

/* Wait for a value, and pop it and a node. Returns NULL, and no node, if the queue is empty and was
 * closed. */
GS_MUST_CHECK void *serve_queue_pop(struct serve_queue *queue, struct serve_queue_node **ret_node);

/* No more pushes follow: pops from the empty queue return NULL, up to so many. */
void serve_queue_close(struct serve_queue *queue, unsigned poppers);

static inline uint64_t serve_queue_length(const struct serve_queue *queue)
{
    return atomic_load_explicit(&queue->length, memory_order_relaxed);
}

#endif
