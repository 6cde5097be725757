#include "base/timer_queue.h"

#include "tests/test.h"

#include <gossamer/list.h>

#define ITEMS 20000
#define CROWD 100000

static struct item {
    uint64_t key;
    uint32_t index;
} items[ITEMS], crowd[CROWD];

static struct gs_timer_queue queue;
static uint64_t seed;

static uint64_t key_of(const uint32_t *index)
{
    return gs_container_of(index, struct item, index)->key;
}

static uint64_t random_below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (seed >> 32) * n >> 32;
}

static void set_up(void)
{
    queue = (struct gs_timer_queue){.key_of = key_of};
    seed = 3;
    memset(items, 0, sizeof items);
}

static void insert(unsigned i, uint64_t key)
{
    CHECK_EQ(gs_timer_queue_reserve(&queue, gs_timer_queue_count(&queue) + 1), 0);
    items[i].key = key;
    gs_timer_queue_insert(&queue, key, &items[i].index);
}

static uint64_t least_key(void)
{
    uint64_t smallest = UINT64_MAX;
    for (unsigned i = 0; i < ITEMS; i++)
        if (items[i].index && items[i].key < smallest)
            smallest = items[i].key;
    return smallest;
}

/* Returns the smallest deadline; elements whose key is only a lower bound are refreshed first. */
static uint64_t find_next(void)
{
    uint64_t before = 0, next = gs_timer_queue_next(&queue);
    for (int same = 0; same < 20; next = gs_timer_queue_next(&queue)) {
        CHECK(next >= before);
        same = next == before ? same + 1 : 0;
        before = next;
    }
    return next;
}

/* Remove all elements that are due at `now`. Returns their number, or -1 if they were out of
 * order. */
static int take_due(uint64_t now)
{
    uint32_t *index;
    uint64_t before = 0;
    int count = 0;
    bool is_ordered = true;
    while ((index = gs_timer_queue_due(&queue, now)) ||
           (gs_timer_queue_count(&queue) && gs_timer_queue_next(&queue) <= now)) {
        if (!index)
            continue;
        is_ordered &= key_of(index) >= before && key_of(index) <= now;
        before = key_of(index);
        gs_timer_queue_remove(&queue, index);
        count++;
    }
    gs_timer_queue_check(&queue);
    return is_ordered ? count : -1;
}

#define QUEUE_TEST(name_) FIXTURE_TEST(name_, set_up(), gs_timer_queue_done(&queue))

QUEUE_TEST(few_are_in_the_heap)
{
    CHECK_EQ(gs_timer_queue_next(&queue), UINT64_MAX);
    CHECK(!gs_timer_queue_due(&queue, UINT64_MAX));
    for (unsigned i = 0; i < 1000; i++)
        insert(i, 1000 - i);
    CHECK_EQ(queue.far_count, 0);
    CHECK_EQ(gs_timer_queue_next(&queue), 1);
    CHECK_EQ(take_due(10), 10);
    CHECK_EQ(take_due(1000), 990);
}

QUEUE_TEST(of_many_most_are_beyond_the_horizon)
{
    for (unsigned i = 0; i < ITEMS; i++)
        insert(i, random_below(1000000));
    gs_timer_queue_check(&queue);
    CHECK_EQ(gs_timer_queue_count(&queue), ITEMS);
    CHECK(queue.far_count > ITEMS / 2);
    CHECK_EQ(take_due(1000000), ITEMS);
}

static void insert_range(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        crowd[i].key = random_below(1000000);
        gs_timer_queue_insert(&queue, crowd[i].key, &crowd[i].index);
    }
}

QUEUE_TEST(while_it_is_filled_from_empty_the_heap_stays_small)
{
    CHECK_EQ(gs_timer_queue_reserve(&queue, CROWD), 0);
    for (int round = 0; round < 2; round++) {
        insert_range(0, CROWD / 2);
        gs_timer_queue_check(&queue);
        CHECK(queue.near.count < 4096 && queue.near.capacity > 4096);
        for (unsigned i = 0; i < CROWD / 2; i += 3)
            crowd[i].key += random_below(100000);
        CHECK(take_due(300000) > CROWD / 10);
        insert_range(CROWD / 2, CROWD);
        gs_timer_queue_check(&queue);
        CHECK(take_due(2000000) > CROWD / 2);
        CHECK_EQ(gs_timer_queue_count(&queue), 0);
    }
}

