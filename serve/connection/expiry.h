/* Releasing cached files that nobody asks for, in time, also when no request comes: the loop, the
 * thread or the process that does it waits only while something is cached (gs_http_service_expire).
 *
 *     event, eager, quad, stage     the loop of each worker: struct serve_expiry
 *     thread, pool, queue           the loop of the main thread, for all shards
 *     user                          a user-level thread for each worker: shard_thread.h
 *     fork, prefork                 each process, when it waits: serve_shard_tend */
#ifndef GS_SERVE_EXPIRY_H
#define GS_SERVE_EXPIRY_H

#include "serve/connection/shard.h"

#include <gossamer/loop.h>

/* In the caller's storage, like the shard. */
struct serve_expiry {
    struct serve_shard *shard;
    struct serve_expiry *next; /* in the server's list */
    struct gs_async cached;
    struct gs_timer due;
};

/* Have the loop do it. Another kernel thread may be using the shard, if that is shared. */
void serve_expiry_start(struct serve_expiry *expiry, struct serve_shard *shard,
                        struct gs_loop *loop);

/* Before the loop is freed, if the shard is used after that. */
void serve_expiry_stop(struct serve_expiry *expiry);

/* Have the main thread do it while it is in serve_wait. */
void serve_expiry_by_main(struct serve_expiry *expiry, struct serve_shard *shard,
                          struct serve_server *server);

#endif
