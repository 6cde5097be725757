/* How the architecture `quad` starts and ends. */
#include "serve/arch/arch.h"
#include "serve/arch/quad.h"
#include "serve/connection/loops.h"
#include "serve/operations/server.h"

#include <stdlib.h>

/* ---- The accepting thread ---- */

static void make_room(void *data)
{
    struct quad_group *group = data;
    serve_evictor_ask(&group->evictor);
}

static int start_accepting(struct quad_group *group)
{
    const struct serve_acceptors_options options = {
        .loop = group->threads[QUAD_ACCEPTING].loop,
        .slots = group->slots,
        .accepted = quad_accepted,
        .make_room = make_room,
        .data = group,
    };
    int err = serve_acceptors_init(&group->acceptors, group->server, group->index, &options);
    return err ? err : serve_acceptors_start(&group->acceptors);
}

/* Pending connections are accepted before the application drains. */
static void on_drain(struct gs_async *async)
{
    struct quad_group *group = async->watcher.data;
    atomic_store(&group->is_draining, true);
    serve_acceptors_finish(&group->acceptors);
    quad_send(group, QUAD_ACCEPTING, QUAD_APPLICATION, &group->draining);
}

/* ---- The application's thread ---- */

static void on_drain_end(struct gs_timer *timer)
{
    quad_close_all(timer->watcher.data);
}

static void on_turn(struct gs_async *async)
{
    quad_take_postponed(async->watcher.data, false);
}

static void on_flush_log(struct gs_prepare *prepare)
{
    struct quad_group *group = prepare->watcher.data;
    serve_shard_flush_log(&group->shard);
}

/* ---- All four threads ---- */

static void on_stop(struct gs_async *async)
{
    gs_loop_stop(async->watcher.loop);
}

static void *run_thread(void *data)
{
    struct quad_thread *thread = data;
    gs_stage_set_batch_scheduling();
    atomic_store(&thread->result, gs_loop_run(thread->loop));
    if (atomic_load(&thread->result))
        serve_request_end();
    return NULL;
}

static int init_thread(struct quad_group *group, int which)
{
    static const struct {
        const char *name;
        gs_stage_fn *handle; /* NULL: it receives no events */
    } kinds[QUAD_THREADS] = {
        [QUAD_READING] = {"read", quad_handle_reading},
        [QUAD_WRITING] = {"write", quad_handle_writing},
        [QUAD_APPLICATION] = {"application", quad_handle_application},
    };
    struct quad_thread *thread = &group->threads[which];
    int err = serve_loop_new(group->server, !group->index && !which, &thread->loop);
    if (err)
        return err;
    thread->is_level_triggered = serve_loop_is_level_triggered(thread->loop);
    gs_async_init(&thread->stop, thread->loop, on_stop);
    gs_async_start(&thread->stop);
    const struct gs_stage_options options = {.name = kinds[which].name,
                                             .handle = kinds[which].handle,
                                             .data = group,
                                             .loop = thread->loop};
    return options.handle ? gs_stage_new(&options, &thread->stage) : 0;
}

static void init_watchers(struct quad_group *group, struct serve_evictors *evictors)
{
    struct gs_loop *application = group->threads[QUAD_APPLICATION].loop;
    serve_evictor_init(&group->evictor, evictors, group->index, application, group);
    gs_async_init(&group->drain, group->threads[QUAD_ACCEPTING].loop, on_drain);
    gs_async_init(&group->turn, application, on_turn);
    gs_timer_init(&group->drain_end, application, on_drain_end);
    serve_expiry_start(&group->expiry, &group->shard, application);
    gs_prepare_init(&group->flush_log, application, on_flush_log);
    group->drain.watcher.data = group->drain_end.watcher.data = group;
    group->flush_log.watcher.data = group->turn.watcher.data = group;
    gs_async_start(&group->drain);
    gs_async_start(&group->turn);
    if (group->server->log_fd >= 0)
        gs_prepare_start(&group->flush_log);
}

