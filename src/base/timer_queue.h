/* A priority queue for very many deadlines, most of which are moved before they are due.
 *
 *     struct job { uint32_t index; uint64_t deadline; ... };
 *     struct gs_timer_queue queue = {.key_of = deadline_of};
 *     gs_timer_queue_reserve(&queue, 1);
 *     gs_timer_queue_insert(&queue, job->deadline, &job->index);
 *     while ((index = gs_timer_queue_due(&queue, now)))
 *         gs_timer_queue_remove(&queue, index);
 *
 * Near elements are in a heap that fits the processor's cache. Elements beyond the horizon ("far")
 * are in an unordered array, and are moved to the heap by the thousand. The queue stores the index
 * of each element in the element. The element also has the deadline itself, which may become later
 * at any time: the key in the queue is a lower bound of it, and is refreshed when it is due. So
 * moving an element to a later deadline requires no call. Only gs_timer_queue_reserve can fail. A
 * queue is used by one kernel thread at a time.
 *
 * Invariants, asserted by gs_timer_queue_check:
 *   1. Those of the heap.
 *   2. *index of each far node is that node's index in `far`, with GS_TIMER_QUEUE_FAR.
 *   3. While there are far nodes, their keys are not smaller than the horizon, and the keys in the
 *      heap are not larger.
 *   4. No node's key is larger than its element's deadline.
 *   5. The heap, or else the far array, has room for as many elements as were reserved.
 */
#ifndef GS_BASE_TIMER_QUEUE_H
#define GS_BASE_TIMER_QUEUE_H

#include "base/heap.h"

#define GS_TIMER_QUEUE_FAR (1u << 31)

/* Returns the deadline of the element that `index` is a member of. */
typedef uint64_t gs_timer_queue_key_fn(const uint32_t *index);

/* All zero except key_of: an empty queue. */
struct gs_timer_queue {
    gs_timer_queue_key_fn *key_of;
    struct gs_heap near;
    struct gs_heap_node *far;
    uint32_t far_count, far_capacity;
    uint32_t reserved;
    uint32_t spill_count; /* the heap spills to `far` when it has so many nodes */
    uint64_t horizon;
    uint64_t seed;
};

void gs_timer_queue_done(struct gs_timer_queue *queue);
void gs_timer_queue_remove(struct gs_timer_queue *queue, uint32_t *index);

/* The deadline of an element became earlier than its key. */
void gs_timer_queue_decrease_key(struct gs_timer_queue *queue, uint32_t *index, uint64_t key);

/* Returns the smallest key, or UINT64_MAX if the queue is empty. With more than a thousand elements
 * it may be a lower bound: keys are refreshed by the thousand, so that no call takes long. */
uint64_t gs_timer_queue_next(struct gs_timer_queue *queue);

/* Returns an element with the smallest key, if that is not later than `now`. NULL: none was found
 * in this call; while gs_timer_queue_next returns a lower bound that is not later than `now`,
 * another call may find one. */
uint32_t *gs_timer_queue_due(struct gs_timer_queue *queue, uint64_t now);

/* Assert the invariants. */
void gs_timer_queue_check(const struct gs_timer_queue *queue);

static inline uint32_t gs_timer_queue_count(const struct gs_timer_queue *queue)
{
    return queue->near.count + queue->far_count;
}

/* The elements, in no particular order. */
static inline uint32_t *gs_timer_queue_at(const struct gs_timer_queue *queue, uint32_t i)
{
    uint32_t near_count = queue->near.count;
    return i < near_count ? gs_heap_first(&queue->near)[i].index : queue->far[i - near_count].index;
}

/* The key in the queue of the element with this index; 0 for index 0. gs_timer_queue_reserve must
 * have been called. */
static inline uint64_t gs_timer_queue_key(const struct gs_timer_queue *queue, uint32_t index)
{
    const struct gs_heap_node *nodes = index & GS_TIMER_QUEUE_FAR ? queue->far : queue->near.nodes;
    return nodes[index & ~GS_TIMER_QUEUE_FAR].key;
}

/* The index of an element is at this address now. */
static inline void gs_timer_queue_relocate(struct gs_timer_queue *queue, uint32_t *index)
{
    struct gs_heap_node *nodes = *index & GS_TIMER_QUEUE_FAR ? queue->far : queue->near.nodes;
    nodes[*index & ~GS_TIMER_QUEUE_FAR].index = index;
}

/* ---- Inline functions: the path of each timer that is started ---- */

GS_MUST_CHECK int gs_timer_queue_grow(struct gs_timer_queue *queue, uint32_t count);
void gs_timer_queue_insert_near(struct gs_timer_queue *queue, uint64_t key, uint32_t *index);

/* Make room for a total of `count` elements. Returns 0 or -ENOMEM. */
GS_MUST_CHECK static inline int gs_timer_queue_reserve(struct gs_timer_queue *queue, uint32_t count)
{
    return count <= queue->reserved ? 0 : gs_timer_queue_grow(queue, count);
}

static inline void gs_timer_queue_append_far(struct gs_timer_queue *queue, struct gs_heap_node node)
{
    *node.index = GS_TIMER_QUEUE_FAR | queue->far_count;
    queue->far[queue->far_count++] = node;
}

/* gs_timer_queue_reserve must have made room. */
static inline void gs_timer_queue_insert(struct gs_timer_queue *queue, uint64_t key,
                                         uint32_t *index)
{
    if (key >= queue->horizon && queue->far_count)
        gs_timer_queue_append_far(queue, (struct gs_heap_node){key, index});
    else
        gs_timer_queue_insert_near(queue, key, index);
}

#endif
