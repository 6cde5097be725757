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
#include "load/exchange.h"

#include "http/response_parser.h"

#include <gossamer/sync.h>

#include <errno.h>

struct client {
    struct load_worker *worker;
    bool is_invalid; /* the response is not valid HTTP */
    bool is_cut;     /* the last request was not sent whole: its response came before */
    struct load_exchange exchange;
    struct gs_http_response_parser response;
    struct load_connection connection;
};

/* Establish a connection before the first request. On failure the first request connects, and
 * reports the error. */
static void preconnect(struct client *client)
{
    struct load_connection *connection = &client->connection;
    int err = gs_load_connection_establish(connection);
    if (!err)
        err = (int)gs_load_connection_send(connection, NULL, 0);
    if (err)
        gs_load_connection_close(connection);
    else
        connection->is_reused = true;
}

/* ---- Receiving ---- */

/* Parse n received bytes. Bytes after the end of the response are ignored, and the connection is
 * not used again. */
static void parse(void *data, const void *bytes, size_t n)
{
    struct client *client = data;
    struct load_worker *worker = client->worker;
    struct load_exchange *exchange = &client->exchange;
    exchange->times.end_ns = gs_clock_now();
    if (exchange->times.first_byte_ns == LOAD_NO_TIME)
        gs_load_exchange_first_byte(exchange, worker, exchange->times.end_ns);
    if (gs_load_worker_is_measuring(worker, exchange->times.end_ns))
        worker->metrics.bytes += n;
    ssize_t used = gs_http_response_parser_feed(&client->response, bytes, n);
    if (used < 0)
        worker->metrics.parse_reason = client->response.reason;
    client->is_invalid |= used < 0;
    exchange->has_excess |= used >= 0 && (size_t)used < n;
}

static ssize_t on_received(void *data, const void *bytes, size_t n)
{
    struct client *client = data;
    return gs_load_connection_decrypt(&client->connection, bytes, n, parse, client);
}

static enum load_error receive_part(struct client *client, uint64_t deadline_ns)
{
    ssize_t n = gs_load_connection_receive(&client->connection, on_received, client, deadline_ns);
    if (n < 0)
        return gs_load_connection_error(&client->connection, (int)n);
    if (n > 0)
        return client->is_invalid ? LOAD_PARSE : LOAD_OK;
    if (gs_http_response_parser_end(&client->response))
        return LOAD_CLOSED;
    if (gs_load_tls_is_truncated(&client->connection.tls))
        return LOAD_TRUNCATED;
    client->exchange.times.end_ns = gs_clock_now();
    return LOAD_OK;
}

static enum load_error receive_response(struct client *client)
{
    uint64_t deadline_ns =
        gs_clock_after(client->exchange.times.sent_ns, client->worker->settings->timeout_ns);
    if (client->connection.is_new) {
        /* Yield to other clients even if the response was received already. */
        int err = gs_wait_readable(client->connection.fd, deadline_ns);
        if (err)
            return gs_load_connection_error(&client->connection, err);
        client->connection.is_new = false;
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
    return limit && client->connection.request_count + 1 >= limit;
}

static const char *request_bytes(const struct client *client, size_t *ret_length)
{
    const struct load_request *request =
        &client->worker->target->requests[client->exchange.request];
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
        client->exchange.times.sent_ns = gs_clock_now();
        ssize_t n = gs_send(client->connection.fd, bytes, length, 0, 0);
        if (n != -ETIMEDOUT)
            return n;
        client->connection.is_new = false;
        int err = gs_wait_writable(client->connection.fd, deadline_ns);
        if (err)
            return err;
    }
}

/* Wait until the socket has room. What arrives meanwhile is received: a server may answer, and read
 * no further. */
static enum load_error wait_for_room(struct client *client, uint64_t deadline_ns)
{
    struct gs_select cases[] = {{.fd = client->connection.fd, .events = GS_READ},
                                {.fd = client->connection.fd, .events = GS_WRITE}};
    int ready = gs_select(cases, 2, deadline_ns);
    client->connection.is_new = false;
    if (ready)
        return ready < 0 ? gs_load_connection_error(&client->connection, ready) : LOAD_OK;
    enum load_error error = receive_part(client, 0);
    return error == LOAD_TIMEOUT ? LOAD_OK : error;
}

/* Send until the response is complete, or the connection is broken: it may have arrived before. */
static enum load_error send_rest(struct client *client, const char *bytes, size_t n)
{
    uint64_t deadline_ns =
        gs_clock_after(client->exchange.times.sent_ns, client->worker->settings->timeout_ns);
    enum load_error error = LOAD_OK;
    while ((n || gs_load_tls_is_sending(&client->connection.tls)) && error == LOAD_OK &&
           !gs_http_response_parser_is_done(&client->response)) {
        ssize_t sent = gs_load_connection_send(&client->connection, bytes, n);
        if (sent == -ETIMEDOUT)
            error = wait_for_room(client, deadline_ns);
        else if (sent < 0)
            error = gs_load_connection_error(&client->connection, (int)sent);
        else
            bytes += sent, n -= (size_t)sent;
    }
    client->is_cut = n || gs_load_tls_is_sending(&client->connection.tls);
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
    int err = gs_load_connection_establish(&client->connection);
    if (err)
        return gs_load_connection_connect_error(&client->connection, err);
    client->exchange.times.sent_ns = gs_clock_now();
    return send_request(client);
}

