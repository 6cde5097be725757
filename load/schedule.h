/* When the requests of an open loop are due, whatever the answers to those before do.
 *
 *     gs_load_schedule_init(&schedule, settings, share, start_ns);
 *     while (...)
 *         due_ns = gs_load_schedule_next(&schedule);
 *
 * At constant spacing, the schedules of all shares together are one: the request of share i of n
 * follows that of share i - 1. At random, each share is a Poisson process of a random sequence of
 * its own, and so is their sum. The same seed makes the same times. */
#ifndef GS_LOAD_SCHEDULE_H
#define GS_LOAD_SCHEDULE_H

#include "load/settings.h"
#include "load/share.h"

struct load_schedule {
    uint64_t rate; /* of all shares together; 0: a closed loop, which has no schedule */
    struct load_share share;
    uint64_t start_ns;
    uint64_t count; /* requests so far */
    bool is_poisson;
    uint64_t random;
    double since_ns; /* from the start to the last request */
};

void gs_load_schedule_init(struct load_schedule *schedule, const struct load_settings *settings,
                           struct load_share share, uint64_t start_ns);

/* When the next request is due: never before the one before. */
uint64_t gs_load_schedule_next(struct load_schedule *schedule);

#endif
