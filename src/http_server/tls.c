/* TLS between the socket and the input and output of a connection. The engine belongs to the owner
 * of the connection: a thread, or the home. The handshake consists of bytes without plaintext. They
 * are received as those of a head, with or without a thread, and within the same time. The output
 * of the engine is sent at once as far as the socket takes it; a thread sends the rest. */
#include "http_server/session.h"
#include "tls/operations.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>

/* The head and the beginning of its body are one record. */
#define JOINED_MAX 4096u

/* What is encrypted before it is sent. */
#define PART_MAX (64u << 10)

static const struct gs_tls_operations *operations(const struct gs_http_connection *connection)
{
    return gs_tls_operations_of(connection->sessions->options.tls);
}

const struct gs_tls_stream_operations *
gs_http_tls_stream(const struct gs_http_connection *connection)
{
    return operations(connection)->stream;
}

/* ---- The life of an engine ---- */

static void *new_engine(void *argument)
{
    struct gs_http_connection *connection = argument;
    struct gs_tls_context *context = connection->sessions->options.tls;
    int err = operations(connection)->new_engine(context, NULL, &connection->engine);
    return err ? NULL : connection;
}

bool gs_http_tls_start(struct gs_http_connection *connection)
{
    return !connection->sessions->options.tls || connection->engine ||
           gs_thread_call_on_worker_stack(new_engine, connection);
}

void gs_http_tls_free(struct gs_http_connection *connection)
{
    if (connection->engine)
        operations(connection)->free_engine(connection->engine);
}

/* ---- Sending ---- */

static const char *output(const struct gs_http_connection *connection, size_t *ret_n)
{
    *ret_n = 0;
    return connection->engine ? operations(connection)->output(connection->engine, ret_n) : NULL;
}

bool gs_http_tls_has_output(const struct gs_http_connection *connection)
{
    size_t n;
    output(connection, &n);
    return n;
}

