#include "serve/connection/expiry.h"

#include "serve/operations/server.h"

static void expire(struct serve_expiry *expiry)
{
    uint64_t next_ns = serve_shard_expire(expiry->shard, gs_loop_now(expiry->due.watcher.loop));
    if (next_ns != GS_NEVER && gs_timer_start(&expiry->due, next_ns))
        serve_shard_watch_cache(expiry->shard, expiry->shard->on_cached, expiry);
}

static void on_cached(struct gs_async *async)
{
    expire(async->watcher.data);
}

static void on_due(struct gs_timer *timer)
{
    expire(timer->watcher.data);
}

static void wake_loop(void *data)
{
    struct serve_expiry *expiry = data;
    gs_async_send(&expiry->cached);
}

void serve_expiry_start(struct serve_expiry *expiry, struct serve_shard *shard,
                        struct gs_loop *loop)
{
    expiry->shard = shard;
    gs_async_init(&expiry->cached, loop, on_cached);
    gs_timer_init(&expiry->due, loop, on_due);
    expiry->cached.watcher.data = expiry->due.watcher.data = expiry;
    gs_async_start(&expiry->cached);
    serve_shard_watch_cache(shard, wake_loop, expiry);
}

void serve_expiry_stop(struct serve_expiry *expiry)
{
    serve_shard_watch_cache(expiry->shard, NULL, NULL);
}

void serve_expiry_by_main(struct serve_expiry *expiry, struct serve_shard *shard,
                          struct serve_server *server)
{
    expiry->shard = shard;
    expiry->next = server->expiries;
    server->expiries = expiry;
}
