#include "serve/connection/tls.h"

#include "http/http2.h"
#include "serve/connection/turn.h"
#include "serve/operations/certificates.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <gossamer/tls_engine.h>
#include <stdlib.h>
#include <string.h>

/* The plaintext of a record, and what is encrypted at a time. */
#define RECORD_SIZE ((size_t)16384)
#define ENCRYPTED_MAX (4 * RECORD_SIZE)

struct serve_tls {
    struct gs_tls_engine *engine;
    struct serve_certificates *certificates;
    char *kept; /* received, and not decrypted yet */
    size_t kept_n;
    size_t encrypted; /* bytes of HTTP's output that are encrypted, and not sent */
    size_t sent;      /* bytes of it that were sent, which HTTP does not know yet */
    bool is_lent;
    bool has_more; /* there may be plaintext in the engine */
    bool has_ended;
    bool is_established;
    bool has_plain_peer; /* that speaks HTTP without TLS */
};

static size_t unsent(const struct serve_tls *tls)
{
    size_t n;
    (void)gs_tls_engine_output(tls->engine, &n);
    return n;
}

/* ---- What the connection waits for ---- */

unsigned serve_tls_wants(const struct serve_connection *connection)
{
    const struct serve_tls *tls = connection->tls;
    unsigned wants = gs_http_conn_wants(&connection->http);
    if (wants & GS_HTTP_CLOSE || connection->is_shut_down)
        return wants;
    if (tls->is_lent || (unsent(tls) && !(wants & GS_HTTP_WRITE)))
        return (wants & ~(unsigned)(GS_HTTP_READ | GS_HTTP_SHUTDOWN)) | GS_HTTP_WRITE;
    return wants;
}

bool serve_tls_makes_handshake(const struct serve_connection *connection)
{
    return !connection->is_shut_down && (!connection->tls || !connection->tls->is_established);
}

void serve_tls_info(const struct serve_tls *tls, struct gs_tls_info *ret_info)
{
    gs_tls_engine_info(tls->engine, ret_info);
}

/* ---- Receiving ---- */

static int start(struct serve_connection *connection)
{
    struct serve_certificates *certificates = connection->shard->certificates;
    struct serve_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return -ENOMEM;
    struct gs_tls_context *context = serve_certificates_get(certificates);
    int err = gs_tls_engine_new(context, NULL, &tls->engine);
    gs_tls_context_release(context);
    if (err) {
        free(tls);
        return err;
    }
    tls->certificates = certificates;
    connection->tls = tls;
    return 0;
}

static void note_established(struct serve_connection *connection)
{
    struct serve_tls *tls = connection->tls;
    struct gs_tls_info info;
    gs_tls_engine_info(tls->engine, &info);
    tls->is_established = info.is_established;
    if (!info.is_established)
        return;
    serve_certificates_count(tls->certificates, &info);
    if (!info.protocol)
        return;
    if (!strcmp(info.protocol, "h2"))
        gs_http2_expect(&connection->http);
    else
        gs_http2_forbid(&connection->http);
}

/* A reset, which would follow from unread input, could overtake the reason, which is an alert or an
 * answer in plain text: so the connection lingers. */
static void fail(struct serve_connection *connection, uint64_t now_ns)
{
    struct serve_tls *tls = connection->tls;
    struct gs_tls_info info;
    gs_tls_engine_info(tls->engine, &info);
    serve_certificates_count(tls->certificates, &info);
    tls->encrypted = 0;
    if (info.failure == GS_TLS_FAILED_HTTP) {
        tls->has_plain_peer = true;
        gs_tls_engine_sent(tls->engine, unsent(tls));
    }
    if (!tls->has_plain_peer && !unsent(tls)) {
        gs_http_conn_abort(&connection->http);
        return;
    }
    serve_shard_enter(connection->shard, now_ns);
    gs_http_conn_linger(&connection->http, now_ns);
    serve_shard_leave(connection->shard);
}

/* HTTP that wants to read while it writes, too, bounds what it writes. */
static bool may_decrypt(const struct serve_connection *connection)
{
    unsigned wants = gs_http_conn_wants(&connection->http);
    return wants & GS_HTTP_READ && (wants & GS_HTTP_WRITE || unsent(connection->tls) < RECORD_SIZE);
}

static ssize_t step(struct serve_connection *connection, struct gs_tls_input *input, char *plain)
{
    struct serve_tls *tls = connection->tls;
    if (tls->is_established)
        return gs_tls_engine_read(tls->engine, input, plain, RECORD_SIZE);
    uint64_t start_ns = gs_clock_now();
    ssize_t n = gs_tls_engine_read(tls->engine, input, plain, RECORD_SIZE);
    serve_turn_made_handshake(gs_clock_now() - start_ns);
    note_established(connection);
    return n;
}

