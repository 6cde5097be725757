/* A client of HTTP/2: a user thread with a connection, whose streams make one request after
 * another, each like a client of HTTP/1.
 *
 *                       start                        finish
 *     waiting ----------------------> in flight ----------------------> waiting
 *       ^   for a due time, and room      |   a response, an error, or the timeout
 *       |   on the connection             |
 *       +---------------------------------+
 *         retry: the server has not processed the request
 *
 * The thread starts requests that are due, connects if necessary, sends what nghttp2 has to send,
 * and receives: nghttp2 calls the callbacks of http2_session.c, on the worker's stack, for what has
 * arrived. Whatever they finish waits until the call is over, so that nghttp2 is never called by
 * itself.
 *
 * A connection is used before the server's settings have arrived, as RFC 9113 permits. If the
 * server allows fewer streams than are open then, it refuses the others, whose requests are
 * retried. The limit is kept for later connections, so that none of them is refused twice.
 *
 * A connection drains after GOAWAY, its last request, or a timeout during which nothing at all
 * arrived: no request starts until those in flight have ended; then it is closed, and another is
 * opened. When a connection fails, so do the requests in flight.
 *
 * Times are as in client.c. Requests that are sent at once have one time of sending, and what is
 * received at once has one time of arrival. */
#include "load/http2_session.h"

#include <gossamer/sync.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Responses of a usual size are never held up by flow control. */
enum { WINDOW = 1 << 30 };

static struct http2_stream *first_of(const struct gs_list *list)
{
    struct gs_list *first = gs_list_first(list);
    assert(gs_list_is_linked(first)); /* to the list itself, if that is empty */
    return first == list ? NULL : gs_container_of(first, struct http2_stream, link);
}

/* ---- Sending ---- */

/* The requests that are sent next are the last in flight. */
static void note_sending(struct http2_client *client)
{
    uint64_t now_ns = gs_clock_now();
    for (struct gs_list *link = client->in_flight.previous; link != &client->in_flight;
         link = link->previous) {
        struct http2_stream *stream = gs_container_of(link, struct http2_stream, link);
        if (stream->is_sent)
            return;
        stream->is_sent = true;
        stream->exchange.times.sent_ns = now_ns;
    }
}

/* Send all output without waiting. Returns 0 or -errno. */
static int flush(struct http2_client *client)
{
    ssize_t sent = 0;
    note_sending(client);
    while (sent >= 0) {
        if (client->output_start == client->output_end) {
            client->output_start = client->output_end = 0;
            if (nghttp2_session_send(client->session))
                return -ENOMEM;
        }
        size_t n = client->output_end - client->output_start;
        if (!n && !gs_load_tls_is_sending(&client->connection.tls))
            break;
        sent =
            gs_load_connection_send(&client->connection, client->output + client->output_start, n);
        client->output_start += sent > 0 ? (size_t)sent : 0;
    }
    client->is_blocked = sent == -ETIMEDOUT;
    return sent < 0 && sent != -ETIMEDOUT ? (int)sent : 0;
}

/* ---- Receiving ---- */

static void parse(void *data, const void *bytes, size_t n)
{
    struct http2_client *client = data;
    struct load_worker *worker = client->connection.worker;
    client->received_ns = gs_clock_now();
    if (gs_load_worker_is_measuring(worker, client->received_ns))
        worker->metrics.bytes += n;
    if (client->is_invalid)
        return;
    ssize_t used = nghttp2_session_mem_recv(client->session, bytes, n);
    client->is_invalid = used < 0;
    if (used < 0)
        worker->metrics.parse_reason = nghttp2_strerror((int)used);
}

static void *parse_early(void *argument)
{
    struct http2_client *client = argument;
    parse(client, client->connection.tls.early, client->connection.tls.early_n);
    return NULL;
}

static ssize_t on_received(void *data, const void *bytes, size_t n)
{
    struct http2_client *client = data;
    return gs_load_connection_decrypt(&client->connection, bytes, n, parse, client);
}

