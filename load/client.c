/* A simulated client: a user thread that makes one request after another, like a user with a
 * browser.
 *
 *     wait       for the think time, or in an open loop until the next request is scheduled
 *     request    connect if necessary, send the request, receive the response
 *     record     the outcome and its times
 *
 * It ends when no request is left or the run is over. While it waits, it notices when the server
 * closes the connection.
 *
 * Times are those of the system calls: connecting lasts from connect until the first send succeeds,
 * a response from before the send until after the receive that returned its last byte. With TLS,
 * connecting includes the handshake, and a response what it takes to encrypt and to decrypt. */
#include "load/request_log.h"
#include "load/worker.h"

#include "http/response_parser.h"

#include <gossamer/io.h>
#include <gossamer/sync.h>
#include <gossamer/sys.h>

#include <errno.h>
#include <stdatomic.h>

/* The pause before a client connects again to a server that refused the connection. */
static const uint64_t retry_interval_ns = 10 * GS_MILLISECOND;

struct client {
    struct load_worker *worker;
    int fd;                  /* -1: not connected */
    bool is_measured;        /* the request started in the measured time */
    bool is_new;             /* the client has not waited for the connection's descriptor yet */
    bool is_reused;          /* the connection was established before the current request */
    size_t request;          /* index in the requests of the target */
    uint64_t response_count; /* on this connection */
    bool has_excess;         /* bytes came after the last response */
    bool is_invalid;         /* the response is not valid HTTP */
    bool is_cut;             /* the last request was not sent whole: its response came before */
    uint64_t connect_ns;     /* LOAD_NO_TIME once the first response was recorded */
    uint64_t handshake_ns;   /* of connect_ns; LOAD_NO_TIME without TLS */
    struct load_timestamps times;
    struct gs_http_response_parser response;
    struct load_tls tls;
};

static void disconnect(struct client *client)
{
    if (client->tls.engine)
        gs_load_tls_close(&client->tls, &client->worker->target->tls);
    if (client->fd >= 0)
        gs_close(client->fd);
    client->fd = -1;
}

/* The error of a request whose call failed with err. -ECANCELED occurs only at the end of the run,
 * when it is not counted. */
static enum load_error error_of(const struct client *client, int err)
{
    if (err == -EPROTO && client->tls.engine)
        return gs_load_tls_error(&client->tls, &client->worker->metrics);
    return err == -ETIMEDOUT || err == -ECANCELED ? LOAD_TIMEOUT : LOAD_RESET;
}

/* ---- Connecting ---- */

static enum load_error fail_to_connect(struct client *client, int err)
{
    struct load_worker *worker = client->worker;
    if (err == -ETIMEDOUT || err == -ECANCELED || err == -EPROTO)
        return error_of(client, err);
    worker->metrics.connect_error = err;
    return err == -ECONNRESET || err == -EPIPE ? LOAD_RESET : LOAD_CONNECT;
}

static int connect_to_server(const struct client *client)
{
    const struct load_addresses *to = &client->worker->target->addresses;
    return gs_sys_connect(client->fd, (const struct sockaddr *)&to->server, to->length);
}

/* On the loopback interface the connection is established on return, otherwise it is pending. */
static int start_connect(struct client *client)
{
    struct load_worker *worker = client->worker;
    client->response_count = 0;
    client->connect_ns = client->handshake_ns = LOAD_NO_TIME;
    client->is_new = true;
    client->is_reused = false;
    client->fd = gs_load_addresses_open_socket(&worker->target->addresses, worker->sources_used++);
    if (client->fd < 0)
        return client->fd;
    int err = connect_to_server(client);
    return err == -EINPROGRESS ? 0 : err;
}

static void record_connection(struct client *client, uint64_t start_ns, uint64_t connected_ns)
{
    struct load_metrics *metrics = &client->worker->metrics;
    bool is_resumed = client->tls.engine && gs_load_tls_record(&client->tls, metrics);
    client->connect_ns = connected_ns - start_ns;
    if (!gs_load_worker_is_measuring(client->worker, connected_ns))
        return;
    metrics->connections++;
    metrics->resumed += is_resumed;
}

