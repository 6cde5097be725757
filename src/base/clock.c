#include <gossamer/clock.h>

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * GS_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t gs_clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t gs_clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}
