/* One direction of the link between a host and the server: packets arrive in order after a constant
 * delay, or are lost. Which packets are lost depends only on the seed and their number. */
#ifndef GS_BENCH_WIRE_H
#define GS_BENCH_WIRE_H

#include <gossamer/clock.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_MTU = 1500, WIRE_CAPACITY = 1024 };

struct wire_packet {
    uint64_t arrival_ns;
    size_t n;
    uint8_t bytes[WIRE_MTU];
};

struct wire {
    struct wire_packet *packets; /* ring buffer of WIRE_CAPACITY packets */
    unsigned first, count;
    uint64_t delay_ns;
    double loss;                       /* probability that a packet is lost */
    uint64_t random;                   /* state of the random generator */
    uint64_t passed, lost, overflowed; /* packets; overflowed: dropped by a full wire */
};

/* Returns 0 or -ENOMEM. */
int wire_init(struct wire *wire, uint64_t delay_ns, double loss, uint64_t seed);
void wire_done(struct wire *wire);

/* Send a packet of at most WIRE_MTU bytes, which are copied. */
void wire_send(struct wire *wire, const uint8_t *bytes, size_t n, uint64_t now_ns);

/* Returns when the next packet arrives, or GS_NEVER if none is in transit. */
uint64_t wire_next_arrival(const struct wire *wire);

/* Remove the next packet, which must exist; it is valid until the next wire_send. */
const struct wire_packet *wire_receive(struct wire *wire);

#endif
