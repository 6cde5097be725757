/* A user-level thread that writes what the threads of its worker have collected for the access
 * log. It has a low priority, so that many lines are written at once. */
#ifndef GS_SERVE_LOG_THREAD_H
#define GS_SERVE_LOG_THREAD_H

#include "serve/shard.h"

#include <gossamer/thread.h>
#include <stdatomic.h>

struct serve_log_thread {
    struct serve_shard *shard;
    struct gs_thread *thread; /* NULL: not started */
    atomic_bool is_over;
};

/* Start it on this worker (from 1 on), for the log of this shard. Returns 0 or -errno. */
GS_MUST_CHECK int serve_log_thread_start(struct serve_log_thread *log, struct serve_shard *shard,
                                         unsigned worker);

/* End it, and wait until it has ended. It may not have been started. The last lines are written by
 * serve_shard_done. */
void serve_log_thread_stop(struct serve_log_thread *log);

#endif