/* Returns 0 or -errno. */
static int try_send(struct gs_http_connection *connection)
{
    size_t n;
    const char *bytes = output(connection, &n);
    ssize_t sent = n ? gs_sys_send(connection->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (sent > 0)
        operations(connection)->sent(connection->engine, (size_t)sent);
    return sent < 0 ? (int)sent : 0;
}

/* An error is found by the next call that receives or sends. */
static void send_now(struct gs_http_connection *connection)
{
    (void)!try_send(connection);
}

ssize_t gs_http_tls_send_now(struct gs_http_connection *connection, const void *bytes, size_t n)
{
    int err = try_send(connection);
    if (!err && gs_http_tls_has_output(connection))
        err = -EAGAIN;
    if (err || !n)
        return err;
    if (n > PART_MAX)
        n = PART_MAX;
    ssize_t result = operations(connection)->write(connection->engine, bytes, n);
    if (result < 0)
        return result;
    err = try_send(connection);
    return err && err != -EAGAIN ? err : (ssize_t)n;
}

int gs_http_tls_flush(struct gs_http_connection *connection, uint64_t deadline_ns)
{
    size_t n;
    const char *bytes = output(connection, &n);
    ssize_t sent = n ? gs_send_all(connection->fd, bytes, n, deadline_ns) : 0;
    if (sent > 0)
        operations(connection)->sent(connection->engine, n);
    return sent < 0 ? (int)sent : 0;
}

struct encryption {
    struct gs_http_connection *connection;
    struct msghdr *message;
    bool is_end; /* close_notify follows the message */
    ssize_t result;
};

/* Copy pieces to `joined`. Returns how many bytes these are. */
static size_t join(struct msghdr *message, char joined[JOINED_MAX])
{
    size_t n = 0;
    while (message->msg_iovlen && n < JOINED_MAX) {
        const struct iovec *piece = message->msg_iov;
        size_t some = piece->iov_len < JOINED_MAX - n ? piece->iov_len : JOINED_MAX - n;
        memcpy(joined + n, piece->iov_base, some);
        n += some;
        gs_http_advance(message, some);
    }
    return n;
}

/* Encrypt a part of the message. */
static void *encrypt(void *argument)
{
    struct encryption *encryption = argument;
    struct gs_http_connection *connection = encryption->connection;
    struct msghdr *message = encryption->message;
    char joined[JOINED_MAX];
    size_t unsent;
    do {
        struct iovec part = *message->msg_iov;
        if (part.iov_len < JOINED_MAX && message->msg_iovlen > 1) {
            part = (struct iovec){joined, join(message, joined)};
        } else {
            part.iov_len = part.iov_len < PART_MAX ? part.iov_len : PART_MAX;
            gs_http_advance(message, part.iov_len);
        }
        encryption->result =
            operations(connection)->write(connection->engine, part.iov_base, part.iov_len);
        output(connection, &unsent);
    } while (encryption->result >= 0 && message->msg_iovlen && unsent < PART_MAX);
    if (encryption->is_end && !message->msg_iovlen)
        operations(connection)->close(connection->engine);
    return NULL;
}

int gs_http_tls_send(struct gs_http_connection *connection, struct msghdr *message, bool is_end,
                     uint64_t deadline_ns)
{
    struct encryption encryption = {connection, message, is_end, 0};
    int err = 0;
    gs_http_advance(message, 0);
    while (message->msg_iovlen && !err) {
        gs_thread_call_on_worker_stack(encrypt, &encryption);
        err = encryption.result < 0 ? (int)encryption.result
                                    : gs_http_tls_flush(connection, deadline_ns);
    }
    return err;
}

/* ---- The end ---- */

void gs_http_tls_end_now(struct gs_http_connection *connection)
{
    if (!connection->engine)
        return;
    operations(connection)->close(connection->engine);
    send_now(connection);
}

static void *end_now(void *connection)
{
    gs_http_tls_end_now(connection);
    return NULL;
}

void gs_http_tls_end(struct gs_http_connection *connection, uint64_t deadline_ns)
{
    gs_thread_call_on_worker_stack(end_now, connection);
    (void)!gs_http_tls_flush(connection, deadline_ns);
}

/* ---- Receiving ---- */

/* To a client that has sent a request without TLS, in place of an alert. */
static void answer_plain(struct gs_http_connection *connection)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\n"
                                 "Content-Type: text/plain\r\n"
                                 "Content-Length: 57\r\n"
                                 "Connection: close\r\n"
                                 "\r\n"
                                 "This port speaks HTTPS: the address begins with https://\n";
    (void)!gs_sys_send(connection->fd, answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void fail(struct gs_http_connection *connection, int err)
{
    struct gs_tls_info info;
    size_t n;
    operations(connection)->info(connection->engine, &info);
    output(connection, &n);
    connection->received_error = err;
    if (info.failure != GS_TLS_FAILED_HTTP)
        return;
    operations(connection)->sent(connection->engine, n);
    answer_plain(connection);
}

ssize_t gs_http_tls_decrypt(struct gs_http_connection *connection, const void *bytes, size_t n)
{
    struct gs_tls_input input = {bytes, n};
    size_t before = gs_http_input_length(connection), room = n;
    ssize_t result = 1;
    while (result > 0) {
        if (!gs_http_input_make_room(connection, room)) {
            result = -ENOMEM;
            break;
        }
        result = operations(connection)
                     ->read(connection->engine, &input, connection->input + connection->input_end,
                            connection->input_size - connection->input_end);
        connection->input_end += result > 0 ? (size_t)result : 0;
        room = 1;
    }
    if (result < 0 && result != -EAGAIN)
        fail(connection, (int)result);
    send_now(connection);
    bool has_plaintext = gs_http_input_length(connection) > before;
    gs_http_input_consume(connection, 0);
    connection->has_ended = !result;
    return has_plaintext || result;
}