TEST(ever_earlier_or_later_keys_are_removed_in_order)
{
    for (int is_later = 0; is_later < 2; is_later++) {
        set_up();
        for (unsigned i = 0; i < ITEMS; i++)
            insert(i, is_later ? i : ITEMS - i);
        gs_timer_queue_check(&queue);
        CHECK_EQ(take_due(ITEMS / 2), ITEMS / 2 + is_later);
        CHECK_EQ(take_due(ITEMS), ITEMS / 2 - is_later);
        gs_timer_queue_done(&queue);
    }
}

TEST(equal_keys_are_all_removed)
{
    const uint64_t keys[] = {0, 5, UINT64_MAX};
    for (int k = 0; k < 3; k++) {
        set_up();
        for (unsigned i = 0; i < ITEMS; i++)
            insert(i, keys[k]);
        gs_timer_queue_check(&queue);
        CHECK_EQ(gs_timer_queue_next(&queue), keys[k]);
        CHECK_EQ(take_due(keys[k]), ITEMS);
        gs_timer_queue_done(&queue);
    }
}

QUEUE_TEST(stale_keys_are_refreshed_when_they_are_due)
{
    for (unsigned i = 0; i < ITEMS; i++)
        insert(i, random_below(1000));
    for (unsigned i = 0; i < ITEMS; i++)
        items[i].key = 1000 + random_below(1000);
    CHECK_EQ(take_due(999), 0);
    CHECK_EQ(find_next(), least_key());
    gs_timer_queue_check(&queue);
    CHECK_EQ(take_due(2000), ITEMS);
}

QUEUE_TEST(elements_can_be_visited_in_no_order)
{
    for (unsigned i = 0; i < ITEMS; i++)
        insert(i, 1 + i);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gs_timer_queue_count(&queue); i++)
        sum += key_of(gs_timer_queue_at(&queue, i));
    CHECK_EQ(sum, (uint64_t)ITEMS * (ITEMS + 1) / 2);
}

static void change(struct item *item, uint64_t range)
{
    uint64_t key = random_below(range);
    if (!item->index) {
        insert((unsigned)(item - items), key);
        return;
    }
    if (!random_below(3)) {
        gs_timer_queue_remove(&queue, &item->index);
        return;
    }
    item->key = key;
    if (key < gs_timer_queue_key(&queue, item->index))
        gs_timer_queue_decrease_key(&queue, &item->index, key);
}

QUEUE_TEST(an_element_can_be_moved_in_memory)
{
    for (unsigned i = 0; i < ITEMS / 2; i++)
        insert(i, random_below(1u << 30));
    for (unsigned i = 0; i < ITEMS / 2; i += 3) {
        items[ITEMS - 1 - i] = items[i];
        gs_timer_queue_relocate(&queue, &items[ITEMS - 1 - i].index);
        items[i] = (struct item){0};
    }
    gs_timer_queue_check(&queue);
    CHECK_EQ(find_next(), least_key());
    CHECK_EQ(take_due(UINT64_MAX), ITEMS / 2);
}

TEST(random_changes_keep_the_least_first)
{
    const uint64_t ranges[] = {UINT64_C(1) << 32, 1000, 3};
    for (int r = 0; r < 3; r++) {
        set_up();
        for (int i = 0; i < 200000; i++) {
            change(&items[random_below(i % 40000 < 20000 ? ITEMS : 2000)], ranges[r]);
            if (i % 2000)
                continue;
            gs_timer_queue_check(&queue);
            CHECK_EQ(find_next(), least_key());
            gs_timer_queue_check(&queue);
        }
        CHECK(take_due(UINT64_MAX) >= 0);
        CHECK_EQ(gs_timer_queue_count(&queue), 0);
        gs_timer_queue_done(&queue);
    }
}

QUEUE_TEST(reserve_fails_without_memory)
{
    CHECK_EQ(gs_timer_queue_reserve(&queue, UINT32_MAX), -ENOMEM);
    CHECK_EQ(gs_timer_queue_reserve(&queue, GS_TIMER_QUEUE_FAR), -ENOMEM);
    insert(0, 1);
    CHECK_EQ(take_due(1), 1);
}