/* Calling connect again reports the progress: -EALREADY while the connection is pending. */
static int wait_until_connected(struct client *client, uint64_t deadline_ns)
{
    int err = connect_to_server(client);
    while (err == -EALREADY) {
        client->is_new = false;
        err = gs_wait_writable(client->fd, deadline_ns);
        if (!err)
            err = connect_to_server(client);
    }
    return err;
}

static int make_handshake(struct client *client, uint64_t deadline_ns)
{
    struct load_worker *worker = client->worker;
    uint64_t start_ns = gs_clock_now();
    int err = gs_load_tls_connect(&client->tls, &worker->target->tls, client->fd, deadline_ns);
    client->is_new = false;
    client->handshake_ns = gs_clock_now() - start_ns;
    return err;
}

/* Establish a connection, with TLS if the server has it. Returns 0 or -errno. */
static int establish(struct client *client)
{
    struct load_worker *worker = client->worker;
    uint64_t start_ns = gs_clock_now();
    uint64_t deadline_ns = gs_clock_after(start_ns, worker->settings->timeout_ns);
    int err = start_connect(client);
    if (!err)
        err = wait_until_connected(client, deadline_ns);
    if (!err && worker->target->tls.context)
        err = make_handshake(client, deadline_ns);
    if (!err)
        record_connection(client, start_ns, gs_clock_now());
    return err;
}

/* Establish a connection before the first request. On failure the first request connects, and
 * reports the error. */
static void preconnect(struct client *client)
{
    int err = establish(client);
    if (!err && client->tls.engine)
        err = (int)gs_load_tls_send(&client->tls, NULL, 0);
    if (err)
        disconnect(client);
    else
        client->is_reused = true;
}

/* ---- Receiving ---- */

/* Parse n received bytes. Bytes after the end of the response are ignored, and the connection is
 * not used again. */
static void parse(void *data, const void *bytes, size_t n)
{
    struct client *client = data;
    struct load_worker *worker = client->worker;
    client->times.end_ns = gs_clock_now();
    if (client->times.first_byte_ns == LOAD_NO_TIME) {
        client->times.first_byte_ns = client->times.end_ns;
        atomic_store_explicit(&worker->has_answer, true, memory_order_relaxed);
    }
    if (gs_load_worker_is_measuring(worker, client->times.end_ns))
        worker->metrics.bytes += n;
    ssize_t used = gs_http_response_parser_feed(&client->response, bytes, n);
    if (used < 0)
        worker->metrics.parse_reason = client->response.reason;
    client->is_invalid |= used < 0;
    client->has_excess |= used >= 0 && (size_t)used < n;
}

static ssize_t on_received(void *data, const void *bytes, size_t n)
{
    struct client *client = data;
    if (client->tls.engine)
        return gs_load_tls_receive(&client->tls, bytes, n, parse, client);
    if (n)
        parse(client, bytes, n);
    return (ssize_t)n;
}

/* Receive once, and call fn on the worker's stack. With TLS, until there is plaintext or an end. */
static ssize_t receive(struct client *client, gs_received_fn *fn, uint64_t deadline_ns)
{
    ssize_t n = client->tls.engine ? client->tls.end : -EAGAIN;
    while (n == -EAGAIN) {
        n = gs_recv_with(client->fd, fn, client, deadline_ns);
        if (n == -EAGAIN) /* a message of TLS, which may have an answer */
            (void)!gs_load_tls_send(&client->tls, NULL, 0);
    }
    return n;
}

static enum load_error receive_part(struct client *client, uint64_t deadline_ns)
{
    ssize_t n = receive(client, on_received, deadline_ns);
    if (n < 0)
        return error_of(client, (int)n);
    if (n > 0)
        return client->is_invalid ? LOAD_PARSE : LOAD_OK;
    if (gs_http_response_parser_end(&client->response))
        return LOAD_CLOSED;
    if (gs_load_tls_is_truncated(&client->tls))
        return LOAD_TRUNCATED;
    client->times.end_ns = gs_clock_now();
    return LOAD_OK;
}

static enum load_error receive_response(struct client *client)
{
    uint64_t deadline_ns =
        gs_clock_after(client->times.sent_ns, client->worker->settings->timeout_ns);
    if (client->is_new) {
        /* Yield to other clients even if the response was received already. */
        int err = gs_wait_readable(client->fd, deadline_ns);
        if (err)
            return error_of(client, err);
        client->is_new = false;
    }
    enum load_error error = LOAD_OK;
    while (error == LOAD_OK && !gs_http_response_parser_is_done(&client->response))
        error = receive_part(client, deadline_ns);
    return error;
}

