/* An event loop in each worker: everything that a connection waits for comes back to the one loop that accepted it.
 *
 *     listener (one a worker, SO_REUSEPORT)          sockets
 *        |                                              |
 *        v                                              v
 *     +--------------------- loop of a worker ----------------------+
 *     | accept --> advance: receive --> HTTP --> send, as far as it |
 *     |            goes without waiting; files are loaded inline    |
 *     +-------------------------------------------------------------+
 *
 * How bytes come and go depends on the poller: by readiness (event_ready.c), or by completions with io_uring (event_ring.c). */
#include "serve/arch/event.h"

#include "serve/arch/arch.h"
#include "serve/loops.h"
#include "serve/server.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>

/* Steps of one connection in one turn of the loop. */
#define STEPS_MOST 8

/* Iterations in which to wait for bytes that have come to the sockets when the server is told to end. */
#define DRAIN_PASSES_MOST 100

struct event_connection *event_newer(const struct event_worker *worker,
                                     const struct event_connection *connection)
{
    if (connection->link == &worker->connections)
        return NULL;
    return gs_container_of(connection->link, struct event_connection, next);
}

void event_release(struct event_worker *worker, struct event_connection *connection)
{
    gs_timer_stop(&connection->timer);
    connection->is_ending = true;
    if (!worker->way->end(connection))
        return;
    gs_loop_fd_closed(worker->loop, connection->base.fd);
    serve_connection_done(&connection->base);
    if (worker->waiting == connection)
        worker->waiting = event_newer(worker, connection);
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    free(connection);
    serve_places_leave(worker->places);
    if (!--worker->connection_count && worker->has_stopped_accepting)
        gs_loop_stop(worker->loop);
}

bool event_step(struct event_connection *connection, uint64_t now_ns)
{
    struct serve_connection *base = &connection->base;
    unsigned wants = gs_http_conn_wants(&base->http);
    if (wants & GS_HTTP_LOAD) {
        struct gs_http_load *load = gs_http_conn_take_load(&base->http);
        gs_http_load_run(load);
        gs_loop_update_now(connection->timer.watcher.loop);
        serve_connection_loaded(base, load, gs_loop_now(connection->timer.watcher.loop));
    } else if (wants & GS_HTTP_SHUTDOWN) {
        serve_connection_shut_down(base, now_ns);
    } else {
        return false;
    }
    return true;
}

void event_advance(struct event_worker *worker, struct event_connection *connection)
{
    unsigned steps = 0;
    while (steps < STEPS_MOST && worker->way->step(worker, connection, gs_loop_now(worker->loop)))
        steps++;
    if (gs_http_conn_wants(&connection->base.http) & GS_HTTP_CLOSE) {
        event_release(worker, connection);
        return;
    }
    int err = serve_watch_deadline(&connection->timer, &connection->base, connection->lacks,
                                   gs_loop_now(worker->loop));
    if (!err)
        err = worker->way->wait(worker, connection, steps == STEPS_MOST);
    if (err)
        event_release(worker, connection);
}

static void on_deadline(struct gs_timer *timer)
{
    struct event_connection *connection = gs_container_of(timer, struct event_connection, timer);
    struct event_worker *worker = timer->watcher.data;
    if (connection->lacks)
        worker->way->retry(connection);
    if (gs_http_conn_deadline(&connection->base.http) <= gs_loop_now(worker->loop))
        serve_connection_expire(&connection->base, gs_loop_now(worker->loop));
    event_advance(worker, connection);
}

static void on_accepted(void *data, int fd, const struct sockaddr *address)
{
    struct event_worker *worker = data;
    struct event_connection *connection = malloc(worker->way->connection_size);
    if (!connection) {
        serve_places_leave(worker->places);
        gs_sys_close(fd);
        return;
    }
    serve_connection_init(&connection->base, fd, &worker->shard, address,
                          gs_loop_now(worker->loop));
    connection->lacks = connection->is_ending = false;
    gs_timer_init(&connection->timer, worker->loop, on_deadline);
    connection->timer.watcher.data = worker;
    connection->next = worker->connections;
    connection->link = &worker->connections;
    if (connection->next)
        connection->next->link = &connection->next;
    worker->connections = connection;
    worker->connection_count++;
    if (worker->draining)
        gs_http_conn_drain_soon(&connection->base.http);
    worker->way->init(worker, connection);
    worker->manner->accepted(worker, connection);
}

