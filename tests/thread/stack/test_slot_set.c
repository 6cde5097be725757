#include "tests/test.h"
#include "thread/stack/slot_set.h"

enum { SLOTS = 1000 };

static struct slot_set new_set(void)
{
    struct slot_set set;
    CHECK_EQ(gs_slot_set_init(&set, SLOTS), 0);
    return set;
}

TEST(slots_are_taken_in_the_order_of_their_numbers)
{
    struct slot_set set = new_set();
    for (size_t i = 0; i < SLOTS; i++)
        gs_slot_set_add(&set, i * 7 % SLOTS);
    CHECK_EQ(set.count, SLOTS);
    for (size_t i = 0; i < SLOTS; i++)
        CHECK_EQ(gs_slot_set_take(&set), i);
    CHECK_EQ(set.count, 0);
}

TEST(slot_that_is_added_below_the_lowest_is_taken_next)
{
    struct slot_set set = new_set();
    gs_slot_set_add(&set, 900);
    gs_slot_set_add(&set, 999);
    CHECK_EQ(gs_slot_set_take(&set), 900);
    gs_slot_set_add(&set, 63);
    gs_slot_set_add(&set, 64);
    CHECK_EQ(gs_slot_set_take(&set), 63);
    CHECK_EQ(gs_slot_set_take(&set), 64);
    CHECK_EQ(gs_slot_set_take(&set), 999);
    gs_slot_set_add(&set, 5);
    CHECK_EQ(gs_slot_set_take(&set), 5);
}

TEST(set_has_what_was_added_until_it_is_taken)
{
    struct slot_set set = new_set();
    gs_slot_set_add(&set, 0);
    gs_slot_set_add(&set, SLOTS - 1);
    CHECK(gs_slot_set_has(&set, 0) && gs_slot_set_has(&set, SLOTS - 1));
    CHECK(!gs_slot_set_has(&set, 1));
    gs_slot_set_take(&set);
    CHECK(!gs_slot_set_has(&set, 0) && gs_slot_set_has(&set, SLOTS - 1));
}
