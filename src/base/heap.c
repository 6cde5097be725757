#include "base/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64

static uint32_t parent_of(uint32_t index)
{
    return index / 4 + 2;
}

static uint32_t first_child_of(uint32_t index)
{
    return 4 * index - 8;
}

static void put(struct gs_heap *heap, uint32_t index, struct gs_heap_node node)
{
    heap->nodes[index] = node;
    *node.place = index;
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
    /* The root ends a cache line. Large blocks keep their place in the page, so that the nodes need
     * no second move. */
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

/* Put the node at the hole `index` or above. */
static void sift_up(struct gs_heap *heap, uint32_t index, struct gs_heap_node node)
{
    while (index > GS_HEAP_ROOT && node.key < heap->nodes[parent_of(index)].key) {
        put(heap, index, heap->nodes[parent_of(index)]);
        index = parent_of(index);
    }
    put(heap, index, node);
}

/* The four lines of the children of four nodes in a row. */
static void prefetch_children(const struct gs_heap *heap, uint32_t index, uint32_t end)
{
    uint32_t child = first_child_of(index);
    for (uint32_t i = child; i < child + 16 && i < end; i += 4)
        __builtin_prefetch(&heap->nodes[i]);
}

/* Put the node at the hole `index` or below. */
static void sift_down(struct gs_heap *heap, uint32_t index, struct gs_heap_node node)
{
    uint32_t end = GS_HEAP_ROOT + heap->count;
    for (uint32_t child = first_child_of(index); child < end; child = first_child_of(index)) {
        uint32_t last = child + 4 < end ? child + 4 : end, least = child;
        prefetch_children(heap, child, end);
        while (++child < last)
            if (heap->nodes[child].key < heap->nodes[least].key)
                least = child;
        if (node.key <= heap->nodes[least].key)
            break;
        put(heap, index, heap->nodes[least]);
        index = least;
    }
    put(heap, index, node);
}

static void settle(struct gs_heap *heap, uint32_t index, struct gs_heap_node node)
{
    if (index > GS_HEAP_ROOT && node.key < heap->nodes[parent_of(index)].key)
        sift_up(heap, index, node);
    else
        sift_down(heap, index, node);
}

void gs_heap_insert(struct gs_heap *heap, uint64_t key, uint32_t *place)
{
    assert(heap->count < heap->capacity);
    sift_up(heap, GS_HEAP_ROOT + heap->count++, (struct gs_heap_node){key, place});
}

void gs_heap_remove(struct gs_heap *heap, uint32_t *place)
{
    uint32_t index = *place;
    struct gs_heap_node last = heap->nodes[GS_HEAP_ROOT + --heap->count];
    if (index != GS_HEAP_ROOT + heap->count)
        settle(heap, index, last);
    *place = 0;
}

void gs_heap_move(struct gs_heap *heap, uint32_t *place, uint64_t key)
{
    settle(heap, *place, (struct gs_heap_node){key, place});
}

void gs_heap_order(struct gs_heap *heap)
{
    uint32_t end = GS_HEAP_ROOT + heap->count;
    for (uint32_t i = GS_HEAP_ROOT; i < end; i++)
        *heap->nodes[i].place = i;
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
        assert(*heap->nodes[i].place == i && "2");
    }
}