/* Decrypt the input until HTTP has something to send, or the engine more than a record. */
static void decrypt(struct serve_connection *connection, struct gs_tls_input *input,
                    uint64_t now_ns)
{
    char plain[RECORD_SIZE];
    struct serve_tls *tls = connection->tls;
    ssize_t n = 1;
    while (n > 0 && may_decrypt(connection)) {
        n = step(connection, input, plain);
        if (n >= 0)
            serve_connection_pass(connection, plain, n, now_ns);
    }
    tls->has_more = n > 0;
    bool has_failed = n < 0 && n != -EAGAIN;
    if (has_failed)
        fail(connection, now_ns);
    if (has_failed || !n || gs_http_conn_wants(&connection->http) & GS_HTTP_CLOSE)
        input->n = 0;
}

/* Keep the rest of the input, which may be the end of what is kept. */
static void keep(struct serve_connection *connection, const struct gs_tls_input *input)
{
    struct serve_tls *tls = connection->tls;
    char *kept = NULL;
    if (input->n && input->bytes == tls->kept)
        return;
    if (input->n) {
        kept = malloc(input->n);
        if (kept)
            memcpy(kept, input->bytes, input->n);
        else
            gs_http_conn_abort(&connection->http);
    }
    free(tls->kept);
    tls->kept = kept;
    tls->kept_n = kept ? input->n : 0;
}

static void take(struct serve_connection *connection, struct gs_tls_input *input, uint64_t now_ns)
{
    struct serve_tls *tls = connection->tls;
    if (!tls->is_lent)
        decrypt(connection, input, now_ns);
    keep(connection, input);
    if (!tls->has_ended || tls->kept_n || tls->has_more || tls->is_lent)
        return;
    tls->has_ended = false;
    serve_connection_pass(connection, NULL, 0, now_ns);
}

/* Add to what is kept. Returns false if there is no memory. */
static bool append(struct serve_tls *tls, const char *bytes, size_t n)
{
    char *kept = realloc(tls->kept, tls->kept_n + n);
    if (!kept)
        return false;
    memcpy(kept + tls->kept_n, bytes, n);
    tls->kept = kept;
    tls->kept_n += n;
    return true;
}

static void receive(struct serve_connection *connection, const char *bytes, size_t n,
                    uint64_t now_ns)
{
    struct serve_tls *tls = connection->tls;
    struct gs_tls_input input = {bytes, n};
    tls->has_ended |= !n;
    if (tls->kept_n && n && !append(tls, bytes, n)) {
        gs_http_conn_abort(&connection->http);
        return;
    }
    if (tls->kept_n)
        input = (struct gs_tls_input){tls->kept, tls->kept_n};
    take(connection, &input, now_ns);
}

/* Once our side is shut down, HTTP discards what comes: that need not be decrypted. */
void serve_tls_received(struct serve_connection *connection, const char *bytes, ssize_t n,
                        uint64_t now_ns)
{
    if (n < 0 || connection->is_shut_down || (!n && !connection->tls))
        serve_connection_pass(connection, bytes, n, now_ns);
    else if (!connection->tls && start(connection))
        gs_http_conn_abort(&connection->http);
    else
        receive(connection, bytes, (size_t)n, now_ns);
}

void serve_tls_resume(struct serve_connection *connection, uint64_t now_ns)
{
    struct serve_tls *tls = connection->tls;
    struct gs_tls_input input = {tls->kept, tls->kept_n};
    if ((tls->kept_n || tls->has_more || tls->has_ended) &&
        serve_tls_wants(connection) & GS_HTTP_READ)
        take(connection, &input, now_ns);
}

/* ---- Sending ---- */

bool serve_tls_has_unsent(const struct serve_tls *tls)
{
    return tls->encrypted;
}

bool serve_tls_lend(struct serve_tls *tls)
{
    tls->is_lent = true;
    return tls->encrypted;
}

/* Plaintext that is to be encrypted in full records, as far as there is so much: what is no record
 * where it is, as the headers of frames, is copied. */
struct filling {
    struct gs_tls_engine *engine;
    size_t n;
    char plain[RECORD_SIZE];
};

/* Returns the bytes that were taken, or an error of gs_tls_engine_write. */
static ssize_t fill(struct filling *filling, const char *bytes, size_t n)
{
    if (!filling->n && n >= RECORD_SIZE)
        return gs_tls_engine_write(filling->engine, bytes, n - n % RECORD_SIZE);
    if (n > RECORD_SIZE - filling->n)
        n = RECORD_SIZE - filling->n;
    memcpy(filling->plain + filling->n, bytes, n);
    filling->n += n;
    if (filling->n < RECORD_SIZE)
        return (ssize_t)n;
    ssize_t written = gs_tls_engine_write(filling->engine, filling->plain, RECORD_SIZE);
    filling->n = 0;
    return written < 0 ? written : (ssize_t)n;
}

