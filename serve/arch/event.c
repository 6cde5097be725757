/* An event loop in each worker: everything that a connection waits for comes back to the one loop that accepted it.
 *
 *     listener (one a worker, SO_REUSEPORT)          sockets, edge-triggered
 *        |                                              |
 *        v                                              v
 *     +--------------------- loop of a worker ----------------------+
 *     | accept --> advance: receive --> HTTP --> send, as far as it |
 *     |            goes without waiting; files are loaded inline    |
 *     +-------------------------------------------------------------+
 *
 * A connection is advanced at once when it is accepted: bytes are usually there. Only if it then has to wait is it
 * registered with the kernel, once, for both directions. */
#include "serve/acceptor.h"
#include "serve/arch/arch.h"
#include "serve/connection.h"
#include "serve/server.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <pthread.h>
#include <stdlib.h>

#define RECEIVE_SIZE 65536

/* Steps of one connection in one turn of the loop. */
#define STEPS_MOST 32

/* How old the wall-clock time may be that goes into Date. */
#define WALL_NS (GS_SECOND / 4)

struct connection {
    struct serve_connection base;
    bool readable, writable; /* as far as we know */
    bool hung_up;            /* the end comes after what can be read */
    struct gs_io io;
    struct gs_timer timer;
    struct connection *next, **link;
};

struct worker {
    struct gs_loop *loop;
    struct gs_http_service *service;
    struct serve_server *server;
    unsigned index;                   /* of this worker */
    struct serve_acceptor *acceptors; /* one for each address */
    struct connection *connections;
    uint64_t connection_count, connections_most;
    uint64_t wall_until_ns;
    struct gs_async drain;
    struct gs_timer drain_end;
    struct gs_prepare flush_log;
    bool draining;
    int result;
    pthread_t thread;
    struct serve_log_writer log;
    char buffer[RECEIVE_SIZE];
};

static uint64_t now(struct worker *worker)
{
    uint64_t now_ns = gs_loop_now(worker->loop);
    if (now_ns >= worker->wall_until_ns) {
        gs_http_service_set_wall(worker->service, gs_clock_now(), gs_clock_wall());
        worker->wall_until_ns = now_ns + WALL_NS;
    }
    return now_ns;
}

static void hold_all(struct worker *worker, bool held)
{
    for (unsigned i = 0; i < worker->server->address_count; i++)
        serve_acceptor_hold(&worker->acceptors[i], held);
}

static void release(struct worker *worker, struct connection *connection)
{
    gs_io_stop(&connection->io);
    gs_timer_stop(&connection->timer);
    gs_loop_fd_closed(worker->loop, connection->base.fd);
    serve_connection_done(&connection->base);
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    free(connection);
    worker->connection_count--;
    if (!worker->draining)
        hold_all(worker, false);
    else if (!worker->connection_count)
        gs_loop_stop(worker->loop);
}

/* Take one step that needs no waiting. False: there is none. */
static bool step(struct worker *worker, struct connection *connection, uint64_t now_ns)
{
    struct serve_connection *base = &connection->base;
    unsigned wants = gs_http_conn_wants(&base->http);
    if (wants & GS_HTTP_WRITE && connection->writable) {
        connection->writable = serve_connection_send(base, now_ns) != -EAGAIN;
    } else if (wants & GS_HTTP_LOAD) {
        struct gs_http_load *load = gs_http_conn_take_load(&base->http);
        gs_http_load_run(load);
        gs_http_conn_loaded(&base->http, load, now_ns);
    } else if (wants & GS_HTTP_SHUTDOWN) {
        serve_connection_shut_down(base, now_ns);
    } else if (wants & GS_HTTP_READ && connection->readable) {
        ssize_t n = serve_connection_receive(base, worker->buffer, sizeof worker->buffer, now_ns);
        connection->readable =
            n == (ssize_t)sizeof worker->buffer || (n > 0 && connection->hung_up);
    } else {
        return false;
    }
    return true;
}

/* Have the timer go off when the connection's deadline comes; that it goes off earlier does no harm. */
static int watch_deadline(struct connection *connection)
{
    uint64_t deadline_ns = gs_http_conn_deadline(&connection->base.http);
    struct gs_timer *timer = &connection->timer;
    if (deadline_ns == GS_NEVER || (timer->watcher.active && timer->deadline_ns <= deadline_ns))
        return 0;
    return gs_timer_start(timer, deadline_ns);
}

/* Go as far as it goes without waiting, then wait for the rest. */
static void advance(struct worker *worker, struct connection *connection)
{
    uint64_t now_ns = now(worker);
    unsigned steps = 0;
    while (steps < STEPS_MOST && step(worker, connection, now_ns))
        steps++;
    if (gs_http_conn_wants(&connection->base.http) & GS_HTTP_CLOSE) {
        release(worker, connection);
        return;
    }
    int err = connection->io.watcher.active ? 0 : gs_io_start(&connection->io);
    if (!err)
        err = watch_deadline(connection);
    if (err)
        release(worker, connection);
    else if (steps == STEPS_MOST)
        gs_watcher_feed(&connection->io.watcher, 0); /* the others first */
}

static void on_events(struct gs_io *io, unsigned events)
{
    struct connection *connection =
        (struct connection *)((char *)io - offsetof(struct connection, io));
    if (events & GS_FAILED)
        gs_http_conn_abort(&connection->base.http);
    connection->readable |= (events & GS_READ) != 0;
    connection->writable |= (events & GS_WRITE) != 0;
    connection->hung_up |= (events & GS_HANGUP) != 0;
    advance(io->watcher.data, connection);
}

