/* A priority queue: the smallest key first, four children a node.
 *
 *     struct job { uint32_t place; ... };
 *     gs_heap_reserve(&heap, 1);
 *     gs_heap_insert(&heap, deadline, &job->place);
 *     struct job *next = gs_container_of(gs_heap_first(&heap)->place, struct job, place);
 *
 * What is in the heap holds its own place there (0: not in the heap), so that it can be removed or
 * moved. Keys are kept in the heap beside the pointers: comparing touches nothing else. The root
 * stands at index 3, so that the four children of a node share a cache line. Only gs_heap_reserve
 * can fail. One kernel thread at a time.
 *
 * Invariants, asserted by gs_heap_check:
 *   1. No node has a key smaller than its parent's.
 *   2. *place of each node is that node's index.
 *   3. count <= capacity.
 *   4. The key at index 0, where no node stands, is 0, so that place 0 may be compared like others.
 */
#ifndef GS_BASE_HEAP_H
#define GS_BASE_HEAP_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stdint.h>

struct gs_heap_node {
    uint64_t key;
    uint32_t *place;
};

/* All zero: an empty heap. */
struct gs_heap {
    struct gs_heap_node *nodes; /* within `memory`, from a cache line on */
    void *memory;
    uint32_t count, capacity;
};

#define GS_HEAP_ROOT 3u

/* Make room for `count` nodes in all. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_heap_reserve(struct gs_heap *heap, uint32_t count);
void gs_heap_done(struct gs_heap *heap);

/* There must be room. */
void gs_heap_insert(struct gs_heap *heap, uint64_t key, uint32_t *place);
void gs_heap_remove(struct gs_heap *heap, uint32_t *place);

/* Give what is in the heap another key. */
void gs_heap_move(struct gs_heap *heap, uint32_t *place, uint64_t key);

/* Restore the order, and the places, of nodes that were written into the heap from its first on. */
void gs_heap_order(struct gs_heap *heap);

/* Assert the invariants. */
void gs_heap_check(const struct gs_heap *heap);

/* The node with the smallest key, which the others stand behind. Something must be reserved. */
static inline struct gs_heap_node *gs_heap_first(const struct gs_heap *heap)
{
    return &heap->nodes[GS_HEAP_ROOT];
}

#endif
