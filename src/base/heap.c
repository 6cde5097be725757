#include "base/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64

static uint32_t parent_of(uint32_t i)
{
    return i / 4 + 2;
}

static uint32_t first_child_of(uint32_t i)
{
    return 4 * i - 8;
}

static void put(struct gs_heap *heap, uint32_t i, struct gs_heap_node node)
{
    heap->nodes[i] = node;
    *node.index = i;
}

int gs_heap_reserve(struct gs_heap *heap, uint32_t count)
{
    if (count <= heap->capacity)
        return 0;
    uint64_t capacity = heap->capacity ? 2 * (uint64_t)heap->capacity : 32;
    while (capacity < count)
        capacity *= 2;
    if (capacity > UINT32_MAX / 4)
        return -ENOMEM;
    void *memory =
        realloc(heap->memory, ((size_t)capacity + GS_HEAP_ROOT) * sizeof *heap->nodes + CACHE_LINE);
    if (!memory)
        return -ENOMEM;
    /* The root is at the end of a cache line. realloc keeps the offset of large blocks in their
     * page, so the nodes need not be moved again. */
    uintptr_t former = (uintptr_t)heap->nodes - (uintptr_t)heap->memory;
    uintptr_t line = ((uintptr_t)memory + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1);
    struct gs_heap_node *nodes = (struct gs_heap_node *)line;
    if (heap->count && line - (uintptr_t)memory != former)
        memmove(nodes + GS_HEAP_ROOT, (char *)memory + former + GS_HEAP_ROOT * sizeof *nodes,
                heap->count * sizeof *nodes);
    nodes[0].key = 0;
    heap->memory = memory;
    heap->nodes = nodes;
    heap->capacity = (uint32_t)capacity;
    return 0;
}

void gs_heap_done(struct gs_heap *heap)
{
    free(heap->memory);
    *heap = (struct gs_heap){0};
}

/* Put the node at index i, which is unoccupied, or above. */
static void sift_up(struct gs_heap *heap, uint32_t i, struct gs_heap_node node)
{
    while (i > GS_HEAP_ROOT && node.key < heap->nodes[parent_of(i)].key) {
        put(heap, i, heap->nodes[parent_of(i)]);
        i = parent_of(i);
    }
    put(heap, i, node);
}

/* Prefetch the cache lines of the children of four sibling nodes. */
static void prefetch_children(const struct gs_heap *heap, uint32_t parent, uint32_t end)
{
    uint32_t child = first_child_of(parent);
    for (uint32_t i = child; i < child + 16 && i < end; i += 4)
        __builtin_prefetch(&heap->nodes[i]);
}

/* Put the node at index i, which is unoccupied, or below. */
static void sift_down(struct gs_heap *heap, uint32_t i, struct gs_heap_node node)
{
    uint32_t end = GS_HEAP_ROOT + heap->count;
    for (uint32_t child = first_child_of(i); child < end; child = first_child_of(i)) {
        uint32_t last = child + 4 < end ? child + 4 : end, smallest = child;
        prefetch_children(heap, child, end);
        while (++child < last)
            if (heap->nodes[child].key < heap->nodes[smallest].key)
                smallest = child;
        if (node.key <= heap->nodes[smallest].key)
            break;
        put(heap, i, heap->nodes[smallest]);
        i = smallest;
    }
    put(heap, i, node);
}

static void sift(struct gs_heap *heap, uint32_t i, struct gs_heap_node node)
{
    if (i > GS_HEAP_ROOT && node.key < heap->nodes[parent_of(i)].key)
        sift_up(heap, i, node);
    else
        sift_down(heap, i, node);
}

void gs_heap_insert(struct gs_heap *heap, uint64_t key, uint32_t *index)
{
    assert(heap->count < heap->capacity);
    sift_up(heap, GS_HEAP_ROOT + heap->count++, (struct gs_heap_node){key, index});
}

void gs_heap_remove(struct gs_heap *heap, uint32_t *index)
{
    uint32_t i = *index;
    struct gs_heap_node last = heap->nodes[GS_HEAP_ROOT + --heap->count];
    if (i != GS_HEAP_ROOT + heap->count)
        sift(heap, i, last);
    *index = 0;
}

void gs_heap_update_key(struct gs_heap *heap, uint32_t *index, uint64_t key)
{
    sift(heap, *index, (struct gs_heap_node){key, index});
}

void gs_heap_heapify(struct gs_heap *heap)
{
    uint32_t end = GS_HEAP_ROOT + heap->count;
    for (uint32_t i = GS_HEAP_ROOT; i < end; i++)
        *heap->nodes[i].index = i;
    for (uint32_t i = heap->count > 1 ? parent_of(end - 1) : 0; i >= GS_HEAP_ROOT; i--)
        sift_down(heap, i, heap->nodes[i]);
}

void gs_heap_check(const struct gs_heap *heap)
{
    assert(heap->count <= heap->capacity && "3");
    if (!heap->nodes)
        return;
    assert(!heap->nodes[0].key && "4");
    for (uint32_t i = GS_HEAP_ROOT; i < GS_HEAP_ROOT + heap->count; i++) {
        assert((i == GS_HEAP_ROOT || heap->nodes[i].key >= heap->nodes[parent_of(i)].key) && "1");
        assert(*heap->nodes[i].index == i && "2");
    }
}
