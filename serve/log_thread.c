#include "serve/log_thread.h"

#include <errno.h>

/* Between two tries while a pipe has no room. */
#define RETRY_NS (50 * GS_MILLISECOND)

static void *write_log(void *argument)
{
    struct serve_log_thread *log = argument;
    gs_thread_set_cancelable(false);
    uint64_t again_ns = GS_NEVER;
    int err;
    while ((err = gs_thread_park(again_ns), !err || err == -ETIMEDOUT) &&
           !atomic_load(&log->is_over))
        again_ns = serve_shard_flush_log(log->shard) ? GS_NEVER : gs_clock_now() + RETRY_NS;
    return NULL;
}

static void on_first_line(void *data)
{
    struct serve_log_thread *log = data;
    gs_thread_unpark(log->thread);
}

int serve_log_thread_start(struct serve_log_thread *log, struct serve_shard *shard, unsigned worker)
{
    const struct gs_thread_attributes attributes = {
        .name = "log", .priority = GS_PRIORITY_LOW, .worker = worker};
    log->shard = shard;
    int err = gs_thread_spawn(&attributes, write_log, log, &log->thread);
    if (!err)
        serve_log_on_first_line(&shard->log, on_first_line, log);
    return err;
}

void serve_log_thread_stop(struct serve_log_thread *log)
{
    if (!log->thread)
        return;
    atomic_store(&log->is_over, true);
    gs_thread_unpark(log->thread);
    (void)!gs_thread_join(log->thread, GS_NEVER, NULL);
}
