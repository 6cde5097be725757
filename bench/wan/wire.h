/* One direction of the way between a host and the server: each packet arrives after the same delay, or not at all.
 *
 * Packets keep their order. Which are lost follows from the seed and from their number, and from nothing else. */
#ifndef GS_BENCH_WIRE_H
#define GS_BENCH_WIRE_H

#include <gossamer/clock.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_MTU = 1500, WIRE_CAPACITY = 1024 };

struct wire_packet {
    uint64_t due_ns;
    size_t n;
    uint8_t bytes[WIRE_MTU];
};

struct wire {
    struct wire_packet *packets; /* a ring of WIRE_CAPACITY */
    unsigned first, count;
    uint64_t delay_ns;
    double loss;                /* of each packet: the chance not to arrive */
    uint64_t random;            /* the state from which losses are drawn */
    uint64_t passed, lost, cut; /* cut: there was no room on the wire */
};

/* Returns 0 or -ENOMEM. */
int wire_init(struct wire *wire, uint64_t delay_ns, double loss, uint64_t seed);
void wire_done(struct wire *wire);

/* Send a packet of at most WIRE_MTU bytes on its way; they are copied. */
void wire_put(struct wire *wire, const uint8_t *bytes, size_t n, uint64_t now_ns);

/* When the next packet arrives; GS_NEVER if none is under way. */
uint64_t wire_due(const struct wire *wire);

/* Take the next packet off; valid until the next wire_put. Only if one is under way. */
const struct wire_packet *wire_take(struct wire *wire);

#endif
