/* How the architecture `stage` starts and ends. */
#include "serve/arch/arch.h"
#include "serve/arch/stage.h"
#include "serve/loops.h"
#include "serve/server.h"

#include <gossamer/sys.h>
#include <malloc.h>
#include <stdlib.h>
#include <time.h>

/* Of a stage that may wait for a disk, or that computes. */
#define THREADS_MOST 20

/* Of freed memory that the allocator does not give back: with each batch, the answers of all its requests come and go. */
#define KEPT_BYTES (16 << 20)

/* ---- The loop of a worker's sockets ---- */

static void stop_accepting(struct stage_worker *worker)
{
    struct serve_server *server = worker->site->server;
    for (unsigned i = 0; i < server->address_count; i++)
        serve_acceptor_take(&worker->acceptors[i], (unsigned)server->options->backlog);
    for (unsigned i = 0; i < server->address_count; i++) {
        serve_acceptor_stop(&worker->acceptors[i]);
        gs_loop_fd_closed(worker->loop, worker->acceptors[i].io.fd);
    }
    serve_stop_listening(server, worker->index);
}

/* Who has connected already is served; what was received is answered; then nothing is left. */
static void on_drain(struct gs_async *async)
{
    struct stage_worker *worker = async->watcher.data;
    stop_accepting(worker);
    worker->is_draining = true;
    stage_sockets_drain(worker);
    uint64_t end_ns =
        gs_clock_after(gs_loop_now(worker->loop), worker->site->server->options->drain_timeout_ns);
    if (!worker->connection_count || gs_timer_start(&worker->drain_end, end_ns))
        gs_loop_stop(worker->loop);
}

/* Where requests come faster than one at a time, the loop sleeps a moment while the other stages are at work on what it has delivered,
 * so that the next batch is larger. Who is alone is not kept waiting. */
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

/* The line is in the buffer of a shard that is locked now, and written when the loop comes to it. */
static void on_log_begun(void *data)
{
    struct stage_worker *worker = data;
    gs_async_send(&worker->log);
}

static void on_log(struct gs_async *async)
{
    struct stage_worker *worker = async->watcher.data;
    serve_shard_flush_log(&worker->shard);
}

/* What is still in a stage comes back, and is closed then. The last step hands over what the loop has not told the kernel yet: a ring
 * would keep the listeners open until all workers have ended. */
static void *run_worker(void *data)
{
    struct stage_worker *worker = data;
    gs_stage_calm_thread();
    worker->result = gs_loop_run(worker->loop);
    for (unsigned i = 0; i < worker->site->server->address_count; i++)
        serve_acceptor_stop(&worker->acceptors[i]);
    if (worker->connection_count)
        atomic_store(&worker->site->is_over, true);
    stage_sockets_drain(worker);
    while (worker->connection_count && gs_loop_step(worker->loop, GS_NEVER) >= 0)
        ;
    (void)gs_loop_step(worker->loop, 0);
    return NULL;
}

static int start_accepting(struct stage_worker *worker)
{
    struct serve_server *server = worker->site->server;
    const int *listeners = server->listeners + (size_t)worker->index * server->address_count;
    worker->acceptors = calloc(server->address_count, sizeof *worker->acceptors);
    int err = worker->acceptors ? 0 : -ENOMEM;
    for (unsigned i = 0; !err && i < server->address_count; i++) {
        serve_acceptor_init(&worker->acceptors[i], worker->loop, &worker->site->places,
                            stage_accepted, worker);
        err = serve_acceptor_start(&worker->acceptors[i], listeners[i], server->log_fd >= 0);
    }
    return err;
}

static void set_up_watchers(struct stage_worker *worker)
{
    gs_async_init(&worker->drain, worker->loop, on_drain);
    gs_async_init(&worker->log, worker->loop, on_log);
    gs_timer_init(&worker->drain_end, worker->loop, on_drain_end);
    gs_prepare_init(&worker->before_wait, worker->loop, on_before_wait);
    worker->before_wait.watcher.data = worker;
    gs_prepare_start(&worker->before_wait); /* after that of the stage, which delivers */
    worker->drain.watcher.data = worker->log.watcher.data = worker;
    gs_async_start(&worker->drain);
    gs_async_start(&worker->log);
    if (worker->site->server->log_fd >= 0)
        serve_log_on_begun(&worker->shard.log, on_log_begun, worker);
}

