#include "base/timer_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* The capacity of the heap: NEAR_MIN, or 1/NEAR_SHARE of all elements if that is more. Each refill
 * scans the far array and moves half a heap. A larger heap needs fewer refills, a smaller one is
 * faster. */
#define NEAR_MIN 1024
#define NEAR_SHARE 8

/* While many elements are inserted into an empty queue, the heap spills at this size: spilling
 * writes the index of each element, which is then still in the cache. */
#define INITIAL_SPILL_COUNT 4096

/* If more than STALE_MIN keys in a row, and more than 1/STALE_SHARE of the heap, were stale, all
 * keys in the heap are refreshed. */
#define STALE_MIN 16
#define STALE_SHARE 16

#define SAMPLES 127
/* The distance of prefetching elements, in nodes. */
#define AHEAD 256

static int reserve_far(struct gs_timer_queue *queue, uint32_t count)
{
    uint64_t capacity = queue->far_capacity ? queue->far_capacity : NEAR_MIN;
    while (capacity < count)
        capacity *= 2;
    if (capacity >= GS_TIMER_QUEUE_FAR)
        return -ENOMEM;
    struct gs_heap_node *far = realloc(queue->far, (size_t)capacity * sizeof *far);
    if (!far)
        return -ENOMEM;
    queue->far = far;
    queue->far_capacity = (uint32_t)capacity;
    return 0;
}

int gs_timer_queue_grow(struct gs_timer_queue *queue, uint32_t count)
{
    uint32_t share = count / NEAR_SHARE > NEAR_MIN ? count / NEAR_SHARE : NEAR_MIN;
    int err = gs_heap_reserve(&queue->near, count < share ? count : share);
    if (!err && count > queue->near.capacity)
        err = reserve_far(queue, count);
    if (!err)
        queue->reserved = queue->far ? queue->far_capacity : queue->near.capacity;
    return err;
}

void gs_timer_queue_done(struct gs_timer_queue *queue)
{
    gs_heap_done(&queue->near);
    free(queue->far);
    *queue = (struct gs_timer_queue){.key_of = queue->key_of};
}

/* Remove a far node. The last one moves to its index. */
static void remove_far(struct gs_timer_queue *queue, uint32_t i)
{
    struct gs_heap_node last = queue->far[--queue->far_count];
    if (i == queue->far_count)
        return;
    queue->far[i] = last;
    *last.index = GS_TIMER_QUEUE_FAR | i;
}

static void sort(uint64_t *keys, unsigned count)
{
    for (unsigned gap = count / 2; gap; gap /= 2)
        for (unsigned i = gap; i < count; i++) {
            uint64_t key = keys[i];
            unsigned j = i;
            for (; j >= gap && keys[j - gap] > key; j -= gap)
                keys[j] = keys[j - gap];
            keys[j] = key;
        }
}

/* Returns one of the keys, such that about `wanted` of the `count` keys are not larger. */
static uint64_t quantile(struct gs_timer_queue *queue, const struct gs_heap_node *nodes,
                         uint32_t count, uint32_t wanted)
{
    uint64_t keys[SAMPLES];
    for (unsigned i = 0; i < SAMPLES; i++) {
        queue->seed = queue->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        keys[i] = nodes[(queue->seed >> 32) * count >> 32].key;
    }
    sort(keys, SAMPLES);
    return keys[(uint64_t)wanted * SAMPLES / count];
}

/* Move all but the nearest quarter of the heap to `far`. The heap is unordered afterwards. */
static void spill(struct gs_timer_queue *queue)
{
    struct gs_heap *near = &queue->near;
    struct gs_heap_node *nodes = gs_heap_first(near);
    uint32_t count = near->count, quarter = count / 4, smaller = 0;
    uint64_t pivot = quantile(queue, nodes, count, quarter);
    for (uint32_t i = 0; i < count; i++)
        smaller += nodes[i].key < pivot;
    uint32_t equals = smaller < quarter ? quarter - smaller : 0;
    near->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_kept = nodes[i].key < pivot || (nodes[i].key == pivot && equals);
        equals -= is_kept && nodes[i].key == pivot;
        if (is_kept)
            nodes[near->count++] = nodes[i];
        else
            gs_timer_queue_append_far(queue, nodes[i]);
    }
    queue->horizon = pivot;
}

/* Move all far nodes that are not later than `limit` to the heap, which is unordered afterwards.
 * The limit was estimated from a sample: if it was too late, the heap spills, and the limit becomes
 * earlier. */
static void move_near(struct gs_timer_queue *queue, uint64_t limit)
{
    struct gs_heap *near = &queue->near;
    struct gs_heap_node *nodes = gs_heap_first(near);
    queue->horizon = limit;
    for (uint32_t i = 0; i < queue->far_count;) {
        struct gs_heap_node node = queue->far[i];
        if (i + AHEAD < queue->far_count && queue->far[i + AHEAD].key <= limit)
            __builtin_prefetch(queue->far[i + AHEAD].index, 1);
        if (node.key > limit) {
            i++;
            continue;
        }
        node.key = queue->key_of(node.index);
        if (node.key > limit) {
            queue->far[i++].key = node.key;
            continue;
        }
        remove_far(queue, i);
        nodes[near->count++] = node;
        if (near->count < near->capacity)
            continue;
        spill(queue);
        if (!queue->horizon)
            break;
        limit = queue->horizon - 1;
    }
}

/* If the heap is empty, move the nearest far nodes to it. It stays empty if the deadlines of all of
 * them have become later. */