/* ---- Sending ---- */

static bool is_last_on_connection(const struct client *client)
{
    uint64_t limit = client->worker->settings->requests_per_connection;
    return limit && client->response_count + 1 >= limit;
}

static const char *request_bytes(const struct client *client, size_t *ret_length)
{
    const struct load_request *request = &client->worker->target->requests[client->request];
    const struct load_bytes *chosen =
        is_last_on_connection(client) ? &request->last : &request->kept;
    *ret_length = chosen->length;
    return chosen->bytes;
}

/* Send the first part of the request, which succeeds once the connection is established. Returns
 * its length or -errno. */
static ssize_t send_on_new_connection(struct client *client, const char *bytes, size_t length,
                                      uint64_t deadline_ns)
{
    for (;;) {
        client->times.sent_ns = gs_clock_now();
        ssize_t n = gs_send(client->fd, bytes, length, 0, 0);
        if (n != -ETIMEDOUT)
            return n;
        client->is_new = false;
        int err = gs_wait_writable(client->fd, deadline_ns);
        if (err)
            return err;
    }
}

/* Wait until the socket has room. What arrives meanwhile is received: a server may answer, and read
 * no further. */
static enum load_error wait_for_room(struct client *client, uint64_t deadline_ns)
{
    struct gs_select cases[] = {{.fd = client->fd, .events = GS_READ},
                                {.fd = client->fd, .events = GS_WRITE}};
    int ready = gs_select(cases, 2, deadline_ns);
    client->is_new = false;
    if (ready)
        return ready < 0 ? error_of(client, ready) : LOAD_OK;
    enum load_error error = receive_part(client, 0);
    return error == LOAD_TIMEOUT ? LOAD_OK : error;
}

/* Send without waiting. Returns the number of bytes taken, or -ETIMEDOUT if there is no room. */
static ssize_t send_part(struct client *client, const char *bytes, size_t n)
{
    if (client->tls.engine)
        return gs_load_tls_send(&client->tls, bytes, n);
    return gs_send(client->fd, bytes, n, 0, 0);
}

/* Send until the response is complete, or the connection is broken: it may have arrived before. */
static enum load_error send_rest(struct client *client, const char *bytes, size_t n)
{
    uint64_t deadline_ns =
        gs_clock_after(client->times.sent_ns, client->worker->settings->timeout_ns);
    enum load_error error = LOAD_OK;
    while ((n || gs_load_tls_is_sending(&client->tls)) && error == LOAD_OK &&
           !gs_http_response_parser_is_done(&client->response)) {
        ssize_t sent = send_part(client, bytes, n);
        if (sent == -ETIMEDOUT)
            error = wait_for_room(client, deadline_ns);
        else if (sent < 0)
            error = error_of(client, (int)sent);
        else
            bytes += sent, n -= (size_t)sent;
    }
    client->is_cut = n || gs_load_tls_is_sending(&client->tls);
    return error == LOAD_RESET && receive_response(client) == LOAD_OK ? LOAD_OK : error;
}

static enum load_error send_request(struct client *client)
{
    size_t length;
    const char *bytes = request_bytes(client, &length);
    return send_rest(client, bytes, length);
}

static enum load_error connect_by_tls_and_send(struct client *client)
{
    int err = establish(client);
    if (err)
        return fail_to_connect(client, err);
    client->times.sent_ns = gs_clock_now();
    return send_request(client);
}

static enum load_error connect_and_send(struct client *client)
{
    if (client->worker->target->tls.context)
        return connect_by_tls_and_send(client);
    uint64_t start_ns = gs_clock_now();
    int err = start_connect(client);
    if (err)
        return fail_to_connect(client, err);
    size_t length;
    const char *bytes = request_bytes(client, &length);
    ssize_t n = send_on_new_connection(
        client, bytes, length, gs_clock_after(start_ns, client->worker->settings->timeout_ns));
    if (n < 0)
        return fail_to_connect(client, (int)n);
    record_connection(client, start_ns, client->times.sent_ns);
    return send_rest(client, bytes + n, length - (size_t)n);
}