static enum load_error connect_and_send(struct client *client)
{
    if (client->worker->target->tls.context)
        return connect_by_tls_and_send(client);
    uint64_t start_ns = gs_clock_now();
    int err = gs_load_connection_start(&client->connection);
    if (err)
        return gs_load_connection_connect_error(&client->connection, err);
    size_t length;
    const char *bytes = request_bytes(client, &length);
    ssize_t n = send_on_new_connection(
        client, bytes, length, gs_clock_after(start_ns, client->worker->settings->timeout_ns));
    if (n < 0)
        return gs_load_connection_connect_error(&client->connection, (int)n);
    gs_load_connection_record(&client->connection, start_ns, client->exchange.times.sent_ns);
    return send_rest(client, bytes + n, length - (size_t)n);
}

/* ---- Requests ---- */

static enum load_error check_response(struct client *client)
{
    client->exchange.status = client->response.status;
    client->exchange.body_bytes = client->response.body_bytes;
    return gs_load_exchange_check(&client->exchange, client->worker);
}

static enum load_error try_request(struct client *client)
{
    gs_http_response_parser_init(&client->response, client->worker->is_head);
    client->exchange.times.first_byte_ns = LOAD_NO_TIME;
    client->exchange.has_excess = client->is_invalid = false;
    enum load_error error =
        client->connection.fd < 0 ? connect_and_send(client) : send_request(client);
    if (error == LOAD_OK)
        error = receive_response(client);
    return error == LOAD_OK ? check_response(client) : error;
}

/* A server may close an idle connection while a request is in transit: the request is retried. */
static bool may_retry(const struct client *client, enum load_error error)
{
    return (error == LOAD_CLOSED || error == LOAD_RESET) && client->connection.is_reused &&
           !gs_http_response_parser_has_started(&client->response);
}

static enum load_error make_request(struct client *client)
{
    struct load_worker *worker = client->worker;
    gs_load_exchange_start(&client->exchange, worker, gs_clock_now());
    enum load_error error = try_request(client);
    if (may_retry(client, error)) {
        gs_load_exchange_retry(&client->exchange, worker);
        gs_load_connection_close(&client->connection);
        error = try_request(client);
    }
    return error;
}

static void disconnect_unless_kept(struct client *client, enum load_error error)
{
    bool is_complete = error == LOAD_OK || error == LOAD_STATUS || error == LOAD_LENGTH;
    bool is_last = is_last_on_connection(client);
    client->connection.request_count++;
    if (!is_complete || !client->response.keep_alive || client->exchange.has_excess ||
        client->is_cut || is_last)
        gs_load_connection_close(&client->connection);
    client->connection.is_reused = true;
}

/* ---- Between requests ---- */

static ssize_t on_idle(void *data, const void *bytes, size_t n)
{
    struct client *client = data;
    return gs_load_connection_decrypt(&client->connection, bytes, n, NULL, NULL);
}

static void idle_until(struct client *client, uint64_t until_ns)
{
    if (client->connection.fd >= 0) {
        client->connection.is_new = false;
        ssize_t n = gs_load_connection_receive(&client->connection, on_idle, client, until_ns);
        if (n == -ETIMEDOUT || n == -ECANCELED)
            return;
        gs_load_connection_close(&client->connection); /* the server closed the connection */
    }
    gs_thread_sleep(until_ns);
}

/* Open loop: wait until the next request is scheduled. A client behind the schedule does not wait;
 * it yields if its last request failed, as that may not have waited either. */
static bool wait_until_scheduled(struct client *client, enum load_error error)
{
    struct load_worker *worker = client->worker;
    client->exchange.times.scheduled_ns = gs_load_schedule_next(&worker->schedule);
    client->exchange.times.free_ns = gs_clock_now();
    if (!gs_load_worker_reserve_request(worker, client->exchange.times.scheduled_ns,
                                        &client->exchange.is_measured))
        return false;
    if (client->exchange.times.free_ns < client->exchange.times.scheduled_ns)
        idle_until(client, client->exchange.times.scheduled_ns);
    else if (error != LOAD_OK)
        gs_thread_yield();
    return !worker->is_finished;
}

/* Closed loop: pause before every request except the first. */
static bool think(struct client *client, enum load_error error)
{
    struct load_worker *worker = client->worker;
    bool is_first = !client->exchange.times.sent_ns;
    uint64_t pause_ns = is_first ? 0 : gs_load_pause_ns(worker->settings, error);
    if (pause_ns)
        idle_until(client, gs_clock_after(client->exchange.times.end_ns, pause_ns));
    uint64_t now_ns = pause_ns ? gs_clock_now() : client->exchange.times.end_ns;
    return gs_load_worker_reserve_request(worker, now_ns, &client->exchange.is_measured);
}

static bool wait_for_next_request(struct client *client, enum load_error error)
{
    return gs_load_is_open_loop(client->worker->settings) ? wait_until_scheduled(client, error)
                                                          : think(client, error);
}

void *gs_load_client_run(void *worker)
{
    struct client client = {.worker = worker};
    const struct load_settings *settings = client.worker->settings;
    enum load_error error = LOAD_OK;
    gs_load_connection_init(&client.connection, worker);
    client.exchange.times.scheduled_ns = client.exchange.times.free_ns = LOAD_NO_TIME;
    client.exchange.times.end_ns = gs_clock_now();
    if (gs_load_is_open_loop(settings) && settings->requests_per_connection != 1)
        preconnect(&client);
    while (wait_for_next_request(&client, error)) {
        error = make_request(&client);
        gs_load_exchange_record(&client.exchange, &client.connection, error);
        disconnect_unless_kept(&client, error);
    }
    gs_load_connection_close(&client.connection);
    gs_load_connection_done(&client.connection);
    return NULL;
}
