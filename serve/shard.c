#include "serve/shard.h"

#include "serve/connection.h"
#include "serve/server.h"

#include <errno.h>
#include <stdlib.h>

/* How old the wall-clock time may be that goes into Date. */
#define WALL_NS (GS_SECOND / 4)

static int init(struct serve_shard *shard, const struct serve_server *server,
                struct gs_http_counts *counts)
{
    struct gs_http_options options = server->options->http;
    shard->wall_until_ns = 0;
    shard->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    shard->log.fd = server->log_fd;
    shard->log.has_failed = server->log_state ? &server->log_state->has_failed : NULL;
    options.makers = server->makers;
    options.maker_count = server->maker_count;
    if (server->log_fd >= 0) {
        options.log = serve_connection_log;
        options.log_data = &shard->log;
    }
    return gs_http_service_new(&options, server->root_fd, counts, &shard->service);
}

int serve_shard_init(struct serve_shard *shard, const struct serve_server *server, unsigned index,
                     bool is_shared)
{
    shard->is_shared = is_shared;
    shard->follows = NULL;
    shard->sum = NULL;
    return init(shard, server, &server->counts[index].http);
}

int serve_shard_init_own(struct serve_shard *shard, struct serve_server *server, unsigned index)
{
    shard->is_shared = false;
    shard->follows = server;
    shard->own = (struct gs_http_counts){0};
    shard->sum = &server->counts[index].http;
    return init(shard, server, &shard->own);
}

void serve_shard_done(struct serve_shard *shard)
{
    if (!shard->service)
        return;
    serve_log_flush(&shard->log);
    gs_http_service_free(shard->service);
}

void serve_shard_tell_wall(struct serve_shard *shard, uint64_t now_ns)
{
    gs_http_service_set_wall(shard->service, gs_clock_now(), gs_clock_wall());
    shard->wall_until_ns = now_ns + WALL_NS;
}

void serve_shard_flush_log(struct serve_shard *shard)
{
    if (shard->is_shared)
        pthread_mutex_lock(&shard->lock);
    serve_log_flush(&shard->log);
    serve_shard_unlock(shard);
}

/* Its members are all such numbers. */
static void add_up(struct serve_shard *shard)
{
    uint64_t *own = (uint64_t *)&shard->own, *sum = (uint64_t *)shard->sum;
    for (size_t i = 0; i < sizeof shard->own / sizeof *own; i++)
        if (own[i])
            __atomic_fetch_add(&sum[i], own[i], __ATOMIC_RELAXED);
    shard->own = (struct gs_http_counts){0};
}

void serve_shard_settle(struct serve_shard *shard)
{
    if (shard->follows)
        serve_follow_log(shard->follows);
    if (shard->log.fd >= 0)
        serve_shard_flush_log(shard);
    if (shard->sum)
        add_up(shard);
}

int serve_shards_init(struct serve_shards *shards, struct serve_server *server)
{
    uint64_t processors = serve_processors();
    unsigned count = server->workers < processors ? server->workers : (unsigned)processors;
    shards->items = calloc(count, sizeof *shards->items);
    int err = shards->items ? 0 : -ENOMEM;
    for (; !err && shards->count < count; shards->count++)
        err = serve_shard_init(&shards->items[shards->count], server, shards->count, true);
    return err;
}

void serve_shards_done(struct serve_shards *shards)
{
    for (unsigned i = 0; i < shards->count; i++)
        serve_shard_done(&shards->items[i]);
    free(shards->items);
}
