/* One kernel thread of the run: a loop, and its share of the clients. */
#ifndef GS_LOAD_WORKER_H
#define GS_LOAD_WORKER_H

#include "load/client.h"
#include "load/pace.h"
#include "load/tally.h"
#include "load/target.h"

#include <gossamer/loop.h>

enum { LOAD_BUFFER = 64 * 1024 };

/* What a right answer looks like; LOAD_ANY where that is not known yet. */
struct load_expected {
    uint64_t status, length;
};

struct load_worker {
    const struct load_settings *settings;
    const struct load_target *target;
    struct gs_loop *loop;
    struct load_client *clients;
    size_t client_count, clients_started, clients_active;
    struct load_expected *expected; /* for each request of the target */
    char *buffer;                   /* LOAD_BUFFER: what is received, and not kept */
    size_t next_request;
    uint64_t sources_used;
    uint64_t left;     /* of -n, requests that were not begun yet */
    bool is_limited;   /* by -n */
    bool is_measuring; /* the warm-up is over, the run is not */
    bool is_over;      /* the run is to end */
    bool is_head;
    int failure; /* why a client could not begin: -errno */
    struct load_tally tally;
    struct load_pace pace;
    uint64_t started_ns;
    uint64_t begun_ns, ended_ns; /* the measured time */
    uint64_t cpu_ns;             /* of this thread, in the measured time */
    struct gs_timer starter, measure, end;
    struct gs_async stop;
};

/* What part of the run a worker takes: the index-th of count. */
struct load_share {
    size_t index, count;
};

/* Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_worker_init(struct load_worker *worker,
                                      const struct load_settings *settings,
                                      const struct load_target *target, struct load_share share);
void gs_load_worker_done(struct load_worker *worker);

/* Run until the duration is over, all requests are done, or gs_load_worker_stop. Returns 0 or
 * -errno. */
GS_MUST_CHECK int gs_load_worker_run(struct load_worker *worker);

/* From any thread. */
void gs_load_worker_stop(struct load_worker *worker);

/* ---- For clients ---- */

/* Whether another request may begin, and whether it is one of those of -n. */
bool gs_load_worker_claim(struct load_worker *worker, bool *ret_is_counted);

/* Whether the outcome of a request counts. With -d, what ends in the measured time does, even if it
 * began in the warm-up, as do, to make up for it, not those that the end of the run cuts off; with
 * -n, what was counted when it began. */
bool gs_load_worker_counts(const struct load_worker *worker, bool is_counted);

/* A client has ended; the run ends with the last one. */
void gs_load_worker_retire(struct load_worker *worker);

#endif
