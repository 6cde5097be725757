/* A connection of HTTP/2: its socket, and who waits for it. */
#include "http_client/http2.h"

#include "http_client/transport.h"
#include "tls/operations.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <stdatomic.h>
#include <stdlib.h>

/* In one go, so that others have their turn. */
#define READS_MAX 8

#define RECEIVE_MAX ((size_t)16 << 10)

/* The bytes of frames that are built ahead. */
#define OUTPUT_MAX ((size_t)64 << 10)

static const struct gs_tls_operations *operations(const struct gs_http_client_http2 *http2)
{
    return gs_tls_operations_of(http2->connection->client->options.tls);
}

/* ---- What others know of it ---- */

static void publish(struct gs_http_client_http2 *http2)
{
    uint32_t limit = gs_http2_client_limit(&http2->engine);
    bool is_over = http2->err || gs_http2_client_is_draining(&http2->engine);
    if (is_over || http2->is_suspect)
        limit = 0;
    atomic_store_explicit(&http2->is_over, is_over, memory_order_relaxed);
    atomic_store_explicit(&http2->knows_limit, http2->engine.has_settings, memory_order_relaxed);
    atomic_store_explicit(&http2->limit, limit, memory_order_relaxed);
}

void gs_http_client_http2_suspect(struct gs_http_client_http2 *http2)
{
    http2->is_suspect = true;
    gs_http2_client_ping(&http2->engine);
}

void gs_http_client_http2_fail(struct gs_http_client_http2 *http2, int err)
{
    if (http2->err)
        return;
    http2->err = err == -EPIPE ? -ECONNRESET : err;
    gs_http2_client_fail(&http2->engine, http2->err);
}

/* ---- Sending, on the worker's stack ---- */

static bool reserve(struct gs_http_client_http2_buffer *buffer, size_t n)
{
    size_t have = buffer->end - buffer->start, size = buffer->size ? buffer->size : 512;
    if (buffer->size - buffer->end >= n)
        return true;
    if (buffer->start)
        memmove(buffer->bytes, buffer->bytes + buffer->start, have);
    buffer->start = 0;
    buffer->end = have;
    while (size - have < n)
        size *= 2;
    char *bytes = size > buffer->size ? realloc(buffer->bytes, size) : buffer->bytes;
    if (!bytes)
        return false;
    buffer->bytes = bytes;
    buffer->size = size;
    return true;
}

bool gs_http_client_http2_append(struct gs_http_client_http2_buffer *buffer, const void *bytes,
                                 size_t n)
{
    if (!reserve(buffer, n))
        return false;
    memcpy(buffer->bytes + buffer->end, bytes, n);
    buffer->end += n;
    return true;
}

static void drop(struct gs_http_client_http2_buffer *buffer, size_t n)
{
    buffer->start += n;
    if (buffer->start < buffer->end)
        return;
    free(buffer->bytes);
    *buffer = (struct gs_http_client_http2_buffer){0};
}

static void build(struct gs_http_client_http2 *http2)
{
    const uint8_t *bytes;
    ssize_t n = 0;
    while (http2->output.end < OUTPUT_MAX &&
           (n = gs_http2_client_output(&http2->engine, &bytes)) > 0) {
        if (!gs_http_client_http2_append(&http2->output, bytes, (size_t)n))
            n = -ENOMEM;
        if (n < 0)
            break;
    }
    if (n < 0)
        gs_http_client_http2_fail(http2, (int)n);
}

static size_t encrypted(const struct gs_http_client_http2 *http2, const char **ret_bytes)
{
    size_t n;
    *ret_bytes = operations(http2)->output(http2->connection->engine, &n);
    return n;
}

static void encrypt(struct gs_http_client_http2 *http2)
{
    size_t n = http2->output.end - http2->output.start;
    if (!n)
        return;
    ssize_t result = operations(http2)->write(http2->connection->engine,
                                              http2->output.bytes + http2->output.start, n);
    http2->is_encrypting_late = result == -EAGAIN;
    if (result >= 0)
        drop(&http2->output, n);
    else if (result != -EAGAIN)
        gs_http_client_http2_fail(http2, (int)result);
}

