#include "serve/operations/metrics_listener.h"

#include "serve/accept/listener.h"
#include "serve/accept/unix_socket.h"
#include "serve/operations/server.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>

#define BUFFER 4096

int serve_metrics_listener_open(struct serve_metrics_listener *listener,
                                const struct serve_options *options)
{
    const char *problem;
    listener->fd = -1;
    if (!options->metrics_listen)
        return 0;
    if (serve_address_parse(options->metrics_listen, &listener->address, &problem))
        return cli_fail(&serve_command, "--metrics-listen %s %s", options->metrics_listen, problem);
    listener->fd = serve_listen(&listener->address, options, SERVE_ALONE);
    return listener->fd < 0 ? listener->fd : 0;
}

void serve_metrics_listener_close(struct serve_metrics_listener *listener)
{
    if (listener->fd < 0)
        return;
    gs_sys_close(listener->fd);
    serve_unix_socket_remove(&listener->address);
    listener->fd = -1;
}

/* ---- Connections ---- */

static void end(struct serve_metrics_connection *connection)
{
    struct serve_metrics_listener *listener = connection->listener;
    unsigned at = 0;
    while (listener->connections[at] != connection)
        at++;
    listener->connections[at] = listener->connections[--listener->open];
    int fd = connection->io.fd;
    gs_io_stop(&connection->io);
    gs_timer_stop(&connection->expiry);
    gs_http_conn_done(&connection->http);
    gs_sys_close(fd);
    free(connection);
    gs_io_set_events(&listener->io, GS_READ);
}

/* Returns whether to go on. */
static bool receive(struct serve_metrics_connection *connection, uint64_t now_ns)
{
    char buffer[BUFFER];
    ssize_t n = gs_sys_recv(connection->io.fd, buffer, sizeof buffer, 0);
    if (n > 0)
        gs_http_conn_receive(&connection->http, buffer, (size_t)n, now_ns);
    else if (!n)
        gs_http_conn_receive_eof(&connection->http, now_ns);
    else if (n != -EAGAIN && n != -EINTR)
        gs_http_conn_abort(&connection->http);
    return n != -EAGAIN;
}

/* Generated pages are memory. Returns whether to go on. */
static bool transmit(struct serve_metrics_connection *connection, uint64_t now_ns)
{
    struct gs_http_piece piece;
    if (!gs_http_conn_output(&connection->http, &piece, 1))
        return false;
    ssize_t n = gs_sys_send(connection->io.fd, piece.bytes, (size_t)piece.n, 0);
    if (n >= 0)
        gs_http_conn_sent(&connection->http, (uint64_t)n, now_ns);
    else if (n != -EAGAIN && n != -EINTR)
        gs_http_conn_abort(&connection->http);
    return n != -EAGAIN;
}

static void load(struct serve_metrics_connection *connection, uint64_t now_ns)
{
    struct gs_http_load *taken = gs_http_conn_take_load(&connection->http);
    gs_http_load_run(taken);
    gs_http_conn_loaded(&connection->http, taken, now_ns);
}

static bool step(struct serve_metrics_connection *connection, uint64_t now_ns)
{
    unsigned wants = gs_http_conn_wants(&connection->http);
    if (wants & GS_HTTP_LOAD) {
        load(connection, now_ns);
        return true;
    }
    if (wants & GS_HTTP_WRITE && transmit(connection, now_ns))
        return true;
    if (wants & GS_HTTP_SHUTDOWN) {
        gs_sys_shutdown(connection->io.fd, SHUT_WR);
        gs_http_conn_shut_down(&connection->http, now_ns);
        return true;
    }
    return wants & GS_HTTP_READ && receive(connection, now_ns);
}

/* Do what can be done without waiting. */
static void advance(struct serve_metrics_connection *connection)
{
    uint64_t now_ns = gs_loop_now(connection->io.watcher.loop);
    unsigned wants = gs_http_conn_wants(&connection->http);
    gs_http_service_set_wall_clock(connection->listener->service, gs_clock_now(), gs_clock_wall());
    while (!(wants & GS_HTTP_CLOSE) && step(connection, now_ns))
        wants = gs_http_conn_wants(&connection->http);
    wants = gs_http_conn_wants(&connection->http);
    if (wants & GS_HTTP_CLOSE) {
        end(connection);
        return;
    }
    gs_io_set_events(&connection->io,
                     (wants & GS_HTTP_READ ? GS_READ : 0) | (wants & GS_HTTP_WRITE ? GS_WRITE : 0));
    if (gs_timer_start(&connection->expiry, gs_http_conn_deadline(&connection->http)))
        end(connection);
}

static void on_ready(struct gs_io *io, unsigned events)
{
    (void)events;
    advance(io->watcher.data);
}

static void on_expiry(struct gs_timer *timer)
{
    struct serve_metrics_connection *connection = timer->watcher.data;
    gs_http_conn_expire(&connection->http, 0, gs_loop_now(timer->watcher.loop));
    advance(connection);
}

/* Takes the descriptor. */
static void start(struct serve_metrics_listener *listener, int fd)
{
    struct gs_loop *loop = listener->io.watcher.loop;
    struct serve_metrics_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        gs_sys_close(fd);
        return;
    }
    connection->listener = listener;
    gs_http_conn_init(&connection->http, listener->service, gs_loop_now(loop));
    gs_io_init(&connection->io, loop, on_ready);
    gs_io_set(&connection->io, fd, GS_READ);
    gs_timer_init(&connection->expiry, loop, on_expiry);
    connection->io.watcher.data = connection->expiry.watcher.data = connection;
    listener->connections[listener->open++] = connection;
    if (gs_io_start(&connection->io))
        end(connection);
    else
        advance(connection);
}

static void on_listener(struct gs_io *io, unsigned events)
{
    struct serve_metrics_listener *listener = io->watcher.data;
    (void)events;
    int fd = gs_sys_accept(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        start(listener, fd);
    if (listener->open == SERVE_METRICS_CONNECTIONS)
        gs_io_set_events(io, 0);
}

int serve_metrics_listener_start(struct serve_metrics_listener *listener,
                                 const struct serve_server *server, struct gs_loop *loop)
{
    struct gs_http_options options;
    if (listener->fd < 0)
        return 0;
    gs_http_options_default(&options);
    options.generators = server->generators; /* of which that of the metrics is the first */
    options.generator_count = 1;
    int err = gs_http_service_new(&options, -1, &listener->counts, &listener->service);
    if (err)
        return err;
    gs_io_init(&listener->io, loop, on_listener);
    gs_io_set(&listener->io, listener->fd, GS_READ);
    listener->io.watcher.data = listener;
    return gs_io_start(&listener->io);
}

void serve_metrics_listener_stop(struct serve_metrics_listener *listener)
{
    if (!listener->service)
        return;
    for (unsigned i = listener->open; i--;)
        end(listener->connections[i]);
    gs_io_stop(&listener->io);
    gs_http_service_free(listener->service);
    listener->service = NULL;
}
