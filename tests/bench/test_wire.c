/* Delay, loss and queue overflow of an emulated wire. */
#include "bench/wan/wire.h"
#include "tests/test.h"

enum { DELAY_NS = 5000, MANY = 900 };

static struct wire wire_with(double loss, uint64_t seed)
{
    struct wire wire;
    CHECK_EQ(wire_init(&wire, DELAY_NS, loss, seed), 0);
    return wire;
}

/* Send `count` numbered packets, 1 ns apart. */
static void send_many(struct wire *wire, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        wire_send(wire, (const uint8_t *)&i, sizeof i, i);
}

static unsigned receive_number(struct wire *wire)
{
    unsigned number;
    const struct wire_packet *packet = wire_receive(wire);
    CHECK_EQ(packet->n, sizeof number);
    memcpy(&number, packet->bytes, sizeof number);
    return number;
}

/* Send MANY packets, and store which of them arrived. */
static void send_and_receive(double loss, uint64_t seed, bool ret_arrived[MANY])
{
    struct wire wire = wire_with(loss, seed);
    send_many(&wire, MANY);
    memset(ret_arrived, 0, MANY * sizeof *ret_arrived);
    while (wire_next_arrival(&wire) != GS_NEVER)
        ret_arrived[receive_number(&wire)] = true;
    CHECK_EQ(wire.passed + wire.lost, MANY);
    wire_done(&wire);
}

TEST(packets_arrive_in_order_after_the_delay)
{
    struct wire wire = wire_with(0, 1);
    CHECK_EQ(wire_next_arrival(&wire), GS_NEVER);
    send_many(&wire, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_EQ(wire_next_arrival(&wire), i + DELAY_NS);
        CHECK_EQ(receive_number(&wire), i);
    }
    CHECK_EQ(wire_next_arrival(&wire), GS_NEVER);
    CHECK_EQ(wire.passed, MANY);
    wire_done(&wire);
}

TEST(a_wire_with_loss_1_delivers_no_packet)
{
    struct wire wire = wire_with(1, 1);
    send_many(&wire, MANY);
    CHECK_EQ(wire_next_arrival(&wire), GS_NEVER);
    CHECK_EQ(wire.lost, MANY);
    wire_done(&wire);
}

TEST(the_share_of_lost_packets_is_the_loss_probability)
{
    struct wire wire = wire_with(0.25, 1);
    for (unsigned i = 0; i < 100; i++) {
        send_many(&wire, MANY);
        while (wire_next_arrival(&wire) != GS_NEVER)
            wire_receive(&wire);
    }
    CHECK(wire.lost > UINT64_C(24) * MANY);
    CHECK(wire.lost < UINT64_C(26) * MANY);
    CHECK_EQ(wire.overflowed, 0);
    wire_done(&wire);
}

TEST(the_same_seed_loses_the_same_packets_and_another_seed_other_packets)
{
    bool first[MANY], again[MANY], other[MANY];
    send_and_receive(0.5, 7, first);
    send_and_receive(0.5, 7, again);
    send_and_receive(0.5, 8, other);
    CHECK(!memcmp(first, again, sizeof first));
    CHECK(memcmp(first, other, sizeof first));
}

TEST(a_full_wire_drops_packets_until_there_is_space)
{
    struct wire wire = wire_with(0, 1);
    send_many(&wire, WIRE_CAPACITY + 3);
    CHECK_EQ(wire.overflowed, 3);
    CHECK_EQ(receive_number(&wire), 0);
    send_many(&wire, 1);
    CHECK_EQ(wire.overflowed, 3);
    for (unsigned i = 1; i < WIRE_CAPACITY; i++)
        CHECK_EQ(receive_number(&wire), i);
    CHECK_EQ(receive_number(&wire), 0);
    CHECK_EQ(wire_next_arrival(&wire), GS_NEVER);
    wire_done(&wire);
}