/* Wait until something arrives, or the socket has room for what is to be sent. Returns 1, 0 at the
 * end of the connection, or -errno. */
static ssize_t wait_for_socket(struct http2_client *client, uint64_t deadline_ns)
{
    if (client->is_blocked) {
        struct gs_select cases[] = {{.fd = client->connection.fd, .events = GS_READ},
                                    {.fd = client->connection.fd, .events = GS_WRITE}};
        int ready = gs_select(cases, 2, deadline_ns);
        if (ready)
            return ready;
        deadline_ns = 0;
    }
    return gs_load_connection_receive(&client->connection, on_received, client, deadline_ns);
}

/* ---- Connections ---- */

static int start_session(struct http2_client *client)
{
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                               {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW}};
    client->output_start = client->output_end = 0;
    client->is_invalid = client->is_blocked = client->has_settings = false;
    if (nghttp2_session_client_new(&client->session, client->callbacks, client))
        return -ENOMEM;
    int err = nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, settings, 2);
    if (!err)
        err = nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
    for (struct gs_list *link = gs_list_first(&client->in_flight);
         !err && link != &client->in_flight; link = link->next)
        err = gs_load_http2_submit(client, gs_container_of(link, struct http2_stream, link));
    if (!err && client->connection.tls.early)
        gs_thread_call_on_worker_stack(parse_early, client);
    return err ? -ENOMEM : 0;
}

static enum load_error connect_to_server(struct http2_client *client)
{
    int err = gs_load_connection_establish(&client->connection);
    if (!err)
        err = start_session(client);
    return err ? gs_load_connection_connect_error(&client->connection, err) : LOAD_OK;
}

/* Tell the server if there is room, and close the connection. */
static void disconnect(struct http2_client *client)
{
    if (client->session) {
        if (!nghttp2_session_terminate_session(client->session, NGHTTP2_NO_ERROR))
            (void)!flush(client);
        nghttp2_session_del(client->session);
        client->session = NULL;
    }
    gs_load_connection_close(&client->connection);
    client->is_draining = false;
    if (client->stream_limit > NGHTTP2_INITIAL_MAX_CONCURRENT_STREAMS)
        client->stream_limit = NGHTTP2_INITIAL_MAX_CONCURRENT_STREAMS;
}

/* The connection has failed, and with it the requests in flight: the last first, so that those
 * which are retried keep their order. */
static void fail(struct http2_client *client, enum load_error error)
{
    bool is_end = error == LOAD_CLOSED || error == LOAD_RESET;
    while (!gs_list_is_empty(&client->in_flight)) {
        struct http2_stream *stream =
            gs_container_of(client->in_flight.previous, struct http2_stream, link);
        bool has_started = stream->exchange.times.first_byte_ns != LOAD_NO_TIME;
        if (client->session)
            gs_load_http2_detach(client, stream);
        gs_load_http2_finish_or_retry(client, stream, error,
                                      is_end && stream->is_reused && !has_started);
    }
    disconnect(client);
}

/* ---- The next requests ---- */

static bool has_limit_reached(const struct http2_client *client)
{
    uint64_t limit = client->connection.worker->settings->requests_per_connection;
    return limit && client->connection.request_count >= limit;
}

/* Whether no more requests may start on the connection. */
static bool is_draining(const struct http2_client *client)
{
    return client->is_draining || has_limit_reached(client) ||
           (client->session && !nghttp2_session_check_request_allowed(client->session));
}

/* Whether another request may start, on the connection or before it is opened: the first one opens
 * it, even if the last limit was 0. */
static bool has_room(const struct http2_client *client)
{
    bool is_first = !client->session && !client->in_flight_count;
    return (is_first || client->in_flight_count < client->stream_limit) && !is_draining(client);
}

