/* What a wire between a host and a server does to packets. */
#include "bench/wan/wire.h"
#include "tests/test.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { DELAY_NS = 5000, MANY = 900 };

static struct wire wire_with(double loss, uint64_t seed)
{
    struct wire wire;
    CHECK_EQ(wire_init(&wire, DELAY_NS, loss, seed), 0);
    return wire;
}

/* Put numbered packets on the wire, a nanosecond after each other. */
static void put_many(struct wire *wire, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        wire_put(wire, (const uint8_t *)&i, sizeof i, i);
}

static unsigned take_number(struct wire *wire)
{
    unsigned number;
    const struct wire_packet *packet = wire_take(wire);
    CHECK_EQ(packet->n, sizeof number);
    memcpy(&number, packet->bytes, sizeof number);
    return number;
}

/* Which of MANY packets arrive. */
static void put_and_take(double loss, uint64_t seed, bool ret_arrived[MANY])
{
    struct wire wire = wire_with(loss, seed);
    put_many(&wire, MANY);
    memset(ret_arrived, 0, MANY * sizeof *ret_arrived);
    while (wire_due(&wire) != GS_NEVER)
        ret_arrived[take_number(&wire)] = true;
    CHECK_EQ(wire.passed + wire.lost, MANY);
    wire_done(&wire);
}

TEST(packets_arrive_in_order_each_after_the_same_delay)
{
    struct wire wire = wire_with(0, 1);
    CHECK_EQ(wire_due(&wire), GS_NEVER);
    put_many(&wire, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_EQ(wire_due(&wire), i + DELAY_NS);
        CHECK_EQ(take_number(&wire), i);
    }
    CHECK_EQ(wire_due(&wire), GS_NEVER);
    CHECK_EQ(wire.passed, MANY);
    wire_done(&wire);
}

TEST(a_wire_that_loses_everything_lets_nothing_through)
{
    struct wire wire = wire_with(1, 1);
    put_many(&wire, MANY);
    CHECK_EQ(wire_due(&wire), GS_NEVER);
    CHECK_EQ(wire.lost, MANY);
    wire_done(&wire);
}

TEST(about_as_many_are_lost_as_the_chance_says)
{
    struct wire wire = wire_with(0.25, 1);
    for (unsigned i = 0; i < 100; i++) {
        put_many(&wire, MANY);
        while (wire_due(&wire) != GS_NEVER)
            wire_take(&wire);
    }
    CHECK(wire.lost > UINT64_C(24) * MANY);
    CHECK(wire.lost < UINT64_C(26) * MANY);
    CHECK_EQ(wire.cut, 0);
    wire_done(&wire);
}

TEST(the_same_seed_loses_the_same_packets_and_another_seed_others)
{
    bool first[MANY], again[MANY], other[MANY];
    put_and_take(0.5, 7, first);
    put_and_take(0.5, 7, again);
    put_and_take(0.5, 8, other);
    CHECK(!memcmp(first, again, sizeof first));
    CHECK(memcmp(first, other, sizeof first));
}

TEST(a_full_wire_cuts_off_what_comes_and_goes_on_when_there_is_room)
{
    struct wire wire = wire_with(0, 1);
    put_many(&wire, WIRE_CAPACITY + 3);
    CHECK_EQ(wire.cut, 3);
    CHECK_EQ(take_number(&wire), 0);
    put_many(&wire, 1);
    CHECK_EQ(wire.cut, 3);
    for (unsigned i = 1; i < WIRE_CAPACITY; i++)
        CHECK_EQ(take_number(&wire), i);
    CHECK_EQ(take_number(&wire), 0);
    CHECK_EQ(wire_due(&wire), GS_NEVER);
    wire_done(&wire);
}
