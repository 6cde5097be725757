#include "load/schedule.h"

#include <gossamer/clock.h>

#include <math.h>

/* Sebastiano Vigna's splitmix64: each state gives 64 random bits, and any state will do. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void gs_load_schedule_init(struct load_schedule *schedule, const struct load_settings *settings,
                           struct load_share share, uint64_t start_ns)
{
    *schedule = (struct load_schedule){.rate = settings->rate,
                                       .share = share,
                                       .start_ns = start_ns,
                                       .is_poisson = settings->is_poisson};
    /* Shares that follow each other begin far apart. */
    uint64_t of_share = settings->seed ^ (uint64_t)share.index << 32;
    schedule->random = next_random(&of_share);
}

/* Exponentially distributed, by inversion. */
static uint64_t next_at_random(struct load_schedule *schedule)
{
    double chance = (double)(next_random(&schedule->random) >> 11) * 0x1p-53;
    double mean_ns = (double)GS_SECOND * (double)schedule->share.count / (double)schedule->rate;
    schedule->since_ns -= log1p(-chance) * mean_ns;
    return schedule->start_ns + (uint64_t)schedule->since_ns;
}

uint64_t gs_load_schedule_next(struct load_schedule *schedule)
{
    if (schedule->is_poisson)
        return next_at_random(schedule);
    unsigned __int128 index =
        (unsigned __int128)schedule->count++ * schedule->share.count + schedule->share.index;
    return schedule->start_ns + (uint64_t)(index * GS_SECOND / schedule->rate);
}
