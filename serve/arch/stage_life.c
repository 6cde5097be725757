/* How the architecture `stage` starts and ends. */
#include "serve/arch/arch.h"
#include "serve/arch/stage.h"
#include "serve/operations/server.h"

#include <malloc.h>
#include <stdlib.h>

/* In a stage that may wait for a disk, or that computes. */
#define THREADS_MAX 20

/* Freed memory that the allocator keeps: with each batch, the answers of all its requests are
 * allocated and freed. */
#define KEPT_BYTES (16 << 20)

/* ---- The stages ---- */

static int init_stages(struct stage_graph *graph)
{
    const struct serve_options *asked = graph->server->options;
    unsigned batches = asked->controllers & GS_STAGE_BATCHES;
    struct gs_stage_options light = {
        .max_threads = graph->server->workers, .data = graph, .controllers = batches};
    struct gs_stage_options heavy = {
        .max_threads = THREADS_MAX,
        .max_batch = 1,
        .controllers = asked->controllers & GS_STAGE_THREADS,
        .max_wait_ns = asked->admission_ns / 2, /* all may go half as fast as it just did */
        .handle = stage_handle_load,
        .data = graph,
    };
    light.name = "send", light.handle = stage_handle_send;
    int err = gs_stage_new(&light, &graph->send);
    light.name = "http", light.handle = stage_handle_http, light.steals_from = graph->send;
    if (!err)
        err = gs_stage_new(&light, &graph->http);
    light.name = "handshake", light.max_batch = 1, light.controllers = 0;
    light.steals_from = NULL;
    if (!err && graph->server->certificates.count)
        err = gs_stage_new(&light, &graph->handshake);
    heavy.name = "load";
    if (!err)
        err = gs_stage_new(&heavy, &graph->load);
    struct gs_stage_options disk = heavy;
    disk.name = "disk", disk.handle = stage_handle_disk;
    disk.controllers = 0, disk.max_wait_ns = 0;
    if (!err)
        err = gs_stage_new(&disk, &graph->disk);
    if (err || !asked->bottleneck.path[0])
        return err;
    heavy.name = "make";
    heavy.max_queue = (unsigned)asked->max_connections;
    heavy.target_ns = asked->admission_ns;
    heavy.controllers |= asked->admission_ns ? GS_STAGE_ADMISSION : 0;
    return gs_stage_new(&heavy, &graph->make);
}

static void list_stages(struct stage_graph *graph)
{
    struct serve_server *server = graph->server;
    struct gs_stage *const shared[] = {graph->handshake, graph->http, graph->send,
                                       graph->load,      graph->disk, graph->make};
    unsigned count = 0;
    for (unsigned i = 0; i < server->workers; i++)
        graph->stages[count++] = graph->workers[i].sockets;
    for (unsigned i = 0; i < sizeof shared / sizeof *shared; i++)
        if (shared[i])
            graph->stages[count++] = shared[i];
    server->stages = graph->stages;
    server->stage_count = count;
}

/* ---- Start and end ---- */

static int init(struct stage_graph *graph)
{
    struct serve_server *server = graph->server;
    serve_slots_init(&graph->slots, server->options->max_connections);
    graph->workers = calloc(server->workers, sizeof *graph->workers);
    graph->stages = calloc(server->workers + 6, sizeof *graph->stages);
    int err = serve_evictors_init(&graph->evictors, server->workers, stage_evict);
    if (!err)
        err = graph->workers && graph->stages ? init_stages(graph) : -ENOMEM;
    for (unsigned i = 0; !err && i < server->workers; i++) {
        struct stage_worker *worker = &graph->workers[i];
        worker->graph = graph;
        worker->index = i;
        gs_list_init(&worker->connections);
        err = stage_worker_init(worker);
    }
    return err;
}

static int serve(struct stage_graph *graph)
{
    struct serve_server *server = graph->server;
    int err = 0;
    list_stages(graph);
    for (unsigned i = 0; !err && i < server->workers; i++) {
        struct stage_worker *worker = &graph->workers[i];
        err = -pthread_create(&worker->thread, NULL, stage_worker_run, worker);
        worker->has_thread = !err;
        if (!err)
            serve_evictor_publish(&worker->evictor);
    }
    if (!err)
        err = serve_wait(server);
    for (unsigned i = 0; i < server->workers; i++)
        gs_async_send(&graph->workers[i].drain);
    for (unsigned i = 0; i < server->workers; i++) {
        if (!graph->workers[i].has_thread)
            continue;
        pthread_join(graph->workers[i].thread, NULL);
        err = err ? err : graph->workers[i].result;
    }
    return err;
}

static int run(struct serve_server *server)
{
    struct stage_graph graph = {.server = server};
    serve_block_signals();
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    int err = init(&graph);
    if (!err)
        err = serve(&graph);
    server->stage_count = 0;
    gs_stage_free(graph.handshake);
    gs_stage_free(graph.http);
    gs_stage_free(graph.load);
    gs_stage_free(graph.disk);
    gs_stage_free(graph.make);
    gs_stage_free(graph.send);
    for (unsigned i = 0; graph.workers && i < server->workers; i++)
        stage_worker_done(&graph.workers[i]);
    serve_evictors_done(&graph.evictors);
    free(graph.stages);
    free(graph.workers);
    return err;
}

const struct serve_arch serve_arch_stage = {
    .name = "stage",
    .summary = "stages with queues and kernel threads, which handle many requests at a time",
    .workers = "loops that receive, and kernel threads in each stage that never waits",
    .min_workers = 1,
    .poller_reason = "io_uring was not measured",
    .has_stages = true,
    .run = run,
};
