/* The moments of one request, and the times that follow from them:
 *
 *       due    free   begun                     sent     first byte     end
 *        |       |      |                        |           |           |
 *        |       |-lag--|-------- connect -------|-----------|           |
 *        |                                       |------- service -------|
 *        |------------------------- response ----------------------------|
 *
 * A request that is due while all connections are busy waits until one is free. That is part of the
 * response time: whoever came then would have waited so long. What passes after the request is due
 * and a connection free, and before anything is sent, is the lag: this program's own fault. A closed
 * loop has no requests that are due: the response time is the service time. */
#ifndef GS_LOAD_MOMENTS_H
#define GS_LOAD_MOMENTS_H

#include "load/samples.h"

struct load_moments {
    uint64_t due_ns, free_ns; /* LOAD_NO_TIME in a closed loop */
    uint64_t begun_ns, sent_ns;
    uint64_t first_byte_ns, end_ns; /* LOAD_NO_TIME: it has not come */
};

/* connect_ns: how long that took, or LOAD_NO_TIME. Times that end with a moment that has not come
 * are of no meaning. */
struct load_sample gs_load_moments_sample(const struct load_moments *moments, uint64_t connect_ns);

/* Whether the request had to wait for a connection. */
static inline bool gs_load_moments_queued(const struct load_moments *moments)
{
    return moments->due_ns < moments->free_ns;
}

#endif
