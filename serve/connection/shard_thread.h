/* A user-level thread that does for the threads of its worker what none of them waits for: it
 * writes what they have collected for the access log, and releases cached files that nobody asks
 * for. It has a low priority, so that many lines are written at once. */
#ifndef GS_SERVE_SHARD_THREAD_H
#define GS_SERVE_SHARD_THREAD_H

#include "serve/connection/shard.h"

#include <gossamer/thread.h>
#include <stdatomic.h>

struct serve_shard_thread {
    struct serve_shard *shard;
    struct gs_thread *thread; /* NULL: not started */
    atomic_bool is_over;
};

/* Start it on this worker (from 1 on), for this shard. Returns 0 or -errno. */
GS_MUST_CHECK int serve_shard_thread_start(struct serve_shard_thread *tending,
                                           struct serve_shard *shard, unsigned worker);

/* End it, and wait until it has ended, after the last connection. It may not have been started. The
 * last lines are written by serve_shard_done. */
void serve_shard_thread_stop(struct serve_shard_thread *tending);

#endif