static void start(struct http2_client *client, struct http2_stream *stream, uint64_t now_ns)
{
    struct load_exchange *exchange = &stream->exchange;
    gs_list_remove(&stream->link);
    gs_list_append(&client->in_flight, &stream->link);
    client->in_flight_count++;
    client->connection.request_count++;
    if (!stream->is_retried)
        gs_load_exchange_start(exchange, client->connection.worker, now_ns);
    exchange->times.first_byte_ns = LOAD_NO_TIME;
    exchange->status = 0;
    exchange->body_bytes = 0;
    stream->id = 0;
    stream->is_sent = stream->is_reset = false;
    stream->is_reused = client->session && client->connection.is_reused;
    stream->body_sent = stream->header_bytes = 0;
}

/* When the request of a free stream is due. In an open loop it is the next of the schedule, which
 * is reserved; 0 if none is left. */
static uint64_t due_ns(struct http2_client *client, const struct http2_stream *stream)
{
    struct load_worker *worker = client->connection.worker;
    struct load_exchange *next = &client->next;
    if (stream->is_retried || !gs_load_is_open_loop(worker->settings))
        return stream->due_ns;
    if (!client->has_next) {
        next->times.scheduled_ns = gs_load_schedule_next(&worker->schedule);
        next->times.free_ns = gs_clock_now();
        client->has_next =
            gs_load_worker_reserve_request(worker, next->times.scheduled_ns, &next->is_measured);
    }
    return client->has_next ? next->times.scheduled_ns : 0;
}

/* Take the request that is due. Returns false if none is left. */
static bool reserve(struct http2_client *client, struct http2_stream *stream, uint64_t now_ns)
{
    struct load_worker *worker = client->connection.worker;
    bool has_next = client->has_next;
    if (stream->is_retried)
        return true;
    if (!gs_load_is_open_loop(worker->settings))
        return gs_load_worker_reserve_request(worker, now_ns, &stream->exchange.is_measured);
    stream->exchange = client->next;
    client->has_next = false;
    return has_next;
}

/* Start the requests that are due. A stream that finds none left ends. Returns 0 or -ENOMEM;
 * *ret_next_ns: when the next request is due; GS_NEVER: only after another has ended. */
static int start_requests(struct http2_client *client, uint64_t *ret_next_ns)
{
    uint64_t now_ns = gs_clock_now();
    struct http2_stream *stream;
    int err = 0;
    *ret_next_ns = GS_NEVER;
    while (!err && has_room(client) && (stream = first_of(&client->waiting))) {
        *ret_next_ns = due_ns(client, stream);
        if (*ret_next_ns > now_ns)
            return 0;
        *ret_next_ns = GS_NEVER;
        if (!reserve(client, stream, now_ns)) {
            gs_list_remove(&stream->link);
            continue;
        }
        start(client, stream, now_ns);
        if (client->session)
            err = gs_load_http2_submit(client, stream);
    }
    return err;
}

/* ---- The client ---- */

static uint64_t timeout_of(const struct http2_client *client, const struct http2_stream *stream)
{
    return gs_clock_after(stream->exchange.times.sent_ns,
                          client->connection.worker->settings->timeout_ns);
}

/* End the requests whose time is over. */
static void time_out(struct http2_client *client)
{
    uint64_t now_ns = gs_clock_now();
    for (struct http2_stream *stream; (stream = first_of(&client->in_flight));) {
        if (timeout_of(client, stream) > now_ns)
            return;
        client->is_draining |= client->received_ns < stream->exchange.times.sent_ns;
        gs_load_http2_detach(client, stream);
        (void)!nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, stream->id,
                                         NGHTTP2_CANCEL);
        gs_load_http2_finish(client, stream, LOAD_TIMEOUT);
    }
}

/* Whether nghttp2 has ended the connection because of what the server sent, or the server has. */
static bool is_over(const struct http2_client *client)
{
    return client->is_invalid || (!nghttp2_session_want_read(client->session) &&
                                  !nghttp2_session_want_write(client->session));
}

