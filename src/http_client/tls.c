/* TLS of a connection. The engine runs on the worker's stack. */
#include "tls/operations.h"

#include "http_client/error.h"
#include "http_client/transport.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>

/* What is encrypted before it is sent. */
#define PART_MAX (64u << 10)

static const struct gs_tls_operations *
operations(const struct gs_http_client_connection *connection)
{
    return gs_tls_operations_of(connection->client->options.tls);
}

/* ---- On the worker's stack ---- */

/* Sessions are kept by the context, which has the rules that they were made by, under the keys of
 * hosts: those are of use only for the same port. It is left as soon as it has arrived, so that
 * other connections can use it while this one goes on. */
static void leave_session(struct gs_http_client_connection *connection)
{
    connection->has_left_session =
        operations(connection)
            ->leave_session(connection->engine, connection->host->key, connection->offered_session);
}

void gs_http_client_decrypt(struct gs_http_client_connection *connection, const void *bytes,
                            size_t n)
{
    struct gs_tls_input input = {bytes, n};
    size_t room = n ? n : 1;
    ssize_t result = 1;
    while (result > 0) {
        if (!gs_http_client_make_room(connection, room)) {
            result = -ENOMEM;
            break;
        }
        result = operations(connection)
                     ->read(connection->engine, &input, connection->input + connection->end,
                            connection->size - connection->end);
        connection->end += result > 0 ? (size_t)result : 0;
        room = 1;
    }
    gs_http_client_input_consume(connection, 0);
    connection->has_ended |= !result;
    if (result < 0 && result != -EAGAIN)
        connection->receive_error = (int)result;
    else if (!connection->has_left_session)
        leave_session(connection);
}

/* An alert, or the end of the stream, is sent if the socket takes it. */
void gs_http_client_tls_end(struct gs_http_client_connection *connection)
{
    size_t n;
    operations(connection)->close(connection->engine);
    const char *bytes = operations(connection)->output(connection->engine, &n);
    if (n && !connection->has_failed)
        (void)!gs_sys_send(connection->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    operations(connection)->free_engine(connection->engine);
    operations(connection)->free_session(connection->offered_session);
    connection->engine = NULL;
}

struct step {
    struct gs_http_client_connection *connection;
    union {
        const char *host;
        const char *bytes;
        char *text;
    };
    size_t n;
    ssize_t result;
};

static void *start(void *argument)
{
    struct step *step = argument;
    struct gs_http_client_connection *connection = step->connection;
    struct gs_tls_context *context = connection->client->options.tls;
    step->result = operations(connection)->new_engine(context, step->host, &connection->engine);
    if (step->result)
        return NULL;
    connection->offered_session =
        operations(connection)->offer_session(connection->engine, connection->host->key);
    gs_http_client_decrypt(connection, NULL, 0);
    return NULL;
}

static void *encrypt(void *argument)
{
    struct step *step = argument;
    step->result =
        operations(step->connection)->write(step->connection->engine, step->bytes, step->n);
    return NULL;
}

static void *describe(void *argument)
{
    struct step *step = argument;
    operations(step->connection)->error(step->connection->engine, step->text);
    return NULL;
}

/* ---- In the thread ---- */

int gs_http_client_tls_flush(struct gs_http_client_connection *connection, uint64_t deadline_ns)
{
    const char *bytes;
    size_t n;
    int err = 0;
    while (!err && (bytes = operations(connection)->output(connection->engine, &n), n)) {
        ssize_t sent = gs_send(connection->fd, bytes, n, 0, 0);
        if (sent > 0)
            operations(connection)->sent(connection->engine, (size_t)sent);
        err = sent == -ETIMEDOUT ? gs_http_client_wait_for_room(connection, deadline_ns)
              : sent < 0         ? (int)sent
                                 : 0;
    }
    connection->has_failed |= err && err != -ETIMEDOUT && err != -ECANCELED; /* the rest is left */
    return err;
}

/* While a message of the server's handshake is incomplete, nothing can be encrypted. */
static int receive_rest(struct gs_http_client_connection *connection, uint64_t deadline_ns)
{
    int result = gs_http_client_receive(connection, deadline_ns);
    return result > 0 ? 0 : result ? result : -EPIPE;
}

int gs_http_client_tls_transmit(struct gs_http_client_connection *connection, const void *bytes,
                                size_t n, uint64_t deadline_ns)
{
    const char *at = bytes, *end = at + n;
    int err = 0;
    while (at < end && !err) {
        size_t part = end - at < PART_MAX ? (size_t)(end - at) : PART_MAX;
        struct step step = {.connection = connection, .bytes = at, .n = part};
        gs_thread_call_on_worker_stack(encrypt, &step);
        if (step.result == -EAGAIN)
            err = receive_rest(connection, deadline_ns);
        else if (step.result < 0)
            err = gs_http_client_tls_fail(connection, (int)step.result);
        else
            at += part;
        if (!err)
            err = gs_http_client_tls_flush(connection, deadline_ns);
        if (!err && at < end)
            err = gs_thread_sleep(0); /* others run */
    }
    return err;
}

int gs_http_client_tls_fail(struct gs_http_client_connection *connection, int err)
{
    char text[GS_TLS_TEXT] = "";
    struct step step = {.connection = connection, .text = text};
    if (!connection->engine || err != -EPROTO)
        return err;
    gs_thread_call_on_worker_stack(describe, &step);
    return gs_http_client_fail(err, "TLS has failed: %s", text);
}

/* Returns 0, or 1 if it is complete, or -errno. */
static int continue_handshake(struct gs_http_client_connection *connection, uint64_t deadline_ns)
{
    struct gs_tls_info info;
    int err = gs_http_client_tls_flush(connection, deadline_ns);
    if (connection->receive_error)
        return gs_http_client_tls_fail(connection, connection->receive_error);
    if (err)
        return err;
    operations(connection)->info(connection->engine, &info);
    connection->has_chosen_http2 = info.protocol && !strcmp(info.protocol, "h2");
    return info.is_established;
}

static ssize_t on_handshake(void *connection, const void *bytes, size_t n)
{
    if (n)
        gs_http_client_decrypt(connection, bytes, n);
    return n > 0;
}

int gs_http_client_handshake(struct gs_http_client_connection *connection, const char *host,
                             uint64_t deadline_ns)
{
    struct step step = {.connection = connection, .host = host};
    gs_thread_call_on_worker_stack(start, &step);
    if (step.result)
        return (int)step.result;
    int result;
    while (!(result = continue_handshake(connection, deadline_ns))) {
        ssize_t n = connection->has_ended
                        ? 0
                        : gs_recv_with(connection->fd, on_handshake, connection, deadline_ns);
        if (n <= 0)
            return n ? (int)n : -ECONNRESET;
    }
    return result < 0 ? result : 0;
}
