/* A worker: one kernel thread of the run, with its share of the clients. A client is a user thread
 * that stays on its worker, so that the state below needs no lock, except where stated. */
#ifndef GS_LOAD_WORKER_H
#define GS_LOAD_WORKER_H

#include "load/busy_poll.h"
#include "load/metrics.h"
#include "load/schedule.h"
#include "load/target.h"

#include <gossamer/thread.h>

struct load_worker {
    const struct load_settings *settings;
    const struct load_target *target;
    struct load_share share;
    struct gs_thread **clients;
    size_t client_count, clients_started;
    uint64_t *expected_lengths; /* for each request of the target; LOAD_ANY, LOAD_FIRST */
    size_t next_request;
    uint64_t sources_used;
    uint64_t requests_left; /* of -n: requests not reserved yet */
    bool has_request_limit; /* -n is given */
    bool is_finished;       /* no request may start, and no outcome is counted */
    bool is_head;
    _Atomic(bool) has_answer; /* a byte of a response was received, even during the warm-up */
    struct load_schedule schedule;
    uint64_t last_start_ns, last_scheduled_ns; /* of the last measured request */
    uint64_t start_lag_ns;                     /* lag of the schedule at start_ns */
    struct load_busy_poll poll;
    uint64_t measure_ns, end_ns; /* the measured time as planned */
    uint64_t start_ns, ended_ns; /* the measured time as it was; 0 until then */
    uint64_t cpu_ns, idle_ns;    /* of this kernel thread, in the measured time */
    struct load_metrics metrics; /* the counters may be read by other threads */
};

/* *worker may be in memory shared between processes. The caller calls gs_load_worker_done in any
 * case, which may also be called on zeroed memory. Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_worker_init(struct load_worker *worker,
                                      const struct load_settings *settings,
                                      const struct load_target *target, struct load_share share);
void gs_load_worker_done(struct load_worker *worker);

/* Run the clients from start_ns until the duration is over, all requests are done, or the calling
 * thread is canceled. The calling user thread stays on this kernel thread, which is the number-th
 * worker of the runtime. Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_worker_run(struct load_worker *worker, unsigned number,
                                     uint64_t start_ns);

/* Open loop, after the run: returns the rate at which the worker sent requests in the measured
 * time. It is the worker's share of the configured rate, and less if all its clients were busy when
 * requests became due. */
double gs_load_worker_sent_rate(const struct load_worker *worker);

/* ---- For clients ---- */

/* The function of a client's user thread; its argument is the worker. */
void *gs_load_client_run(void *worker);

/* Returns whether another request may start at at_ns. *ret_is_measured: whether that is in the
 * measured time, so that the request counts towards -n. */
bool gs_load_worker_reserve_request(struct load_worker *worker, uint64_t at_ns,
                                    bool *ret_is_measured);

/* Whether at_ns is in the measured time. */
bool gs_load_worker_is_measuring(const struct load_worker *worker, uint64_t at_ns);

/* Whether the outcome of a request is counted. With -d, outcomes in the measured time are, even of
 * requests that started during the warm-up: they make up for those in flight at the end of the run,
 * which are not. With -n, those of requests that started in the measured time are. */
bool gs_load_worker_is_counted(const struct load_worker *worker, bool is_measured, uint64_t end_ns);

#endif
