/* The two-lock queue of Michael and Scott ("Simple, Fast, and Practical Non-Blocking and Blocking Concurrent Queue Algorithms",
 * PODC 1996): those who put do not meet those who take, because a node that stands for nothing is always between them. Here, taking
 * from an empty queue waits.
 *
 *     taken from here (head lock)                      put here (tail lock)
 *     head --> [dummy] --> [first] --> [second] --> ... [last] <-- tail
 *
 * To take the first value makes its node the next dummy, and gives the former dummy to who has taken: so whoever brings a node for each
 * value always gets one back, and nothing is allocated.
 *
 * Any kernel thread may call anything. */
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
 *   Q2  at least as many values are in the queue as `filled` tells, so that whoever has passed it finds one, or a closed queue
 *   Q3  a node that was put is changed by nobody but who puts behind it, in its next, until it was taken */
struct serve_queue {
    _Alignas(64) pthread_mutex_t head_lock;
    struct serve_queue_node *head;
    _Alignas(64) pthread_mutex_t tail_lock;
    struct serve_queue_node *tail;
    _Alignas(64) sem_t filled;
    _Atomic(uint64_t) length;
};

/* dummy: from malloc; the queue takes it. */
void serve_queue_init(struct serve_queue *queue, struct serve_queue_node *dummy);

/* Of an empty queue, on which nobody waits: free its dummy. */
void serve_queue_done(struct serve_queue *queue);

/* The queue takes the node. */
void serve_queue_put(struct serve_queue *queue, struct serve_queue_node *node, void *value);

/* Wait for a value, and take it and a node. NULL, and no node: the queue is empty, and was closed. */
GS_MUST_CHECK void *serve_queue_take(struct serve_queue *queue, struct serve_queue_node **ret_node);

/* Nothing is put any more: whoever finds it empty is told, up to so many. */
void serve_queue_close(struct serve_queue *queue, unsigned takers);

static inline uint64_t serve_queue_length(const struct serve_queue *queue)
{
    return atomic_load_explicit(&queue->length, memory_order_relaxed);
}

#endif
