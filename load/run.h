/* The run: all workers, begun, ended and added up. */
#ifndef GS_LOAD_RUN_H
#define GS_LOAD_RUN_H

#include "load/settings.h"
#include "load/tally.h"
#include "load/target.h"

enum { LOAD_REASON = 160 };

struct load_result {
    struct load_tally tally;       /* of all workers */
    uint64_t begun_wall_ns;        /* when, since 1970 */
    double seconds;                /* the measured time */
    double client_cpu_s;           /* what it cost this program */
    double busiest;                /* of all workers, the part of the time in which it had work */
    bool is_interrupted;           /* by SIGINT or SIGTERM, which end the run early */
    bool is_void;                  /* what was measured is not what was asked for */
    char void_reason[LOAD_REASON]; /* a sentence; "": it is not void */
};

/* settings: as gs_load_limit_check has left them. Returns 0 or, after a line on stderr, -errno. */
GS_MUST_CHECK int gs_load_run(const struct load_settings *settings,
                              const struct load_target *target, struct load_result *ret_result);
void gs_load_result_done(struct load_result *result);

/* Requests, and their mean time on a connection and for connecting, over the time: how many were
 * under way on average. It falls short of the connections asked for if the accept queue, or this
 * program, was the limit. */
double gs_load_measured(const struct load_result *result);

/* Declare an open loop void of which this program was the limit: requests were sent late though
 * connections were free, or a worker hardly ever had nothing to do. */
void gs_load_result_judge(struct load_result *result, const struct load_settings *settings);

#endif
