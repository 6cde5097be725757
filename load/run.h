/* A run from start to end, and its result. */
#ifndef GS_LOAD_RUN_H
#define GS_LOAD_RUN_H

#include "load/metrics.h"
#include "load/settings.h"
#include "load/target.h"

enum { LOAD_REASON_SIZE = 160 };

struct load_result {
    struct load_metrics metrics;           /* of all workers */
    uint64_t start_wall_ns;                /* since 1970 */
    double seconds;                        /* measured time */
    double client_cpu_s;                   /* CPU time of the workers in the measured time */
    double max_utilization;                /* highest busy fraction of a worker, 0 to 1 */
    double sent_rate_per_s;                /* open loop: see gs_load_worker_sent_rate */
    bool is_interrupted;                   /* SIGINT or SIGTERM ended the run early */
    bool has_given_up;                     /* the run ended early, as no response arrived */
    bool is_invalid;                       /* the measurement does not describe the server */
    char invalid_reason[LOAD_REASON_SIZE]; /* "" if the run is valid */
};

/* gs_load_settings_choose_processes has been called for the settings. Returns 0 or, after printing
 * a line to stderr, -errno. */
GS_MUST_CHECK int gs_load_run(const struct load_settings *settings,
                              const struct load_target *target, struct load_result *ret_result);
void gs_load_result_done(struct load_result *result);

/* The mean number of requests in flight: the sum of connect and service times over the measured
 * time. It is less than the number of connections if the accept queue or this program was the
 * bottleneck. */
double gs_load_measured_load(const struct load_result *result);

/* Whether requests of an open loop were sent at less than 99 % of the configured rate, because the
 * server left all connections busy. */
bool gs_load_misses_rate(const struct load_result *result, const struct load_settings *settings);

/* Mark an open loop invalid if this program was the bottleneck: requests were sent late though
 * connections were free, or a worker was hardly ever idle. */
void gs_load_result_validate(struct load_result *result, const struct load_settings *settings);

#endif