/* What is answered from now on is the last of its connection; and the kernel is to accept nobody any more by itself. */
static void begin_draining(struct event_worker *worker)
{
    worker->draining = true;
    for (struct event_connection *connection = worker->connections; connection;
         connection = connection->next)
        gs_http_conn_drain_soon(&connection->base.http);
    for (unsigned i = 0; i < worker->server->address_count; i++)
        serve_acceptor_cease(&worker->acceptors[i]);
}

/* Whether the kernel may still tell of whom it has accepted. */
static bool is_accepting(const struct event_worker *worker)
{
    for (unsigned i = 0; i < worker->server->address_count; i++)
        if (!serve_acceptor_is_quiet(&worker->acceptors[i]))
            return true;
    return false;
}

static void stop_accepting(struct event_worker *worker)
{
    unsigned addresses = worker->server->address_count;
    for (unsigned i = 0; i < addresses; i++)
        serve_acceptor_take(&worker->acceptors[i], (unsigned)worker->server->options->backlog);
    for (unsigned i = 0; i < addresses; i++) {
        serve_acceptor_stop(&worker->acceptors[i]);
        gs_loop_fd_closed(worker->loop, worker->acceptors[i].io.fd);
    }
    serve_stop_listening(worker->server, worker->index);
    worker->has_stopped_accepting = true;
    worker->received_before = UINT64_MAX;
}

/* Whether bytes that are at the sockets may not have come to us yet. */
static bool may_have_more(struct event_worker *worker)
{
    bool is_more = !worker->way->take && worker->received != worker->received_before;
    worker->received_before = worker->received;
    return is_more;
}

/* One step of letting come what is on its way. False: that is all. */
static bool collect_more(struct event_worker *worker)
{
    bool is_patient = worker->drain_passes++ < DRAIN_PASSES_MOST;
    if (is_patient && is_accepting(worker))
        return true;
    if (!worker->has_stopped_accepting)
        stop_accepting(worker);
    return is_patient && may_have_more(worker);
}

static void drain_connections(struct event_worker *worker)
{
    uint64_t now_ns = gs_loop_now(worker->loop);
    for (struct event_connection *connection = worker->connections, *next; connection;
         connection = next) {
        next = connection->next;
        if (connection->is_ending)
            continue;
        if (worker->way->take)
            worker->way->take(worker, connection, now_ns);
        serve_connection_drain(&connection->base, now_ns);
        event_advance(worker, connection);
    }
}

/* Who has connected already is served; what was received is answered; then nothing is left. */
static void on_drain(struct gs_async *async)
{
    struct event_worker *worker = async->watcher.data;
    if (!worker->draining)
        begin_draining(worker);
    if (collect_more(worker)) {
        gs_async_send(&worker->drain);
        return;
    }
    drain_connections(worker);
    uint64_t end_ns =
        gs_clock_after(gs_loop_now(worker->loop), worker->server->options->drain_timeout_ns);
    if (!worker->connection_count || gs_timer_start(&worker->drain_end, end_ns))
        gs_loop_stop(worker->loop);
}

static void on_drain_end(struct gs_timer *timer)
{
    gs_loop_stop(timer->watcher.loop);
}

static void on_flush_log(struct gs_prepare *prepare)
{
    struct event_worker *worker = prepare->watcher.data;
    serve_shard_flush_log(&worker->shard);
}

static void *run_worker(void *data)
{
    struct event_worker *worker = data;
    worker->result = gs_loop_run(worker->loop);
    if (worker->result)
        serve_end_wait();
    for (unsigned i = 0; i < worker->server->address_count; i++)
        serve_acceptor_stop(&worker->acceptors[i]);
    for (struct event_connection *connection = worker->connections, *next; connection;
         connection = next) {
        next = connection->next;
        event_release(worker, connection);
    }
    while (worker->connections && gs_loop_step(worker->loop, GS_NEVER) >= 0)
        ;
    return NULL;
}