static int init_group(struct serve_server *server, unsigned index, struct serve_slots *slots,
                      struct serve_evictors *evictors, struct quad_group *group)
{
    group->server = server;
    group->index = index;
    group->slots = slots;
    group->draining.kind = QUAD_DRAIN;
    gs_list_init(&group->connections);
    gs_list_init(&group->postponed);
    gs_list_init(&group->reading);
    int err = serve_shard_init(&group->shard, server, index, false);
    for (int i = 0; !err && i < QUAD_THREADS; i++)
        err = init_thread(group, i);
    if (!err)
        err = start_accepting(group);
    if (!err)
        init_watchers(group, evictors);
    return err;
}

static int start_group(struct quad_group *group)
{
    int err = 0;
    for (int i = 0; !err && i < QUAD_THREADS; i++) {
        struct quad_thread *thread = &group->threads[i];
        err = -pthread_create(&thread->thread, NULL, run_thread, thread);
        thread->has_thread = !err;
    }
    return err;
}

static bool is_complete(struct quad_group *group)
{
    for (int i = 0; i < QUAD_THREADS; i++)
        if (!group->threads[i].has_thread || atomic_load(&group->threads[i].result))
            return false;
    return true;
}

/* The application ends by itself when all connections are closed, if all four threads run. */
static int end_group(struct quad_group *group)
{
    static const int order[] = {QUAD_APPLICATION, QUAD_ACCEPTING, QUAD_READING, QUAD_WRITING};
    bool ends_by_itself = is_complete(group);
    int err = 0;
    for (unsigned i = 0; i < QUAD_THREADS; i++) {
        struct quad_thread *thread = &group->threads[order[i]];
        if (!thread->has_thread)
            continue;
        if (i || !ends_by_itself)
            gs_async_send(&thread->stop);
        pthread_join(thread->thread, NULL);
        err = err ? err : atomic_load(&thread->result);
    }
    return err;
}

static void free_group(struct quad_group *group)
{
    serve_acceptors_stop(&group->acceptors);
    for (int i = 0; i < QUAD_THREADS; i++) {
        gs_stage_free(group->threads[i].stage);
        gs_loop_free(group->threads[i].loop);
    }
    serve_shard_done(&group->shard);
    serve_acceptors_done(&group->acceptors);
}

static void list_stages(struct serve_server *server, struct quad_group *groups,
                        struct gs_stage **stages)
{
    unsigned count = 0;
    for (unsigned i = 0; i < server->workers; i++)
        for (int j = QUAD_READING; j < QUAD_THREADS; j++)
            stages[count++] = groups[i].threads[j].stage;
    server->stages = stages;
    server->stage_count = count;
}

static int run(struct serve_server *server)
{
    struct serve_slots slots;
    struct serve_evictors evictors;
    struct quad_group *groups = calloc(server->workers, sizeof *groups);
    struct gs_stage **stages = calloc((size_t)server->workers * QUAD_THREADS, sizeof *stages);
    unsigned made = 0;
    int err = serve_evictors_init(&evictors, server->workers, quad_evict);
    if (!err)
        err = groups && stages ? 0 : -ENOMEM;
    serve_slots_init(&slots, server->options->max_connections);
    serve_block_signals();
    while (!err && made < server->workers)
        err = init_group(server, made, &slots, &evictors, &groups[made]), made++;
    if (!err)
        list_stages(server, groups, stages);
    for (unsigned i = 0; !err && i < made; i++) {
        err = start_group(&groups[i]);
        if (!err)
            serve_evictor_publish(&groups[i].evictor);
    }
    if (!err)
        err = serve_wait(server);
    for (unsigned i = 0; i < made; i++)
        if (groups[i].threads[QUAD_THREADS - 1].has_thread)
            gs_async_send(&groups[i].drain);
    for (unsigned i = 0; i < made; i++) {
        int result = end_group(&groups[i]);
        err = err ? err : result;
    }
    server->stage_count = 0;
    for (unsigned i = 0; i < made; i++)
        free_group(&groups[i]);
    serve_evictors_done(&evictors);
    free(stages);
    free(groups);
    return err;
}

const struct serve_arch serve_arch_quad = {
    .name = "quad",
    .summary = "four threads that exchange events: one accepts, one reads, one writes, one answers",
    .workers = "groups of four kernel threads, each with a listening socket",
    .min_workers = 1,
    .poller_reason = "io_uring was not measured",
    .run = run,
};
