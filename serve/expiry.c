#include "serve/expiry.h"

#include "serve/server.h"

#include <errno.h>

/* ---- Loops ---- */

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

/* ---- User-level threads ---- */

static void *run_thread(void *argument)
{
    struct serve_expiry_thread *expiry = argument;
    gs_thread_set_cancelable(false);
    uint64_t next_ns = GS_NEVER;
    int err;
    while ((err = gs_thread_park(next_ns), !err || err == -ETIMEDOUT) &&
           !atomic_load(&expiry->is_over))
        next_ns = serve_shard_expire(expiry->shard, gs_clock_now());
    return NULL;
}

static void wake_thread(void *data)
{
    struct serve_expiry_thread *expiry = data;
    gs_thread_unpark(expiry->thread);
}

int serve_expiry_thread_start(struct serve_expiry_thread *expiry, struct serve_shard *shard,
                              unsigned worker)
{
    const struct gs_thread_attributes attributes = {
        .name = "expiry", .priority = GS_PRIORITY_LOW, .worker = worker};
    expiry->shard = shard;
    int err = gs_thread_spawn(&attributes, run_thread, expiry, &expiry->thread);
    if (!err)
        serve_shard_watch_cache(shard, wake_thread, expiry);
    return err;
}

void serve_expiry_thread_stop(struct serve_expiry_thread *expiry)
{
    if (!expiry->thread)
        return;
    atomic_store(&expiry->is_over, true);
    gs_thread_unpark(expiry->thread);
    (void)!gs_thread_join(expiry->thread, GS_NEVER, NULL);
}
