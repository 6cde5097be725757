/* Calls on a worker that may wait: what the receiver does for them. */
#ifndef GS_COMPAT_PTHREAD_HAND_OVER_H
#define GS_COMPAT_PTHREAD_HAND_OVER_H

#include <stdbool.h>
#include <stdint.h>

struct carrier;

/* What the receiver knows of the call that a carrier is in. */
struct observed_call {
    unsigned count, kicks;
    uint64_t since_ns;
};

/* Interrupt the carrier's call if it takes too long. Returns whether it is in one. */
bool gs_hand_over_tick(struct carrier *carrier, struct observed_call *seen, uint64_t now_ns);

#endif