static int start_accepting(struct event_worker *worker, const int *listeners)
{
    struct serve_server *server = worker->server;
    for (unsigned i = 0; i < server->address_count; i++)
        serve_acceptor_init(&worker->acceptors[i], worker->loop, worker->places, on_accepted,
                            worker);
    for (unsigned i = 0; i < server->address_count; i++)
        worker->acceptors[i].by_completions = worker->way == &event_ring;
    worker->manner->init(worker);
    for (unsigned i = 0; i < server->address_count; i++) {
        int err = serve_acceptor_start(&worker->acceptors[i], listeners[i], server->log_fd >= 0);
        if (err)
            return err;
    }
    return 0;
}

static void worker_free(struct event_worker *worker)
{
    if (!worker)
        return;
    gs_loop_free(worker->loop);
    serve_shard_done(&worker->shard);
    free(worker->acceptors);
    free(worker);
}

static void set_up_watchers(struct event_worker *worker)
{
    gs_async_init(&worker->drain, worker->loop, on_drain);
    gs_timer_init(&worker->drain_end, worker->loop, on_drain_end);
    gs_prepare_init(&worker->flush_log, worker->loop, on_flush_log);
    worker->drain.watcher.data = worker->flush_log.watcher.data = worker;
    gs_async_start(&worker->drain);
    if (worker->server->log_fd >= 0)
        gs_prepare_start(&worker->flush_log);
}

static int new_loop(struct event_worker *worker)
{
    int err = serve_loop_new(worker->server, !worker->index, &worker->loop);
    if (err)
        return err;
    worker->way = strcmp(gs_loop_poller(worker->loop), "io_uring") ? &event_ready : &event_ring;
    gs_loop_fetch_ahead(worker->loop, worker->way->watcher_offset,
                        worker->way->connection_size - worker->way->watcher_offset);
    worker->is_by_level = serve_loop_is_by_level(worker->loop);
    return 0;
}

static int worker_new(struct serve_server *server, const struct event_manner *manner,
                      unsigned index, struct serve_places *places, struct event_worker **ret_worker)
{
    struct event_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return -ENOMEM;
    worker->server = server;
    worker->manner = manner;
    worker->index = index;
    worker->places = places;
    worker->acceptors = calloc(server->address_count, sizeof *worker->acceptors);
    int err = worker->acceptors ? new_loop(worker) : -ENOMEM;
    if (!err)
        err = serve_shard_init(&worker->shard, server, index, false);
    if (!err)
        err = start_accepting(worker, server->listeners + (size_t)index * server->address_count);
    if (err) {
        worker_free(worker);
        return err;
    }
    set_up_watchers(worker);
    *ret_worker = worker;
    return 0;
}

static int start_all(struct serve_server *server, const struct event_manner *manner,
                     struct serve_places *places, struct event_worker **workers,
                     unsigned *ret_started)
{
    for (*ret_started = 0; *ret_started < server->workers; ++*ret_started) {
        struct event_worker **worker = &workers[*ret_started];
        int err = worker_new(server, manner, *ret_started, places, worker);
        if (!err)
            err = -pthread_create(&(*worker)->thread, NULL, run_worker, *worker);
        if (err) {
            worker_free(*worker);
            return err;
        }
    }
    return 0;
}

int event_run(struct serve_server *server, const struct event_manner *manner)
{
    struct serve_places places;
    struct event_worker **workers = calloc(server->workers, sizeof *workers);
    unsigned started;
    if (!workers)
        return -ENOMEM;
    serve_places_init(&places, server->options->connections_most);
    serve_block_signals();
    int err = start_all(server, manner, &places, workers, &started);
    if (!err)
        err = serve_wait(server);
    for (unsigned i = 0; i < started; i++)
        gs_async_send(&workers[i]->drain);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(workers[i]->thread, NULL);
        err = err ? err : workers[i]->result;
        worker_free(workers[i]);
    }
    free(workers);
    return err;
}

static void do_nothing(struct event_worker *worker)
{
    (void)worker;
}

static int run(struct serve_server *server)
{
    static const struct event_manner at_once = {.init = do_nothing, .accepted = event_advance};
    return event_run(server, &at_once);
}

const struct serve_arch serve_arch_event = {
    .name = "event",
    .summary = "an event loop in each worker, which does everything for its connections",
    .workers = "kernel threads, each with a loop and a listening socket",
    .workers_least = 1,
    .run = run,
};
