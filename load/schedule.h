/* The schedule of an open loop: when each request is to be sent, independently of the responses to
 * earlier ones.
 *
 *     gs_load_schedule_init(&schedule, settings, share, start_ns);
 *     while (...)
 *         scheduled_ns = gs_load_schedule_next(&schedule);
 *
 * Each worker has a schedule for its share of the rate. With constant spacing the schedules of all
 * shares interleave: the request of share i of n follows that of share i - 1. With random spacing
 * each share is a Poisson process with a random sequence of its own, and so is their sum. The same
 * seed gives the same times. */
#ifndef GS_LOAD_SCHEDULE_H
#define GS_LOAD_SCHEDULE_H

#include "load/settings.h"

#include <stddef.h>
#include <stdint.h>

/* A worker's share of the load: the index-th of count. */
struct load_share {
    size_t index, count;
};

/* The shares add up to `total`, and differ by at most one. */
static inline uint64_t gs_load_share_of(uint64_t total, struct load_share share)
{
    return total / share.count + (share.index < total % share.count);
}

struct load_schedule {
    double rate; /* of all shares together; 0: closed loop, no schedule */
    struct load_share share;
    uint64_t start_ns;
    uint64_t count; /* times returned so far; constant spacing only */
    bool is_poisson;
    uint64_t random;
    double elapsed_ns; /* from start_ns to the last time returned; random spacing only */
};

void gs_load_schedule_init(struct load_schedule *schedule, const struct load_settings *settings,
                           struct load_share share, uint64_t start_ns);

/* Returns the time of the next request; the times do not decrease. */
uint64_t gs_load_schedule_next(struct load_schedule *schedule);

/* Returns how long the next request has been due: 0 unless all clients are busy. */
uint64_t gs_load_schedule_lag(const struct load_schedule *schedule, uint64_t now_ns);

#endif