/* Returns the bytes that were encrypted, or an error. */
static ssize_t encrypt_parts(struct gs_tls_engine *engine, const struct serve_output *output)
{
    struct filling filling;
    filling.engine = engine;
    filling.n = 0;
    size_t sum = 0;
    ssize_t n = 0;
    for (unsigned i = 0; i < output->count; i++) {
        const char *at = output->parts[i].iov_base, *end = at + output->parts[i].iov_len;
        if ((size_t)(end - at) > ENCRYPTED_MAX - sum)
            end = at + (ENCRYPTED_MAX - sum);
        sum += (size_t)(end - at);
        while (n >= 0 && at < end) {
            n = fill(&filling, at, (size_t)(end - at));
            at += n > 0 ? n : 0;
        }
    }
    if (n >= 0)
        n = gs_tls_engine_write(engine, filling.plain, filling.n);
    return n < 0 ? n : (ssize_t)sum;
}

/* The last bytes of the connection are followed by close_notify, so that one call sends both. A
 * handshake has no bytes of HTTP, and is not the end. Returns 0 or -errno. */
static ssize_t encrypt(struct serve_tls *tls, const struct serve_output *output)
{
    const struct iovec *first = output->parts;
    size_t most = output->count ? first->iov_len : 0;
    if (most > ENCRYPTED_MAX)
        most = ENCRYPTED_MAX;
    ssize_t n = output->count > 1 ? encrypt_parts(tls->engine, output)
                : most            ? gs_tls_engine_write(tls->engine, first->iov_base, most)
                                  : 0;
    if (n < 0)
        return -EPROTO; /* also for -ENOMEM, after which it can't be tried again */
    tls->encrypted = (size_t)n;
    if (n && tls->encrypted == output->last_bytes)
        gs_tls_engine_close(tls->engine);
    return 0;
}

/* Of the output that is encrypted, as many bytes count as sent as were sent of the ciphertext; the
 * last one when all was. */
static void note_progress(struct serve_tls *tls, size_t n, bool is_all)
{
    size_t most = is_all || !tls->encrypted ? tls->encrypted : tls->encrypted - 1;
    size_t of_http = is_all || n > most ? most : n;
    tls->encrypted -= of_http;
    tls->sent += of_http;
}

ssize_t serve_tls_send(struct serve_tls *tls, const struct serve_output *output, int fd)
{
    size_t left;
    ssize_t n = tls->encrypted ? 0 : encrypt(tls, output);
    const char *bytes = gs_tls_engine_output(tls->engine, &left);
    if (n < 0)
        return n;
    if (!left)
        return -EAGAIN;
    do
        n = gs_sys_send(fd, bytes, left, output->flags);
    while (n == -EINTR);
    if (n > 0) {
        gs_tls_engine_sent(tls->engine, (size_t)n);
        note_progress(tls, (size_t)n, (size_t)n == left);
    }
    return n;
}

size_t serve_tls_sent(struct serve_tls *tls)
{
    size_t sent = tls->sent;
    tls->is_lent = false;
    tls->sent = 0;
    return sent;
}

/* ---- The end ---- */

static void flush(struct serve_connection *connection)
{
    size_t n;
    const char *bytes = gs_tls_engine_output(connection->tls->engine, &n);
    if (n)
        (void)!gs_sys_send(connection->fd, bytes, n, 0);
}

static void answer_plain(struct serve_connection *connection)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\n"
                                 "Content-Type: text/plain; charset=utf-8\r\n"
                                 "Content-Length: 57\r\n"
                                 "Connection: close\r\n"
                                 "\r\n"
                                 "This port speaks HTTPS: the address begins with https://\n";
    (void)!gs_sys_send(connection->fd, answer, sizeof answer - 1, 0);
}

void serve_tls_close(struct serve_connection *connection)
{
    if (connection->tls->has_plain_peer) {
        answer_plain(connection);
        return;
    }
    gs_tls_engine_close(connection->tls->engine);
    flush(connection);
}

/* An answer that was broken off must not look complete. */
void serve_tls_end(struct serve_connection *connection)
{
    struct serve_tls *tls = connection->tls;
    struct gs_http_piece piece;
    struct gs_tls_info info;
    serve_tls_info(tls, &info);
    if (!info.is_established && !info.failure)
        serve_certificates_count(tls->certificates, &info);
    bool is_broken_off = tls->is_lent || gs_http_conn_output(&connection->http, &piece, 1);
    if (!is_broken_off && !connection->is_shut_down)
        serve_tls_close(connection);
}

void serve_tls_free(struct serve_tls *tls)
{
    if (!tls)
        return;
    gs_tls_engine_free(tls->engine);
    free(tls->kept);
    free(tls);
}
