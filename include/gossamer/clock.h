/* Time, in nanoseconds.
 *
 *     uint64_t deadline_ns = gs_clock_now() + 5 * GS_SECOND;
 *
 * Every deadline is a point on the monotonic clock. The wall clock is for people and for HTTP
 * dates.
 *
 * Threads: all functions may be called from any kernel thread and from signal handlers.
 */
#ifndef GOSSAMER_CLOCK_H
#define GOSSAMER_CLOCK_H

#include <gossamer/api.h>
#include <stdint.h>

GS_BEGIN_DECLS

#define GS_MICROSECOND UINT64_C(1000)
#define GS_MILLISECOND UINT64_C(1000000)
#define GS_SECOND UINT64_C(1000000000)

/* No deadline: wait without limit. */
#define GS_NEVER UINT64_MAX

/* Returns the time of CLOCK_MONOTONIC. */
GS_API uint64_t gs_clock_now(void);

/* Returns the time of CLOCK_REALTIME: nanoseconds since 1970-01-01 UTC. */
GS_API uint64_t gs_clock_wall(void);

/* Returns start_ns + wait_ns, or GS_NEVER if the sum overflows. */
static inline uint64_t gs_clock_after(uint64_t start_ns, uint64_t wait_ns)
{
    return wait_ns > GS_NEVER - start_ns ? GS_NEVER : start_ns + wait_ns;
}

GS_END_DECLS

#endif