static void refill(struct gs_timer_queue *queue)
{
    uint32_t wanted = queue->near.capacity / 2;
    if (queue->near.count || !queue->far_count)
        return;
    queue->spill_count = queue->near.capacity;
    move_near(queue, wanted < queue->far_count
                         ? quantile(queue, queue->far, queue->far_count, wanted)
                         : UINT64_MAX);
    gs_heap_heapify(&queue->near);
}

void gs_timer_queue_insert_near(struct gs_timer_queue *queue, uint64_t key, uint32_t *index)
{
    uint32_t capacity = queue->near.capacity;
    if (!gs_timer_queue_count(queue))
        queue->spill_count = capacity < INITIAL_SPILL_COUNT ? capacity : INITIAL_SPILL_COUNT;
    if (queue->near.count == capacity || (queue->near.count == queue->spill_count && queue->far)) {
        spill(queue);
        gs_heap_heapify(&queue->near);
    }
    if (key < queue->horizon || !queue->far_count)
        gs_heap_insert(&queue->near, key, index);
    else
        gs_timer_queue_append_far(queue, (struct gs_heap_node){key, index});
}

void gs_timer_queue_remove(struct gs_timer_queue *queue, uint32_t *index)
{
    if (*index & GS_TIMER_QUEUE_FAR)
        remove_far(queue, *index & ~GS_TIMER_QUEUE_FAR);
    else
        gs_heap_remove(&queue->near, index);
    *index = 0;
}

void gs_timer_queue_decrease_key(struct gs_timer_queue *queue, uint32_t *index, uint64_t key)
{
    if (!(*index & GS_TIMER_QUEUE_FAR)) {
        gs_heap_update_key(&queue->near, index, key);
    } else if (key >= queue->horizon) {
        queue->far[*index & ~GS_TIMER_QUEUE_FAR].key = key;
    } else {
        remove_far(queue, *index & ~GS_TIMER_QUEUE_FAR);
        gs_timer_queue_insert(queue, key, index);
    }
}

/* Refresh the key of the top. Returns false if it was not stale. */
static bool refresh_top(struct gs_timer_queue *queue)
{
    struct gs_heap_node top = *gs_heap_first(&queue->near);
    uint64_t key = queue->key_of(top.index);
    if (key == top.key)
        return false;
    if (key < queue->horizon || !queue->far_count) {
        gs_heap_update_key(&queue->near, top.index, key);
    } else {
        gs_heap_remove(&queue->near, top.index);
        gs_timer_queue_append_far(queue, (struct gs_heap_node){key, top.index});
    }
    return true;
}

/* Refresh all keys in the heap. */
static void refresh_all(struct gs_timer_queue *queue)
{
    struct gs_heap *near = &queue->near;
    struct gs_heap_node *nodes = gs_heap_first(near);
    uint32_t count = near->count;
    near->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gs_heap_node node = {queue->key_of(nodes[i].index), nodes[i].index};
        if (node.key < queue->horizon || !queue->far_count)
            nodes[near->count++] = node;
        else
            gs_timer_queue_append_far(queue, node);
    }
    gs_heap_heapify(near);
}

/* Refresh the top until its key is not stale or is later than `limit`. Returns false if NEAR_MIN
 * keys were refreshed before that. If many keys are stale, one pass over the whole heap is cheaper
 * than refreshing them one by one. */
static bool refresh_due(struct gs_timer_queue *queue, uint64_t limit)
{
    const struct gs_heap *near = &queue->near;
    for (uint32_t i = 0; near->count && gs_heap_first(near)->key <= limit; i++) {
        if (i == NEAR_MIN)
            return false;
        if (!refresh_top(queue))
            break;
        if (i >= STALE_MIN && i > near->count / STALE_SHARE) {
            refresh_all(queue);
            break;
        }
    }
    return true;
}

uint64_t gs_timer_queue_next(struct gs_timer_queue *queue)
{
    refill(queue);
    (void)refresh_due(queue, UINT64_MAX);
    if (queue->near.count)
        return gs_heap_first(&queue->near)->key;
    return queue->far_count ? queue->horizon : UINT64_MAX;
}

uint32_t *gs_timer_queue_due(struct gs_timer_queue *queue, uint64_t now)
{
    const struct gs_heap *near = &queue->near;
    if (queue->horizon <= now)
        refill(queue);
    if (!refresh_due(queue, now) || !near->count || gs_heap_first(near)->key > now)
        return NULL;
    return gs_heap_first(near)->index;
}

#ifdef NDEBUG

void gs_timer_queue_check(const struct gs_timer_queue *queue)
{
    (void)queue;
}

#else

/* Invariants 3 and 4. */
static bool is_valid_node(const struct gs_timer_queue *queue, struct gs_heap_node node, bool is_far)
{
    bool is_side_correct = is_far ? node.key >= queue->horizon : node.key <= queue->horizon;
    return node.key <= queue->key_of(node.index) && (is_side_correct || !queue->far_count);
}

void gs_timer_queue_check(const struct gs_timer_queue *queue)
{
    gs_heap_check(&queue->near);
    for (uint32_t i = 0; i < queue->near.count; i++)
        assert(is_valid_node(queue, gs_heap_first(&queue->near)[i], false) && "3, 4");
    for (uint32_t i = 0; i < queue->far_count; i++) {
        assert(*queue->far[i].index == (GS_TIMER_QUEUE_FAR | i) && "2");
        assert(is_valid_node(queue, queue->far[i], true) && "3, 4");
    }
    assert(queue->far_count <= queue->far_capacity && "5");
}

#endif
