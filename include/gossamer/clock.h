/* Time, in nanoseconds.
 *
 *     uint64_t deadline_ns = gs_clock_now() + 5 * GS_SECOND;
 *
 * Deadlines are points on the monotonic clock, everywhere; wall-clock time is for people and for
 * HTTP dates. Safe from any kernel thread and from signal handlers.
 */
#ifndef GOSSAMER_CLOCK_H
#define GOSSAMER_CLOCK_H

#include <gossamer/api.h>
#include <stdint.h>

#define GS_MICROSECOND UINT64_C(1000)
#define GS_MILLISECOND UINT64_C(1000000)
#define GS_SECOND UINT64_C(1000000000)

/* A deadline that never comes. */
#define GS_NEVER UINT64_MAX

/* CLOCK_MONOTONIC. */
GS_API uint64_t gs_clock_now(void);

/* CLOCK_REALTIME: since 1970-01-01 UTC. */
GS_API uint64_t gs_clock_wall(void);

/* start_ns + wait_ns, or GS_NEVER where the sum does not fit. */
static inline uint64_t gs_clock_after(uint64_t start_ns, uint64_t wait_ns)
{
    return wait_ns > GS_NEVER - start_ns ? GS_NEVER : start_ns + wait_ns;
}

#endif