static void on_deadline(struct gs_timer *timer)
{
    struct connection *connection =
        (struct connection *)((char *)timer - offsetof(struct connection, timer));
    struct worker *worker = timer->watcher.data;
    if (gs_http_conn_deadline(&connection->base.http) <= gs_loop_now(worker->loop))
        serve_connection_expire(&connection->base, gs_loop_now(worker->loop));
    advance(worker, connection);
}

static void on_accepted(void *data, int fd, const struct sockaddr *address)
{
    struct worker *worker = data;
    struct connection *connection = malloc(sizeof *connection);
    if (!connection) {
        gs_sys_close(fd);
        return;
    }
    serve_connection_init(&connection->base, fd, worker->service, address, now(worker));
    connection->readable = connection->writable = true;
    connection->hung_up = false;
    gs_io_init(&connection->io, worker->loop, on_events);
    gs_io_set(&connection->io, fd, GS_READ | GS_WRITE | GS_EDGE);
    connection->io.watcher.data = worker;
    gs_timer_init(&connection->timer, worker->loop, on_deadline);
    connection->timer.watcher.data = worker;
    connection->next = worker->connections;
    connection->link = &worker->connections;
    if (connection->next)
        connection->next->link = &connection->next;
    worker->connections = connection;
    if (++worker->connection_count == worker->connections_most)
        hold_all(worker, true);
    advance(worker, connection);
}

/* Who has connected already is served; what was received is answered; then nothing is left. */
static void on_drain(struct gs_async *async)
{
    struct worker *worker = async->watcher.data;
    unsigned addresses = worker->server->address_count;
    for (unsigned i = 0; i < addresses; i++)
        serve_acceptor_take(&worker->acceptors[i], (unsigned)worker->server->options->backlog);
    for (unsigned i = 0; i < addresses; i++) {
        serve_acceptor_stop(&worker->acceptors[i]);
        gs_loop_fd_closed(worker->loop, worker->acceptors[i].io.fd);
    }
    serve_stop_listening(worker->server, worker->index);
    worker->draining = true;
    for (struct connection *connection = worker->connections, *next; connection;
         connection = next) {
        next = connection->next;
        connection->readable = true;
        step(worker, connection, now(worker));
        gs_http_conn_drain(&connection->base.http, now(worker));
        advance(worker, connection);
    }
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
    struct worker *worker = prepare->watcher.data;
    serve_log_flush(&worker->log);
}

static void *run_worker(void *data)
{
    struct worker *worker = data;
    worker->result = gs_loop_run(worker->loop);
    for (struct connection *connection = worker->connections, *next; connection;
         connection = next) {
        next = connection->next;
        release(worker, connection);
    }
    serve_log_flush(&worker->log);
    return NULL;
}

static int start_accepting(struct worker *worker, const int *listeners)
{
    struct serve_server *server = worker->server;
    for (unsigned i = 0; i < server->address_count; i++) {
        serve_acceptor_init(&worker->acceptors[i], worker->loop, on_accepted, worker);
        int err = serve_acceptor_start(&worker->acceptors[i], listeners[i], server->log_fd >= 0);
        if (err)
            return err;
    }
    return 0;
}

static void worker_free(struct worker *worker)
{
    if (!worker)
        return;
    gs_loop_free(worker->loop);
    gs_http_service_free(worker->service);
    free(worker->acceptors);
    free(worker);
}

static int worker_new(struct serve_server *server, unsigned index, struct worker **ret_worker)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return -ENOMEM;
    worker->server = server;
    worker->index = index;
    worker->log.fd = server->log_fd;
    worker->connections_most =
        (server->options->connections_most + server->workers - 1) / server->workers;
    worker->acceptors = calloc(server->address_count, sizeof *worker->acceptors);
    int err = worker->acceptors ? gs_loop_new(&worker->loop) : -ENOMEM;
    if (!err)
        err =
            serve_service_new(server, index, serve_connection_log, &worker->log, &worker->service);
    if (!err)
        err = start_accepting(worker, server->listeners + (size_t)index * server->address_count);
    if (err) {
        worker_free(worker);
        return err;
    }
    gs_async_init(&worker->drain, worker->loop, on_drain);
    gs_timer_init(&worker->drain_end, worker->loop, on_drain_end);
    gs_prepare_init(&worker->flush_log, worker->loop, on_flush_log);
    worker->drain.watcher.data = worker->flush_log.watcher.data = worker;
    gs_async_start(&worker->drain);
    if (server->log_fd >= 0)
        gs_prepare_start(&worker->flush_log);
    *ret_worker = worker;
    return 0;
}

static int start_all(struct serve_server *server, struct worker **workers, unsigned *ret_started)
{
    for (*ret_started = 0; *ret_started < server->workers; ++*ret_started) {
        struct worker **worker = &workers[*ret_started];
        int err = worker_new(server, *ret_started, worker);
        if (!err)
            err = -pthread_create(&(*worker)->thread, NULL, run_worker, *worker);
        if (err) {
            worker_free(*worker);
            return err;
        }
    }
    return 0;
}

static int run(struct serve_server *server)
{
    struct worker **workers = calloc(server->workers, sizeof *workers);
    unsigned started;
    if (!workers)
        return -ENOMEM;
    serve_block_signals();
    int err = start_all(server, workers, &started);
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

const struct serve_arch serve_arch_event = {
    .name = "event",
    .summary = "an event loop in each worker, which does everything for its connections",
    .workers = "kernel threads, each with a loop and a listening socket",
    .workers_least = 1,
    .run = run,
};
