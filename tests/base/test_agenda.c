#include "base/agenda.h"

#include "tests/test.h"

#include <errno.h>
#include <gossamer/list.h>

#define ITEMS 20000
#define CROWD 100000

static struct item {
    uint64_t key;
    uint32_t place;
} items[ITEMS], crowd[CROWD];

static struct gs_agenda agenda;
static uint64_t seed;

static uint64_t key_of(const uint32_t *place)
{
    return gs_container_of(place, struct item, place)->key;
}

static uint64_t random_below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (seed >> 32) * n >> 32;
}

static void set_up(void)
{
    agenda = (struct gs_agenda){.key_of = key_of};
    seed = 3;
    memset(items, 0, sizeof items);
}

static void insert(unsigned i, uint64_t key)
{
    CHECK_EQ(gs_agenda_reserve(&agenda, gs_agenda_count(&agenda) + 1), 0);
    items[i].key = key;
    gs_agenda_insert(&agenda, key, &items[i].place);
}

static uint64_t least_key(void)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < ITEMS; i++)
        if (items[i].place && items[i].key < least)
            least = items[i].key;
    return least;
}

/* The least key, however many lower bounds come first. */
static uint64_t find_next(void)
{
    uint64_t before = 0, next = gs_agenda_next(&agenda);
    for (int same = 0; same < 20; next = gs_agenda_next(&agenda)) {
        CHECK(next >= before);
        same = next == before ? same + 1 : 0;
        before = next;
    }
    return next;
}

/* Take out all that is not later than `now`: how many, or -1 if they came in another order. */
static int take_due(uint64_t now)
{
    uint32_t *place;
    uint64_t before = 0;
    int count = 0;
    bool is_ordered = true;
    while ((place = gs_agenda_due(&agenda, now)) ||
           (gs_agenda_count(&agenda) && gs_agenda_next(&agenda) <= now)) {
        if (!place)
            continue;
        is_ordered &= key_of(place) >= before && key_of(place) <= now;
        before = key_of(place);
        gs_agenda_remove(&agenda, place);
        count++;
    }
    gs_agenda_check(&agenda);
    return is_ordered ? count : -1;
}

TEST(few_stand_in_the_heap)
{
    set_up();
    CHECK_EQ(gs_agenda_next(&agenda), UINT64_MAX);
    CHECK(!gs_agenda_due(&agenda, UINT64_MAX));
    for (unsigned i = 0; i < 1000; i++)
        insert(i, 1000 - i);
    CHECK_EQ(agenda.far_count, 0);
    CHECK_EQ(gs_agenda_next(&agenda), 1);
    CHECK_EQ(take_due(10), 10);
    CHECK_EQ(take_due(1000), 990);
    gs_agenda_done(&agenda);
}

TEST(of_many_most_stand_beyond_the_horizon)
{
    set_up();
    for (unsigned i = 0; i < ITEMS; i++)
        insert(i, random_below(1000000));
    gs_agenda_check(&agenda);
    CHECK_EQ(gs_agenda_count(&agenda), ITEMS);
    CHECK(agenda.far_count > ITEMS / 2);
    CHECK_EQ(take_due(1000000), ITEMS);
    gs_agenda_done(&agenda);
}

static void insert_crowd(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        crowd[i].key = random_below(1000000);
        gs_agenda_insert(&agenda, crowd[i].key, &crowd[i].place);
    }
}

TEST(while_it_is_filled_from_empty_the_heap_stays_small)
{
    set_up();
    CHECK_EQ(gs_agenda_reserve(&agenda, CROWD), 0);
    for (int round = 0; round < 2; round++) {
        insert_crowd(0, CROWD / 2);
        gs_agenda_check(&agenda);
        CHECK(agenda.near.count < 4096 && agenda.near.capacity > 4096);
        for (unsigned i = 0; i < CROWD / 2; i += 3)
            crowd[i].key += random_below(100000);
        CHECK(take_due(300000) > CROWD / 10);
        insert_crowd(CROWD / 2, CROWD);
        gs_agenda_check(&agenda);
        CHECK(take_due(2000000) > CROWD / 2);
        CHECK_EQ(gs_agenda_count(&agenda), 0);
    }
    gs_agenda_done(&agenda);
}

TEST(keys_that_come_ever_earlier_or_later_are_taken_in_order)
{
    for (int is_later = 0; is_later < 2; is_later++) {
        set_up();
        for (unsigned i = 0; i < ITEMS; i++)
            insert(i, is_later ? i : ITEMS - i);
        gs_agenda_check(&agenda);
        CHECK_EQ(take_due(ITEMS / 2), ITEMS / 2 + is_later);
        CHECK_EQ(take_due(ITEMS), ITEMS / 2 - is_later);
        gs_agenda_done(&agenda);
    }
}

TEST(equal_keys_are_all_taken)
{
    const uint64_t keys[] = {0, 5, UINT64_MAX};
    for (int k = 0; k < 3; k++) {
        set_up();
        for (unsigned i = 0; i < ITEMS; i++)
            insert(i, keys[k]);
        gs_agenda_check(&agenda);
        CHECK_EQ(gs_agenda_next(&agenda), keys[k]);
        CHECK_EQ(take_due(keys[k]), ITEMS);
        gs_agenda_done(&agenda);
    }
}

TEST(keys_that_became_later_are_put_right_when_their_turn_comes)
{
    set_up();
    for (unsigned i = 0; i < ITEMS; i++)
        insert(i, random_below(1000));
    for (unsigned i = 0; i < ITEMS; i++)
        items[i].key = 1000 + random_below(1000);
    CHECK_EQ(take_due(999), 0);
    CHECK_EQ(find_next(), least_key());
    gs_agenda_check(&agenda);
    CHECK_EQ(take_due(2000), ITEMS);
    gs_agenda_done(&agenda);
}

TEST(places_can_be_visited_in_no_order)
{
    set_up();
    for (unsigned i = 0; i < ITEMS; i++)
        insert(i, 1 + i);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gs_agenda_count(&agenda); i++)
        sum += key_of(gs_agenda_at(&agenda, i));
    CHECK_EQ(sum, (uint64_t)ITEMS * (ITEMS + 1) / 2);
    gs_agenda_done(&agenda);
}

static void change(struct item *item, uint64_t range)
{
    uint64_t key = random_below(range);
    if (!item->place) {
        insert((unsigned)(item - items), key);
        return;
    }
    if (!random_below(3)) {
        gs_agenda_remove(&agenda, &item->place);
        return;
    }
    item->key = key;
    if (key < gs_agenda_key(&agenda, item->place))
        gs_agenda_hasten(&agenda, &item->place, key);
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
            gs_agenda_check(&agenda);
            CHECK_EQ(find_next(), least_key());
            gs_agenda_check(&agenda);
        }
        CHECK(take_due(UINT64_MAX) >= 0);
        CHECK_EQ(gs_agenda_count(&agenda), 0);
        gs_agenda_done(&agenda);
    }
}

TEST(room_that_cannot_be_had_is_refused)
{
    set_up();
    CHECK_EQ(gs_agenda_reserve(&agenda, UINT32_MAX), -ENOMEM);
    CHECK_EQ(gs_agenda_reserve(&agenda, GS_AGENDA_FAR), -ENOMEM);
    insert(0, 1);
    CHECK_EQ(take_due(1), 1);
    gs_agenda_done(&agenda);
}