static enum load_error fail_to_parse(struct http2_client *client)
{
    struct load_metrics *metrics = &client->connection.worker->metrics;
    if (!client->has_settings)
        metrics->parse_reason = "not HTTP/2: the server's first frame is not SETTINGS";
    else if (!metrics->parse_reason)
        metrics->parse_reason = "the server violates HTTP/2";
    return LOAD_PARSE;
}

/* Send, and receive once. */
static enum load_error exchange_frames(struct http2_client *client, uint64_t next_ns)
{
    uint64_t count = client->in_flight_count;
    int err = flush(client);
    if (err)
        return gs_load_connection_error(&client->connection, err);
    if (is_over(client))
        return fail_to_parse(client);
    if (client->in_flight_count < count) /* nghttp2 has reset a stream: there is room */
        return LOAD_OK;
    const struct http2_stream *oldest = first_of(&client->in_flight);
    uint64_t deadline_ns = oldest ? timeout_of(client, oldest) : GS_NEVER;
    ssize_t n = wait_for_socket(client, next_ns < deadline_ns ? next_ns : deadline_ns);
    if (n < 0 && n != -ETIMEDOUT)
        return gs_load_connection_error(&client->connection, (int)n);
    if (n == -ETIMEDOUT)
        time_out(client);
    return n ? LOAD_OK : LOAD_CLOSED;
}

/* With a connection, if one is needed. */
static enum load_error make_requests(struct http2_client *client, uint64_t next_ns)
{
    enum load_error error = LOAD_OK;
    if (!client->session && client->in_flight_count)
        error = connect_to_server(client);
    if (error == LOAD_OK && client->session)
        return exchange_frames(client, next_ns);
    if (error == LOAD_OK)
        gs_thread_sleep(next_ns);
    return error;
}

/* Before the first request of an open loop. On failure the first request connects, and reports the
 * error. */
static void preconnect(struct http2_client *client)
{
    if (gs_load_connection_establish(&client->connection) || start_session(client) || flush(client))
        disconnect(client);
    else
        client->connection.is_reused = true;
}

static void run(struct http2_client *client)
{
    const struct load_settings *settings = client->connection.worker->settings;
    if (gs_load_is_open_loop(settings) && settings->requests_per_connection != 1)
        preconnect(client);
    while (!client->connection.worker->is_finished) {
        uint64_t next_ns;
        int err = start_requests(client, &next_ns);
        if (gs_list_is_empty(&client->waiting) && gs_list_is_empty(&client->in_flight))
            break;
        enum load_error error = err ? gs_load_connection_error(&client->connection, err)
                                    : make_requests(client, next_ns);
        if (error != LOAD_OK) {
            fail(client, error);
            gs_thread_yield();
        } else if (!client->in_flight_count && is_draining(client)) {
            disconnect(client);
        }
    }
    fail(client, LOAD_TIMEOUT); /* at the end of the run */
    gs_load_connection_done(&client->connection);
}

void *gs_load_http2_client_run(void *argument)
{
    struct load_worker *worker = argument;
    size_t count = (size_t)worker->settings->streams;
    struct http2_client *client = calloc(1, sizeof *client + count * sizeof *client->streams);
    if (!client || gs_load_http2_set_callbacks(client)) {
        worker->metrics.connect_error = -ENOMEM;
        gs_load_metrics_record_error(&worker->metrics, LOAD_CONNECT, &(struct load_sample){0});
        free(client);
        return NULL;
    }
    gs_load_connection_init(&client->connection, worker);
    client->stream_limit = NGHTTP2_INITIAL_MAX_CONCURRENT_STREAMS;
    gs_list_init(&client->waiting);
    gs_list_init(&client->in_flight);
    for (size_t i = 0; i < count; i++) {
        client->streams[i].exchange.times.scheduled_ns = LOAD_NO_TIME;
        client->streams[i].exchange.times.free_ns = LOAD_NO_TIME;
        gs_list_append(&client->waiting, &client->streams[i].link);
    }
    run(client);
    nghttp2_session_callbacks_del(client->callbacks);
    free(client);
    return NULL;
}
