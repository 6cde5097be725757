/* One kernel thread of the run, with its share of the clients. All of its user threads stay on it:
 * what is here is theirs alone, without a lock, but for what the comments say. */
#ifndef GS_LOAD_WORKER_H
#define GS_LOAD_WORKER_H

#include "load/pace.h"
#include "load/schedule.h"
#include "load/tally.h"
#include "load/target.h"

#include <gossamer/thread.h>

enum { LOAD_BUFFER = 64 * 1024 };

/* What a right answer looks like; LOAD_ANY where that is not known yet. */
struct load_expected {
    uint64_t status, length;
};

struct load_worker {
    const struct load_settings *settings;
    const struct load_target *target;
    struct load_share share;
    struct gs_thread **clients;
    size_t client_count, clients_started;
    struct load_expected *expected; /* for each request of the target */
    char *buffer;                   /* LOAD_BUFFER: what is received, and not kept */
    size_t next_request;
    uint64_t sources_used;
    uint64_t left;   /* of -n, requests that were not begun yet */
    bool is_limited; /* by -n */
    bool is_over;    /* no request is to begin, nothing counts any more */
    bool is_head;
    struct load_schedule schedule;
    struct load_pace pace;
    uint64_t measure_ns, end_ns; /* the measured time, as it was planned */
    uint64_t begun_ns, ended_ns; /* as it was; 0: it has not begun, or ended */
    uint64_t cpu_ns, idle_ns;    /* of this kernel thread, in the measured time */
    struct load_tally tally;     /* the first counts are read by others meanwhile */
};

/* *worker may be shared by processes. gs_load_worker_done is to be called in any case, and may be
 * called without for zeroed memory. Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_worker_init(struct load_worker *worker,
                                      const struct load_settings *settings,
                                      const struct load_target *target, struct load_share share);
void gs_load_worker_done(struct load_worker *worker);

/* From start_ns on, until the duration is over, all requests are done, or the calling thread is
 * cancelled. By a thread that stays on this kernel thread, which is the number-th of this process.
 * Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_worker_run(struct load_worker *worker, unsigned number,
                                     uint64_t start_ns);

/* ---- For clients ---- */

/* Whether another request may begin at `at_ns`, and whether it is one of those of -n. */
bool gs_load_worker_claim(struct load_worker *worker, uint64_t at_ns, bool *ret_is_counted);

/* Whether that moment is in the measured time. */
bool gs_load_worker_measures(const struct load_worker *worker, uint64_t at_ns);

/* Whether the outcome of a request counts. With -d, what ends in the measured time does, even if it
 * began in the warm-up, as do, to make up for it, not those that the end of the run cuts off; with
 * -n, what was counted when it began. */
bool gs_load_worker_counts(const struct load_worker *worker, bool is_counted, uint64_t end_ns);

#endif