static int make_worker(struct stage_worker *worker)
{
    struct stage_site *site = worker->site;
    int err = serve_loop_new(site->server, !worker->index, &worker->loop);
    if (!err)
        err = serve_shard_init(&worker->shard, site->server, worker->index, true);
    if (err)
        return err;
    worker->is_by_level = serve_loop_is_by_level(worker->loop);
    const struct gs_stage_options options = {
        .name = "sockets", .handle = stage_handle_sockets, .data = worker, .loop = worker->loop};
    err = gs_stage_new(&options, &worker->sockets);
    if (!err)
        set_up_watchers(worker);
    return err ? err : start_accepting(worker);
}

static void worker_done(struct stage_worker *worker)
{
    gs_stage_free(worker->sockets);
    gs_loop_free(worker->loop);
    serve_shard_done(&worker->shard);
    free(worker->acceptors);
}

/* ---- The stages ---- */

static int make_stages(struct stage_site *site)
{
    const struct serve_options *asked = site->server->options;
    unsigned batches = asked->controllers & GS_STAGE_BATCHES;
    struct gs_stage_options light = {
        .threads_most = site->server->workers, .data = site, .controllers = batches};
    struct gs_stage_options heavy = {
        .threads_most = THREADS_MOST,
        .batch_most = 1,
        .queue_most = (unsigned)asked->connections_most,
        .controllers = asked->controllers & GS_STAGE_THREADS,
        .wait_most_ns = asked->admission_ns / 2, /* all may go half as fast as it just did */
        .handle = stage_handle_load,
        .data = site,
    };
    light.name = "send", light.handle = stage_handle_send;
    int err = gs_stage_new(&light, &site->send);
    light.name = "http", light.handle = stage_handle_http, light.helps = site->send;
    if (!err)
        err = gs_stage_new(&light, &site->http);
    heavy.name = "load";
    if (!err)
        err = gs_stage_new(&heavy, &site->load);
    if (err || !asked->bottleneck.path[0])
        return err;
    heavy.name = "make";
    heavy.target_ns = asked->admission_ns;
    heavy.controllers |= asked->admission_ns ? GS_STAGE_ADMISSION : 0;
    return gs_stage_new(&heavy, &site->make);
}

static void list_stages(struct stage_site *site)
{
    struct serve_server *server = site->server;
    struct gs_stage *const shared[] = {site->http, site->send, site->load, site->make};
    unsigned count = 0;
    for (unsigned i = 0; i < server->workers; i++)
        site->stages[count++] = site->workers[i].sockets;
    for (unsigned i = 0; i < sizeof shared / sizeof *shared; i++)
        if (shared[i])
            site->stages[count++] = shared[i];
    server->stages = site->stages;
    server->stage_count = count;
}

/* ---- All of it ---- */

static int make(struct stage_site *site)
{
    struct serve_server *server = site->server;
    serve_places_init(&site->places, server->options->connections_most);
    site->workers = calloc(server->workers, sizeof *site->workers);
    site->stages = calloc(server->workers + 4, sizeof *site->stages);
    int err = site->workers && site->stages ? make_stages(site) : -ENOMEM;
    for (unsigned i = 0; !err && i < server->workers; i++) {
        struct stage_worker *worker = &site->workers[i];
        worker->site = site;
        worker->index = i;
        gs_list_init(&worker->connections);
        err = make_worker(worker);
    }
    return err;
}

static int serve(struct stage_site *site)
{
    struct serve_server *server = site->server;
    int err = 0;
    list_stages(site);
    for (unsigned i = 0; !err && i < server->workers; i++) {
        struct stage_worker *worker = &site->workers[i];
        err = -pthread_create(&worker->thread, NULL, run_worker, worker);
        worker->has_thread = !err;
    }
    if (!err)
        err = serve_wait(server);
    for (unsigned i = 0; i < server->workers; i++)
        gs_async_send(&site->workers[i].drain);
    for (unsigned i = 0; i < server->workers; i++) {
        if (!site->workers[i].has_thread)
            continue;
        pthread_join(site->workers[i].thread, NULL);
        err = err ? err : site->workers[i].result;
    }
    return err;
}

static int run(struct serve_server *server)
{
    struct stage_site site = {.server = server};
    serve_block_signals();
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    int err = make(&site);
    if (!err)
        err = serve(&site);
    server->stage_count = 0;
    gs_stage_free(site.http);
    gs_stage_free(site.load);
    gs_stage_free(site.make);
    gs_stage_free(site.send);
    for (unsigned i = 0; site.workers && i < server->workers; i++)
        worker_done(&site.workers[i]);
    free(site.stages);
    free(site.workers);
    return err;
}

const struct serve_arch serve_arch_stage = {
    .name = "stage",
    .summary = "stages with queues and kernel threads, which handle many requests at a time",
    .workers = "loops that receive, and kernel threads in each stage that never waits",
    .workers_least = 1,
    .has_stages = true,
    .run = run,
};
