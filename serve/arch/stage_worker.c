/* A worker of the architecture `stage`: the loop of its sockets, from its start to its end. */
#include "serve/arch/stage.h"
#include "serve/connection/loops.h"
#include "serve/operations/server.h"

#include <time.h>

/* Pending connections are accepted, requests that were received answered, and then all is
 * closed. */
static void on_drain(struct gs_async *async)
{
    struct stage_worker *worker = async->watcher.data;
    serve_acceptors_finish(&worker->acceptors);
    worker->is_draining = true;
    stage_sockets_drain(worker);
    uint64_t end_ns =
        gs_clock_after(gs_loop_now(worker->loop), worker->graph->server->options->drain_timeout_ns);
    if (!worker->connection_count || gs_timer_start(&worker->drain_end, end_ns))
        gs_loop_stop(worker->loop);
}

/* Where requests come faster than one at a time, the loop sleeps a moment while the other stages
 * work on what it has delivered, so that the next batch is larger. A single client is not kept
 * waiting. */
#define FEW 4
#define MANY 64
#define MOMENT_NS (20 * GS_MICROSECOND)

static void on_before_wait(struct gs_prepare *prepare)
{
    struct stage_worker *worker = prepare->watcher.data;
    const struct timespec moment = {.tv_nsec = MOMENT_NS};
    if (worker->received >= FEW && worker->received < MANY)
        nanosleep(&moment, NULL);
    worker->received = 0;
}

static void on_drain_end(struct gs_timer *timer)
{
    gs_loop_stop(timer->watcher.loop);
}

/* Called with the shard locked: its loop writes the line later. */
static void on_first_line(void *data)
{
    struct stage_worker *worker = data;
    gs_async_send(&worker->log);
}

static void on_log(struct gs_async *async)
{
    struct stage_worker *worker = async->watcher.data;
    serve_shard_flush_log(&worker->shard);
}

/* Connections that are still in a stage are closed when they return. The last iteration submits
 * what the loop holds back: a ring would keep the listeners open until all workers have ended. */
void *stage_worker_run(void *data)
{
    struct stage_worker *worker = data;
    gs_stage_set_batch_scheduling();
    worker->result = gs_loop_run(worker->loop);
    if (worker->result)
        serve_request_end();
    serve_acceptors_stop(&worker->acceptors);
    if (worker->connection_count)
        atomic_store(&worker->graph->is_finished, true);
    stage_sockets_drain(worker);
    while (worker->connection_count && gs_loop_run_once(worker->loop, GS_NEVER) >= 0)
        ;
    (void)gs_loop_run_once(worker->loop, 0);
    return NULL;
}

static void make_room(void *data)
{
    struct stage_worker *worker = data;
    serve_evictor_make_room(&worker->evictor);
}

static int start_accepting(struct stage_worker *worker)
{
    const struct serve_acceptors_options options = {
        .loop = worker->loop,
        .slots = &worker->graph->slots,
        .accepted = stage_accepted,
        .make_room = make_room,
        .data = worker,
    };
    int err =
        serve_acceptors_init(&worker->acceptors, worker->graph->server, worker->index, &options);
    return err ? err : serve_acceptors_start(&worker->acceptors);
}

static void init_watchers(struct stage_worker *worker)
{
    serve_evictor_init(&worker->evictor, &worker->graph->evictors, worker->index, worker->loop,
                       worker);
    serve_expiry_start(&worker->expiry, &worker->shard, worker->loop);
    gs_async_init(&worker->drain, worker->loop, on_drain);
    gs_async_init(&worker->log, worker->loop, on_log);
    gs_timer_init(&worker->drain_end, worker->loop, on_drain_end);
    gs_prepare_init(&worker->before_wait, worker->loop, on_before_wait);
    worker->before_wait.watcher.data = worker;
    gs_prepare_start(&worker->before_wait); /* after that of the stage, which delivers */
    worker->drain.watcher.data = worker->log.watcher.data = worker;
    gs_async_start(&worker->drain);
    gs_async_start(&worker->log);
    if (worker->graph->server->log_fd >= 0)
        serve_log_on_first_line(&worker->shard.log, on_first_line, worker);
}

int stage_worker_init(struct stage_worker *worker)
{
    struct stage_graph *graph = worker->graph;
    int err = serve_loop_new(graph->server, !worker->index, &worker->loop);
    if (!err)
        err = serve_shard_init(&worker->shard, graph->server, worker->index, true);
    if (err)
        return err;
    worker->is_level_triggered = serve_loop_is_level_triggered(worker->loop);
    const struct gs_stage_options options = {
        .name = "sockets", .handle = stage_handle_sockets, .data = worker, .loop = worker->loop};
    err = gs_stage_new(&options, &worker->sockets);
    if (!err)
        init_watchers(worker);
    return err ? err : start_accepting(worker);
}

void stage_worker_done(struct stage_worker *worker)
{
    serve_acceptors_stop(&worker->acceptors);
    gs_stage_free(worker->sockets);
    gs_loop_free(worker->loop);
    serve_shard_done(&worker->shard);
    serve_acceptors_done(&worker->acceptors);
}
