/* What the connections that one worker accepted share: their HTTP service, with the page cache and the Date, and a part of the
 * access log.
 *
 * In most architectures a connection may go on in another kernel thread than the one that accepted it. Then the shard is
 * locked for as long as HTTP takes, which is a few instructions: never across a wait, and never while a file is loaded or
 * sent. Where one kernel thread does everything for its connections, there is no lock. */
#ifndef GS_SERVE_SHARD_H
#define GS_SERVE_SHARD_H

#include "serve/access_log.h"

#include <gossamer/http.h>
#include <pthread.h>

struct serve_server;

struct serve_shard {
    struct gs_http_service *service;
    uint64_t wall_until_ns; /* when the service is told the wall clock again */
    bool is_shared;         /* by kernel threads */
    pthread_mutex_t lock;
    struct serve_server
        *follows; /* whose log is opened anew by another process; NULL: by this one */
    struct gs_http_counts own, *sum; /* what is not in the sum yet; NULL: all is */
    struct serve_log_writer log;
};

/* For worker `index` of the server. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_shard_init(struct serve_shard *shard, const struct serve_server *server,
                                   unsigned index, bool is_shared);

/* The same for one of many processes: it counts for itself, and serve_shard_settle adds that to what the worker counts. */
GS_MUST_CHECK int serve_shard_init_own(struct serve_shard *shard, struct serve_server *server,
                                       unsigned index);

/* Before a wait: write the log out, and add up what was counted. */
void serve_shard_settle(struct serve_shard *shard);

/* After the last of its connections; what is left of the log is written. One that is all zero is accepted. */
void serve_shard_done(struct serve_shard *shard);

/* Tell the service what the wall clock shows, if it is time. The shard is locked. */
void serve_shard_tell_wall(struct serve_shard *shard, uint64_t now_ns);

static inline void serve_shard_lock(struct serve_shard *shard, uint64_t now_ns)
{
    if (shard->is_shared)
        pthread_mutex_lock(&shard->lock);
    if (now_ns >= shard->wall_until_ns)
        serve_shard_tell_wall(shard, now_ns);
}

static inline void serve_shard_unlock(struct serve_shard *shard)
{
    if (shard->is_shared)
        pthread_mutex_unlock(&shard->lock);
}

/* A shard for each processor, to be shared by many kernel threads. */
struct serve_shards {
    struct serve_shard *items;
    unsigned count;
};

/* Returns 0 or -ENOMEM. Ended by serve_shards_done in any case, which accepts one that is all zero. */
GS_MUST_CHECK int serve_shards_init(struct serve_shards *shards, struct serve_server *server);
void serve_shards_done(struct serve_shards *shards);

/* Write the log out. */
void serve_shard_flush_log(struct serve_shard *shard);

#endif
