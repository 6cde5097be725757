/* What the connections that one worker accepted share: their HTTP service, with the file cache and
 * the Date, and a writer of the access log.
 *
 * In most architectures a connection may move to another kernel thread than the one that accepted
 * it. Then the shard is locked while HTTP runs, for a few instructions: never across a wait, and
 * never while a file is loaded or sent. Where one kernel thread does everything for its
 * connections, there is no lock. */
#ifndef GS_SERVE_SHARD_H
#define GS_SERVE_SHARD_H

#include "serve/log/access_log.h"

#include <gossamer/http.h>
#include <gossamer/sync.h>
#include <pthread.h>
#include <stdatomic.h>

struct serve_certificates;
struct serve_expiry;
struct serve_forwarded;
struct serve_networks;
struct serve_root;
struct serve_server;

struct serve_shard {
    struct gs_http_service *service;
    uint64_t refresh_ns;            /* when to call serve_shard_refresh next */
    bool is_shared;                 /* by kernel threads: locked */
    const struct serve_root *roots; /* of the sites */
    unsigned root_count, next_root;
    pthread_mutex_t lock;
    /* Whose log another process may reopen; NULL: this process does it. */
    struct serve_server *log_server;
    struct serve_drain *drain;               /* NULL: it never drains */
    const _Atomic(uint64_t) *drain_until_ns; /* user: when connections are aborted, or GS_NEVER */
    struct serve_certificates *certificates; /* of connections over TLS */
    struct gs_semaphore handshakes;          /* user: one of them looks for its turn */
    bool redirects;                          /* connections without it */
    const struct serve_networks *proxies;    /* that name their clients; NULL: none */
    const struct serve_forwarded *forwarded; /* NULL: no field that names a client is believed */
    struct serve_refusals *refusals; /* also of failed transfers; NULL: they are not reported */
    struct gs_http_counts own, *sum; /* not in the sum yet; NULL: the service counts there */
    void (*on_cached)(void *data);   /* NULL: nobody expires what is cached */
    void *cached_data;
    bool is_expiring; /* on_cached was called, and something has been cached since */
    struct serve_log_writer log;
};

/* For the worker `index` of the server. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_shard_init(struct serve_shard *shard, struct serve_server *server,
                                   unsigned index, bool is_shared);

/* The same for one of many processes: it counts in its own memory, and serve_shard_flush adds that
 * to the worker's counts. */
GS_MUST_CHECK int serve_shard_init_own(struct serve_shard *shard, struct serve_server *server,
                                       unsigned index);

/* Called before a wait: reopen the log if it was rotated, write its lines, and publish the counts
 * of a process. */
void serve_shard_flush(struct serve_shard *shard);

/* After its last connection; the rest of the log is written. One that is all zero is accepted. */
void serve_shard_done(struct serve_shard *shard);

/* ---- Expiry of what is cached (expiry.h) ---- */

/* Have on_cached called, with the shard locked, when something is cached, once until
 * serve_shard_expire has returned GS_NEVER; at once if something is cached already. */
void serve_shard_watch_cache(struct serve_shard *shard, void (*on_cached)(void *data), void *data);

/* The shard is locked, and something may have been cached. */
void serve_shard_note_cached(struct serve_shard *shard);

/* Release the cached files that are due. Returns when to do so next, or GS_NEVER: nothing is
 * cached. */
uint64_t serve_shard_expire(struct serve_shard *shard, uint64_t now_ns);

/* The same in a process that has the shard for itself, each time before it waits; for other shards
 * and for NULL, GS_NEVER is returned. */
uint64_t serve_shard_tend(struct serve_shard *shard, uint64_t now_ns);

/* ---- Use ---- */

/* Pass the wall-clock time to the service, and look whether the roots' paths name another
 * directory. The shard is locked. */
void serve_shard_refresh(struct serve_shard *shard, uint64_t now_ns);

static inline void serve_shard_lock(struct serve_shard *shard)
{
    if (shard->is_shared)
        pthread_mutex_lock(&shard->lock);
}

static inline void serve_shard_unlock(struct serve_shard *shard)
{
    if (shard->is_shared)
        pthread_mutex_unlock(&shard->lock);
}

/* Around calls of HTTP that use what the connections share: the shard is locked, and its service
 * has the wall-clock time and the current root. */
static inline void serve_shard_enter(struct serve_shard *shard, uint64_t now_ns)
{
    serve_shard_lock(shard);
    if (now_ns >= shard->refresh_ns)
        serve_shard_refresh(shard, now_ns);
}

static inline void serve_shard_leave(struct serve_shard *shard)
{
    serve_shard_unlock(shard);
}

/* A shard for each processor, to be shared by many kernel threads; the main thread expires them. */
struct serve_shards {
    struct serve_shard *items;
    struct serve_expiry *expiries;
    unsigned count;
};

/* Returns 0 or -ENOMEM. serve_shards_done must be called in any case; it accepts one that is all
 * zero. */
GS_MUST_CHECK int serve_shards_init(struct serve_shards *shards, struct serve_server *server);
void serve_shards_done(struct serve_shards *shards);

/* Write the lines of the log. Returns whether none is left. */
bool serve_shard_flush_log(struct serve_shard *shard);

#endif