/* Returns how many bytes are there for the socket. */
static size_t prepare(struct gs_http_client_http2 *http2, const char **ret_bytes)
{
    size_t n = http2->connection->engine ? encrypted(http2, ret_bytes) : 0;
    if (n)
        return n;
    if (http2->output.start == http2->output.end)
        build(http2);
    if (http2->connection->engine) {
        encrypt(http2);
        return encrypted(http2, ret_bytes);
    }
    size_t left = http2->output.end - http2->output.start;
    *ret_bytes = left ? http2->output.bytes + http2->output.start : NULL;
    return left;
}

static void note_sent(struct gs_http_client_http2 *http2, size_t n)
{
    if (http2->connection->engine)
        operations(http2)->sent(http2->connection->engine, n);
    else
        drop(&http2->output, n);
}

static void send_all(struct gs_http_client_http2 *http2)
{
    const char *bytes;
    size_t n;
    ssize_t sent = 0;
    while (!http2->err && (n = prepare(http2, &bytes)) && !http2->err) {
        sent = gs_sys_send(http2->connection->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent == -EAGAIN)
            break;
        if (sent >= 0)
            note_sent(http2, (size_t)sent);
        else if (sent != -EINTR)
            gs_http_client_http2_fail(http2, (int)sent);
    }
    if (gs_http2_client_is_over(&http2->engine))
        gs_http_client_http2_fail(http2, http2->engine.count ? -EPROTO : -ECONNRESET);
    publish(http2);
}

static bool has_output(const struct gs_http_client_http2 *http2)
{
    const char *bytes;
    if (http2->connection->engine && encrypted(http2, &bytes))
        return true;
    return http2->output.start < http2->output.end && !http2->is_encrypting_late;
}

/* There is room for the item, so the call does not wait. */
static void kick(struct gs_http_client_http2 *http2)
{
    if (!http2->is_kicked)
        (void)!gs_channel_send(http2->kick, "", 0);
    http2->is_kicked = true;
}

void gs_http_client_http2_wake(struct gs_http_client_http2_stream *stream)
{
    if (stream->http2->driver == stream)
        kick(stream->http2);
    else
        gs_cond_signal(&stream->changed);
}

static void *flush(void *argument)
{
    send_all(argument);
    return NULL;
}

void gs_http_client_http2_flush(struct gs_http_client_http2 *http2)
{
    gs_thread_call_on_worker_stack(flush, http2);
    if (http2->driver && !http2->driver_writes && has_output(http2))
        kick(http2);
}

/* ---- Receiving, on the worker's stack ---- */

static void take(struct gs_http_client_http2 *http2, const void *bytes, size_t n)
{
    int err = gs_http2_client_receive(&http2->engine, bytes, n, http2->received_ns);
    if (!err)
        return;
    send_all(http2); /* why the connection ends */
    gs_http_client_http2_fail(http2, err);
}

static void take_plain(struct gs_http_client_http2 *http2)
{
    struct gs_http_client_connection *connection = http2->connection;
    size_t n = gs_http_client_input_n(connection);
    if (n && !http2->err)
        take(http2, connection->input + connection->start, n);
    gs_http_client_input_consume(connection, n);
    if (connection->receive_error)
        gs_http_client_http2_fail(http2, connection->receive_error);
    else if (connection->has_ended)
        gs_http_client_http2_fail(http2, -ECONNRESET);
}

static void receive(struct gs_http_client_http2 *http2)
{
    struct gs_http_client_connection *connection = http2->connection;
    char bytes[RECEIVE_MAX];
    ssize_t n = (ssize_t)sizeof bytes;
    for (int i = 0; i < READS_MAX && n == (ssize_t)sizeof bytes && !http2->err; i++) {
        n = gs_sys_recv(connection->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n == -EAGAIN || n == -EINTR)
            return;
        if (n <= 0) {
            gs_http_client_http2_fail(http2, n ? (int)n : -ECONNRESET);
            return;
        }
        http2->received_ns = gs_clock_now();
        http2->is_suspect = false;
        if (connection->engine) {
            gs_http_client_decrypt(connection, bytes, (size_t)n);
            take_plain(http2);
        } else {
            take(http2, bytes, (size_t)n);
        }
    }
}

static void *advance(void *argument)
{
    take_plain(argument); /* what came with the end of the handshake */
    receive(argument);
    send_all(argument);
    return NULL;
}

/* ---- Waiting ---- */

static int follow(struct gs_http_client_http2_stream *stream, uint64_t deadline_ns)
{
    struct gs_http_client_http2 *http2 = stream->http2;
    gs_list_append(&http2->followers, &stream->link);
    int err = gs_cond_wait(&stream->changed, &http2->lock, deadline_ns);
    gs_list_remove(&stream->link);
    return err;
}