/* ---- Requests ---- */

static enum load_error check_response(struct client *client)
{
    const struct gs_http_response_parser *response = &client->response;
    uint64_t status = client->worker->settings->expect_status;
    uint64_t *length = &client->worker->expected_lengths[client->request];
    bool is_success = response->status >= 200 && response->status <= 399;
    if (status == LOAD_ANY ? !is_success : response->status != status)
        return LOAD_STATUS;
    if (*length == LOAD_FIRST)
        *length = response->body_bytes;
    return *length == LOAD_ANY || *length == response->body_bytes ? LOAD_OK : LOAD_LENGTH;
}

static enum load_error try_request(struct client *client)
{
    gs_http_response_parser_init(&client->response, client->worker->is_head);
    client->times.first_byte_ns = LOAD_NO_TIME;
    client->has_excess = client->is_invalid = false;
    enum load_error error = client->fd < 0 ? connect_and_send(client) : send_request(client);
    if (error == LOAD_OK)
        error = receive_response(client);
    return error == LOAD_OK ? check_response(client) : error;
}

/* A server may close an idle connection while a request is in transit: the request is retried. */
static bool may_retry(const struct client *client, enum load_error error)
{
    return (error == LOAD_CLOSED || error == LOAD_RESET) && client->is_reused &&
           !gs_http_response_parser_has_started(&client->response);
}

static enum load_error make_request(struct client *client)
{
    struct load_worker *worker = client->worker;
    client->request = worker->next_request;
    worker->next_request =
        client->request + 1 == worker->target->request_count ? 0 : client->request + 1;
    client->times.start_ns = client->times.sent_ns = gs_clock_now();
    if (client->is_measured) {
        worker->last_start_ns = client->times.start_ns;
        worker->last_scheduled_ns = client->times.scheduled_ns;
    }
    enum load_error error = try_request(client);
    if (may_retry(client, error)) {
        if (gs_load_worker_is_measuring(worker, client->times.start_ns))
            worker->metrics.retried++;
        disconnect(client);
        error = try_request(client);
    }
    return error;
}

/* A response has a status even if it was not the expected one. */
static void log_request(const struct client *client, enum load_error error, uint64_t end_ns)
{
    const struct load_worker *worker = client->worker;
    const struct load_timestamps *times = &client->times;
    bool has_status = error == LOAD_OK || error == LOAD_STATUS || error == LOAD_LENGTH;
    bool is_scheduled = times->scheduled_ns != LOAD_NO_TIME;
    uint64_t start_ns = is_scheduled ? times->scheduled_ns : times->start_ns;
    bool is_in_flight = worker->is_finished && error == LOAD_TIMEOUT;
    gs_load_request_log_write(worker->settings->log_file, (int64_t)(start_ns - worker->measure_ns),
                              end_ns > start_ns ? end_ns - start_ns : 0,
                              has_status ? (unsigned)client->response.status : 0,
                              is_in_flight ? LOAD_OK : error);
}

static void record_in_flight(struct client *client)
{
    struct load_worker *worker = client->worker;
    if (!client->is_reused && client->connect_ns == LOAD_NO_TIME)
        gs_load_waiting_record(&worker->metrics.to_connect, client->times.start_ns,
                               worker->ended_ns);
    else
        gs_load_waiting_record(&worker->metrics.for_response, client->times.sent_ns,
                               worker->ended_ns);
    log_request(client, LOAD_TIMEOUT, worker->ended_ns);
}

static void record_status(struct client *client, enum load_error error)
{
    struct load_metrics *metrics = &client->worker->metrics;
    if (error == LOAD_OK)
        metrics->statuses[client->response.status]++;
    else if (error == LOAD_STATUS)
        metrics->unexpected_statuses[client->response.status]++;
    metrics->excessive += client->has_excess;
}

