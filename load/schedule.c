#include "load/schedule.h"

#include <gossamer/clock.h>

#include <math.h>

/* Sebastiano Vigna's splitmix64: 64 random bits per call; every state is valid. */
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
    /* Hashing separates the random sequences of adjacent shares. */
    uint64_t state = settings->seed ^ (uint64_t)share.index << 32;
    schedule->random = next_random(&state);
}

/* A rate may be so low that a time is beyond the clock's range. */
static uint64_t time_after(const struct load_schedule *schedule, long double elapsed_ns)
{
    uint64_t ns = elapsed_ns < 0x1p63L ? (uint64_t)elapsed_ns : GS_NEVER;
    return gs_clock_after(schedule->start_ns, ns);
}

/* Intervals are exponentially distributed, by inversion. */
static uint64_t next_random_time(struct load_schedule *schedule)
{
    double uniform = (double)(next_random(&schedule->random) >> 11) * 0x1p-53;
    double mean_ns = (double)GS_SECOND * (double)schedule->share.count / schedule->rate;
    schedule->elapsed_ns -= log1p(-uniform) * mean_ns;
    return time_after(schedule, schedule->elapsed_ns);
}

uint64_t gs_load_schedule_next(struct load_schedule *schedule)
{
    if (schedule->is_poisson)
        return next_random_time(schedule);
    unsigned __int128 index =
        (unsigned __int128)schedule->count++ * schedule->share.count + schedule->share.index;
    /* A long double holds a nanosecond in centuries. */
    return time_after(schedule, (long double)(index * GS_SECOND) / schedule->rate);
}

uint64_t gs_load_schedule_lag(const struct load_schedule *schedule, uint64_t now_ns)
{
    struct load_schedule copy = *schedule;
    uint64_t due_ns = gs_load_schedule_next(&copy);
    return now_ns > due_ns ? now_ns - due_ns : 0;
}
