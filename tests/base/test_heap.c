#include "base/heap.h"

#include "tests/test.h"

#include <gossamer/list.h>

struct item {
    uint64_t key;
    uint32_t index;
};

static struct item *first(const struct gs_heap *heap)
{
    return gs_container_of(gs_heap_first(heap)->index, struct item, index);
}

TEST(items_are_removed_by_key)
{
    struct item items[] = {{5, 0}, {3, 0}, {9, 0}, {1, 0}, {7, 0}, {3, 0}};
    const uint64_t sorted[] = {1, 3, 3, 5, 7, 9};
    struct gs_heap heap = {0};
    CHECK_EQ(gs_heap_reserve(&heap, 6), 0);
    for (int i = 0; i < 6; i++)
        gs_heap_insert(&heap, items[i].key, &items[i].index);
    gs_heap_check(&heap);
    for (int i = 0; i < 6; i++) {
        struct item *item = first(&heap);
        CHECK_EQ(gs_heap_first(&heap)->key, sorted[i]);
        CHECK_EQ(item->key, sorted[i]);
        gs_heap_remove(&heap, &item->index);
        CHECK_EQ(item->index, 0);
    }
    CHECK_EQ(heap.count, 0);
    gs_heap_done(&heap);
}

TEST(children_of_a_node_share_a_cache_line)
{
    struct gs_heap heap = {0};
    CHECK_EQ(gs_heap_reserve(&heap, 1), 0);
    CHECK_EQ((uintptr_t)&heap.nodes[GS_HEAP_ROOT + 1] % 64, 0);
    gs_heap_done(&heap);
}

TEST(reserve_fails_without_memory)
{
    struct gs_heap heap = {0};
    CHECK_EQ(gs_heap_reserve(&heap, UINT32_MAX), -ENOMEM);
    CHECK_EQ(heap.capacity, 0);
    CHECK_EQ(gs_heap_reserve(&heap, 0), 0);
    gs_heap_done(&heap);
}

#define ITEMS 500

static uint64_t seed = 7;

static uint32_t random_below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(seed >> 33) % n;
}

static uint64_t least_key(const struct item *items)
{
    uint64_t smallest = UINT64_MAX;
    for (int i = 0; i < ITEMS; i++)
        if (items[i].index && items[i].key < smallest)
            smallest = items[i].key;
    return smallest;
}

TEST(random_inserts_moves_and_removals_keep_the_least_first)
{
    static struct item items[ITEMS];
    struct gs_heap heap = {0};
    for (int i = 0; i < 50000; i++) {
        struct item *item = &items[random_below(ITEMS)];
        uint64_t key = random_below(1000);
        if (!item->index) {
            CHECK_EQ(gs_heap_reserve(&heap, heap.count + 1), 0);
            item->key = key;
            gs_heap_insert(&heap, key, &item->index);
        } else if (random_below(3)) {
            item->key = key;
            gs_heap_update_key(&heap, &item->index, key);
        } else {
            gs_heap_remove(&heap, &item->index);
        }
        if (i % 16 == 0)
            gs_heap_check(&heap);
        if (heap.count)
            CHECK_EQ(gs_heap_first(&heap)->key, least_key(items));
    }
    gs_heap_done(&heap);
}
