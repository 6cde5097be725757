#include "serve/connection/shard_thread.h"

#include <errno.h>

/* Between two tries while a pipe has no room. */
#define RETRY_NS (50 * GS_MILLISECOND)

static void *tend(void *argument)
{
    struct serve_shard_thread *tending = argument;
    gs_thread_set_cancelable(false);
    uint64_t next_ns = GS_NEVER;
    int err;
    while ((err = gs_thread_park(next_ns), !err || err == -ETIMEDOUT) &&
           !atomic_load(&tending->is_over)) {
        uint64_t now_ns = gs_clock_now();
        next_ns = serve_shard_expire(tending->shard, now_ns);
        if (!serve_shard_flush_log(tending->shard) && next_ns > now_ns + RETRY_NS)
            next_ns = now_ns + RETRY_NS;
    }
    return NULL;
}

static void wake(void *data)
{
    struct serve_shard_thread *tending = data;
    gs_thread_unpark(tending->thread);
}

int serve_shard_thread_start(struct serve_shard_thread *tending, struct serve_shard *shard,
                             unsigned worker)
{
    const struct gs_thread_attributes attributes = {
        .name = "shard", .priority = GS_PRIORITY_LOW, .worker = worker};
    tending->shard = shard;
    int err = gs_thread_spawn(&attributes, tend, tending, &tending->thread);
    if (err)
        return err;
    serve_log_on_first_line(&shard->log, wake, tending);
    serve_shard_watch_cache(shard, wake, tending);
    return 0;
}

void serve_shard_thread_stop(struct serve_shard_thread *tending)
{
    if (!tending->thread)
        return;
    atomic_store(&tending->is_over, true);
    gs_thread_unpark(tending->thread);
    (void)!gs_thread_join(tending->thread, GS_NEVER, NULL);
}
