#include "load/connection.h"

#include <gossamer/sys.h>

#include <errno.h>

void gs_load_connection_init(struct load_connection *connection, struct load_worker *worker)
{
    *connection = (struct load_connection){
        .worker = worker, .fd = -1, .connect_ns = LOAD_NO_TIME, .handshake_ns = LOAD_NO_TIME};
}

void gs_load_connection_done(struct load_connection *connection)
{
    gs_load_tls_done(&connection->tls);
}

void gs_load_connection_close(struct load_connection *connection)
{
    if (connection->tls.engine)
        gs_load_tls_close(&connection->tls, &connection->worker->target->tls);
    if (connection->fd >= 0)
        gs_close(connection->fd);
    connection->fd = -1;
    connection->is_established = false;
    connection->request_count = 0;
}

/* ---- Errors ---- */

enum load_error gs_load_connection_error(const struct load_connection *connection, int err)
{
    if (err == -EPROTO && connection->tls.engine)
        return gs_load_tls_error(&connection->tls, &connection->worker->metrics);
    return err == -ETIMEDOUT || err == -ECANCELED ? LOAD_TIMEOUT : LOAD_RESET;
}

enum load_error gs_load_connection_connect_error(const struct load_connection *connection, int err)
{
    if (err == -ETIMEDOUT || err == -ECANCELED || err == -EPROTO)
        return gs_load_connection_error(connection, err);
    connection->worker->metrics.connect_error = err;
    return err == -ECONNRESET || err == -EPIPE ? LOAD_RESET : LOAD_CONNECT;
}

/* ---- Connecting ---- */

static int connect_to_server(const struct load_connection *connection)
{
    const struct load_addresses *to = &connection->worker->target->addresses;
    return gs_sys_connect(connection->fd, (const struct sockaddr *)&to->server, to->length);
}

int gs_load_connection_start(struct load_connection *connection)
{
    struct load_worker *worker = connection->worker;
    connection->connect_ns = connection->handshake_ns = LOAD_NO_TIME;
    connection->is_new = true;
    connection->is_reused = false;
    connection->fd =
        gs_load_addresses_open_socket(&worker->target->addresses, worker->sources_used++);
    if (connection->fd < 0)
        return connection->fd;
    int err = connect_to_server(connection);
    return err == -EINPROGRESS ? 0 : err;
}

void gs_load_connection_record(struct load_connection *connection, uint64_t start_ns,
                               uint64_t connected_ns)
{
    struct load_metrics *metrics = &connection->worker->metrics;
    bool is_resumed = connection->tls.engine && gs_load_tls_record(&connection->tls, metrics);
    connection->is_established = true;
    connection->connect_ns = connected_ns - start_ns;
    if (!gs_load_worker_is_measuring(connection->worker, connected_ns))
        return;
    metrics->connections++;
    metrics->resumed += is_resumed;
}

/* Calling connect again reports the progress: -EALREADY while the connection is pending. */
static int wait_until_connected(struct load_connection *connection, uint64_t deadline_ns)
{
    int err = connect_to_server(connection);
    while (err == -EALREADY) {
        connection->is_new = false;
        err = gs_wait_writable(connection->fd, deadline_ns);
        if (!err)
            err = connect_to_server(connection);
    }
    return err;
}

static int make_handshake(struct load_connection *connection, uint64_t deadline_ns)
{
    uint64_t start_ns = gs_clock_now();
    int err = gs_load_tls_connect(&connection->tls, &connection->worker->target->tls,
                                  connection->fd, deadline_ns);
    connection->is_new = false;
    connection->handshake_ns = gs_clock_now() - start_ns;
    return err;
}

int gs_load_connection_establish(struct load_connection *connection)
{
    struct load_worker *worker = connection->worker;
    uint64_t start_ns = gs_clock_now();
    uint64_t deadline_ns = gs_clock_after(start_ns, worker->settings->timeout_ns);
    int err = gs_load_connection_start(connection);
    if (!err)
        err = wait_until_connected(connection, deadline_ns);
    if (!err && worker->target->tls.context)
        err = make_handshake(connection, deadline_ns);
    if (!err)
        gs_load_connection_record(connection, start_ns, gs_clock_now());
    return err;
}

/* ---- Receiving ---- */

ssize_t gs_load_connection_receive(struct load_connection *connection, gs_received_fn *fn,
                                   void *data, uint64_t deadline_ns)
{
    ssize_t n = connection->tls.engine ? connection->tls.end : -EAGAIN;
    while (n == -EAGAIN) {
        n = gs_recv_with(connection->fd, fn, data, deadline_ns);
        if (n == -EAGAIN) /* a message of TLS, which may have an answer */
            (void)!gs_load_tls_send(&connection->tls, NULL, 0);
    }
    return n;
}