enum { READY, KICKED }; /* which case of the select was done */

static int drive(struct gs_http_client_http2_stream *stream, uint64_t deadline_ns)
{
    struct gs_http_client_http2 *http2 = stream->http2;
    char item;
    bool writes = has_output(http2);
    struct gs_select cases[] = {
        {.fd = http2->connection->fd, .events = writes ? GS_READ | GS_WRITE : GS_READ},
        {.channel = http2->kick, .receive = &item}};
    http2->driver = stream;
    http2->driver_writes = writes;
    gs_mutex_unlock(&http2->lock);
    int result = gs_select(cases, 2, deadline_ns);
    gs_thread_yield(); /* a fast server would let the call return at once each time */
    gs_mutex_lock(&http2->lock, GS_NEVER);
    http2->driver = NULL;
    if (http2->is_kicked && result != KICKED)
        (void)!gs_channel_receive(http2->kick, &item, 0);
    http2->is_kicked = false;
    if (result < 0)
        return result;
    gs_thread_call_on_worker_stack(advance, http2);
    return 0;
}

int gs_http_client_http2_wait(struct gs_http_client_http2_stream *stream,
                              bool (*is_done)(const struct gs_http_client_http2_stream *stream),
                              uint64_t deadline_ns)
{
    struct gs_http_client_http2 *http2 = stream->http2;
    int err = 0;
    while (!err && !is_done(stream))
        err = http2->driver ? follow(stream, deadline_ns) : drive(stream, deadline_ns);
    if (!http2->driver && !gs_list_is_empty(&http2->followers))
        gs_http_client_http2_wake(gs_container_of(gs_list_first(&http2->followers),
                                                  struct gs_http_client_http2_stream, link));
    return err;
}

/* ---- The life of a connection ---- */

int gs_http_client_http2_start(struct gs_http_client_connection *connection)
{
    struct gs_http_client_http2 *http2 = calloc(1, sizeof *http2);
    if (!http2)
        return -ENOMEM;
    http2->connection = connection;
    http2->received_ns = gs_clock_now();
    http2->engine.user = &gs_http_client_http2_user;
    http2->engine.now_ns = http2->received_ns;
    gs_list_init(&http2->followers);
    if (gs_channel_new(1, 1, &http2->kick))
        goto free_http2;
    if (gs_http2_client_init(&http2->engine))
        goto free_kick;
    connection->http2 = http2;
    publish(http2);
    return 0;

free_kick:
    gs_channel_free(http2->kick);
free_http2:
    free(http2);
    return -ENOMEM;
}

/* The server is notified, if the socket takes that. */
static void *end(void *argument)
{
    struct gs_http_client_http2 *http2 = argument;
    if (!http2->err) {
        gs_http2_client_close(&http2->engine);
        send_all(http2);
    }
    gs_http2_client_done(&http2->engine);
    return NULL;
}

void gs_http_client_http2_end(struct gs_http_client_connection *connection)
{
    struct gs_http_client_http2 *http2 = connection->http2;
    if (gs_thread_self())
        gs_thread_call_on_worker_stack(end, http2);
    else
        end(http2);
    gs_channel_free(http2->kick);
    free(http2->output.bytes);
    free(http2);
    connection->http2 = NULL;
}

unsigned gs_http_client_http2_limit(const struct gs_http_client_connection *connection)
{
    return atomic_load_explicit(&connection->http2->limit, memory_order_relaxed);
}

bool gs_http_client_http2_knows_limit(const struct gs_http_client_connection *connection)
{
    return atomic_load_explicit(&connection->http2->knows_limit, memory_order_relaxed);
}

bool gs_http_client_http2_is_over(const struct gs_http_client_connection *connection)
{
    return atomic_load_explicit(&connection->http2->is_over, memory_order_relaxed);
}

/* What has arrived since, such as PING or GOAWAY. */
bool gs_http_client_http2_is_alive(struct gs_http_client_connection *connection)
{
    struct gs_http_client_http2 *http2 = connection->http2;
    gs_mutex_lock(&http2->lock, GS_NEVER);
    gs_thread_call_on_worker_stack(advance, http2);
    gs_mutex_unlock(&http2->lock);
    return gs_http_client_http2_limit(connection) > 0;
}
