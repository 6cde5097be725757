/* A priority queue: a 4-ary heap with the smallest key first.
 *
 *     struct job { uint32_t index; ... };
 *     gs_heap_reserve(&heap, 1);
 *     gs_heap_insert(&heap, deadline, &job->index);
 *     struct job *next = gs_container_of(gs_heap_first(&heap)->index, struct job, index);
 *
 * The heap stores the index of each element in the element (0: not in the heap), so that it can be
 * removed and its key can be changed. Keys are stored in the nodes, so comparing does not access
 * the elements. The root has index 3, so that the four children of a node share a cache line. Only
 * gs_heap_reserve can fail. A heap is used by one kernel thread at a time.
 *
 * Invariants, asserted by gs_heap_check:
 *   1. No node has a key smaller than its parent's.
 *   2. *index of each node is that node's index.
 *   3. count <= capacity.
 *   4. The key at index 0, which is not a node, is 0, so that index 0 can be compared like others.
 */
#ifndef GS_BASE_HEAP_H
#define GS_BASE_HEAP_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stdint.h>

struct gs_heap_node {
    uint64_t key;
    uint32_t *index;
};

/* All zero: an empty heap. */
struct gs_heap {
    struct gs_heap_node *nodes; /* within `memory`, aligned to a cache line */
    void *memory;
    uint32_t count, capacity;
};

#define GS_HEAP_ROOT 3u

/* Make room for a total of `count` nodes. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_heap_reserve(struct gs_heap *heap, uint32_t count);
void gs_heap_done(struct gs_heap *heap);

/* gs_heap_reserve must have made room. */
void gs_heap_insert(struct gs_heap *heap, uint64_t key, uint32_t *index);
void gs_heap_remove(struct gs_heap *heap, uint32_t *index);

/* Change the key of an element. */
void gs_heap_update_key(struct gs_heap *heap, uint32_t *index, uint64_t key);

/* Restore the order and the indexes, after nodes were written directly from gs_heap_first on. */
void gs_heap_heapify(struct gs_heap *heap);

/* Assert the invariants. */
void gs_heap_check(const struct gs_heap *heap);

/* The node with the smallest key; the others follow it. gs_heap_reserve must have been called. */
static inline struct gs_heap_node *gs_heap_first(const struct gs_heap *heap)
{
    return &heap->nodes[GS_HEAP_ROOT];
}

#endif