static void record_outcome(struct client *client, enum load_error error)
{
    struct load_worker *worker = client->worker;
    if (worker->is_finished && error == LOAD_TIMEOUT)
        record_in_flight(client);
    if (error != LOAD_OK)
        client->times.end_ns = gs_clock_now();
    struct load_sample sample = gs_load_timestamps_sample(&client->times, client->connect_ns);
    sample.handshake_ns = client->handshake_ns;
    client->connect_ns = client->handshake_ns = LOAD_NO_TIME;
    if (error == LOAD_OK)
        gs_load_busy_poll_record_response(&worker->poll, sample.service_ns);
    if (!gs_load_worker_is_counted(worker, client->is_measured, client->times.end_ns))
        return;
    log_request(client, error, client->times.end_ns);
    worker->metrics.queued += gs_load_timestamps_is_queued(&client->times);
    if (error == LOAD_OK)
        gs_load_metrics_record_response(&worker->metrics, &sample);
    else
        gs_load_metrics_record_error(&worker->metrics, error, &sample);
    record_status(client, error);
}

static void disconnect_unless_kept(struct client *client, enum load_error error)
{
    bool is_complete = error == LOAD_OK || error == LOAD_STATUS || error == LOAD_LENGTH;
    if (!is_complete || !client->response.keep_alive || client->has_excess || client->is_cut ||
        is_last_on_connection(client))
        disconnect(client);
    client->response_count++;
    client->is_reused = true;
}

/* ---- Between requests ---- */

static ssize_t on_idle(void *data, const void *bytes, size_t n)
{
    struct client *client = data;
    return client->tls.engine ? gs_load_tls_receive(&client->tls, bytes, n, NULL, NULL)
                              : (ssize_t)n;
}

static void idle_until(struct client *client, uint64_t until_ns)
{
    if (client->fd >= 0) {
        client->is_new = false;
        ssize_t n = receive(client, on_idle, until_ns);
        if (n == -ETIMEDOUT || n == -ECANCELED)
            return;
        disconnect(client); /* the server closed the connection */
    }
    gs_thread_sleep(until_ns);
}

/* Open loop: wait until the next request is scheduled. A client behind the schedule does not wait;
 * it yields if its last request failed, as that may not have waited either. */
static bool wait_until_scheduled(struct client *client, enum load_error error)
{
    struct load_worker *worker = client->worker;
    client->times.scheduled_ns = gs_load_schedule_next(&worker->schedule);
    client->times.free_ns = gs_clock_now();
    if (!gs_load_worker_reserve_request(worker, client->times.scheduled_ns, &client->is_measured))
        return false;
    if (client->times.free_ns < client->times.scheduled_ns)
        idle_until(client, client->times.scheduled_ns);
    else if (error != LOAD_OK)
        gs_thread_yield();
    return !worker->is_finished;
}

/* Closed loop: pause before every request except the first. */
static bool think(struct client *client, enum load_error error)
{
    struct load_worker *worker = client->worker;
    bool is_first = !client->times.sent_ns;
    uint64_t pause_ns = is_first ? 0 : worker->settings->think_ns;
    bool is_refused = error == LOAD_CONNECT || error == LOAD_HANDSHAKE || error == LOAD_CERTIFICATE;
    if (is_refused && pause_ns < retry_interval_ns)
        pause_ns = retry_interval_ns;
    if (pause_ns)
        idle_until(client, gs_clock_after(client->times.end_ns, pause_ns));
    uint64_t now_ns = pause_ns ? gs_clock_now() : client->times.end_ns;
    return gs_load_worker_reserve_request(worker, now_ns, &client->is_measured);
}

static bool wait_for_next_request(struct client *client, enum load_error error)
{
    return gs_load_is_open_loop(client->worker->settings) ? wait_until_scheduled(client, error)
                                                          : think(client, error);
}

void *gs_load_client_run(void *worker)
{
    struct client client = {
        .worker = worker, .fd = -1, .connect_ns = LOAD_NO_TIME, .handshake_ns = LOAD_NO_TIME};
    const struct load_settings *settings = client.worker->settings;
    enum load_error error = LOAD_OK;
    client.times.scheduled_ns = client.times.free_ns = LOAD_NO_TIME;
    client.times.end_ns = gs_clock_now();
    if (gs_load_is_open_loop(settings) && settings->requests_per_connection != 1)
        preconnect(&client);
    while (wait_for_next_request(&client, error)) {
        error = make_request(&client);
        record_outcome(&client, error);
        disconnect_unless_kept(&client, error);
    }
    disconnect(&client);
    gs_load_tls_done(&client.tls);
    return NULL;
}
