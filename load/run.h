/* The run: kernel threads that each drive their share of the clients, and one that waits. */
#ifndef GS_LOAD_RUN_H
#define GS_LOAD_RUN_H

#include "load/settings.h"
#include "load/tally.h"
#include "load/target.h"

struct load_result {
    struct load_tally tally; /* of all threads */
    uint64_t begun_wall_ns;  /* when, since 1970 */
    double seconds;          /* the measured time */
    double client_cpu_s;     /* what it cost this program */
    bool is_interrupted;     /* by SIGINT or SIGTERM, which end the run early */
};

/* Returns 0 or, after a line on stderr, -errno. */
GS_MUST_CHECK int gs_load_run(const struct load_settings *settings,
                              const struct load_target *target, struct load_result *ret_result);
void gs_load_result_done(struct load_result *result);

/* Requests, and their mean time on a connection and for connecting, over the time: how many were
 * under way on average. It falls short of the connections asked for if the accept queue, or this
 * program, was the limit. */
double gs_load_measured(const struct load_result *result);

#endif
