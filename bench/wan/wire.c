#include "bench/wan/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* George Marsaglia's xorshift64*. Returns a number in [0, 1). */
static double next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)(*state * UINT64_C(0x2545f4914f6cdd1d) >> 11) / (double)(UINT64_C(1) << 53);
}

int wire_init(struct wire *wire, uint64_t delay_ns, double loss, uint64_t seed)
{
    *wire = (struct wire){.delay_ns = delay_ns, .loss = loss};
    /* Adjacent seeds must not result in adjacent states, and the state must not be 0. */
    wire->random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    wire->packets = calloc(WIRE_CAPACITY, sizeof *wire->packets);
    return wire->packets ? 0 : -ENOMEM;
}

void wire_done(struct wire *wire)
{
    free(wire->packets);
}

void wire_send(struct wire *wire, const uint8_t *bytes, size_t n, uint64_t now_ns)
{
    if (next_random(&wire->random) < wire->loss) {
        wire->lost++;
        return;
    }
    if (wire->count == WIRE_CAPACITY) {
        wire->overflowed++;
        return;
    }
    struct wire_packet *packet = &wire->packets[(wire->first + wire->count++) % WIRE_CAPACITY];
    packet->arrival_ns = now_ns + wire->delay_ns;
    packet->n = n;
    memcpy(packet->bytes, bytes, n);
}

uint64_t wire_next_arrival(const struct wire *wire)
{
    return wire->count ? wire->packets[wire->first].arrival_ns : GS_NEVER;
}

const struct wire_packet *wire_receive(struct wire *wire)
{
    const struct wire_packet *packet = &wire->packets[wire->first];
    wire->first = (wire->first + 1) % WIRE_CAPACITY;
    wire->count--;
    wire->passed++;
    return packet;
}
