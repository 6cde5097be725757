/* OpenSSL's queue of errors belongs to the kernel thread, and a user thread may wait between two
 * calls: so each call here begins with an empty queue, and reads it before it returns. */
#include "tls/engine.h"

#include "tls/secrets.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

/* Of a peer that sends key updates or asks for new handshakes. OpenSSL itself has limits for
 * warnings and for empty records. */
#define MAX_MESSAGES 32

/* ---- Life ---- */

/* A name that begins with a dot would be any below it. Common names do not count (RFC 9525). */
static int set_server_name(struct gs_tls_engine *engine, const char *name)
{
    X509_VERIFY_PARAM *rules = SSL_get0_param(engine->ssl);
    if (!name)
        return engine->context->verifies ? -EINVAL : 0;
    if (!*name || *name == '.' || strlen(name) > 255)
        return -EINVAL;
    if (X509_VERIFY_PARAM_set1_ip_asc(rules, name))
        return 0;
    SSL_set_hostflags(engine->ssl,
                      X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set1_host(engine->ssl, name) && SSL_set_tlsext_host_name(engine->ssl, name)
               ? 0
               : -ENOMEM;
}

static int init(struct gs_tls_engine *engine, const char *server_name)
{
    engine->ssl = SSL_new(engine->context->ssl);
    BIO *bio = engine->ssl ? gs_tls_bio_new(engine) : NULL;
    if (!bio)
        return -ENOMEM;
    SSL_set_bio(engine->ssl, bio, bio);
    if (!engine->context->is_client) {
        SSL_set_accept_state(engine->ssl);
        return 0;
    }
    SSL_set_connect_state(engine->ssl);
    return set_server_name(engine, server_name);
}

int gs_tls_engine_new(struct gs_tls_context *context, const char *server_name,
                      struct gs_tls_engine **ret_engine)
{
    struct gs_tls_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return -ENOMEM;
    gs_tls_context_hold(context);
    engine->context = context;
    ERR_clear_error();
    int err = init(engine, server_name);
    ERR_clear_error();
    if (err)
        gs_tls_engine_free(engine);
    else
        *ret_engine = engine;
    return err;
}

/* A session of a connection that was not shut down could not be resumed. */
void gs_tls_drop_openssl(struct gs_tls_engine *engine)
{
    if (engine->ssl && !engine->has_failed)
        SSL_set_shutdown(engine->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(engine->ssl);
    engine->ssl = NULL;
}

void gs_tls_engine_free(struct gs_tls_engine *engine)
{
    if (!engine)
        return;
    gs_tls_drop_openssl(engine);
    gs_tls_traffic_free(engine->traffic);
    gs_tls_records_free(engine->records);
    gs_tls_context_release(engine->context);
    if (engine->kept)
        SSL_SESSION_free(engine->kept->session);
    free(engine->kept);
    free(engine->output);
    free(engine->server_name);
    free(engine->text);
    free(engine);
}

/* ---- What OpenSSL says ---- */

bool gs_tls_is_flood(struct gs_tls_engine *engine)
{
    engine->is_flooded = engine->is_flooded || ++engine->messages > MAX_MESSAGES;
    engine->has_failed |= engine->is_flooded;
    return engine->is_flooded;
}

void gs_tls_on_message(int is_sent, int version, int type, const void *bytes, size_t n, SSL *ssl,
                       void *unused)
{
    struct gs_tls_engine *engine = gs_tls_engine_of(ssl);
    uint64_t *count = is_sent ? &engine->sent_records : &engine->received_records;
    int first = n ? *(const unsigned char *)bytes : -1;
    int message = type == SSL3_RT_HANDSHAKE ? first : -1;
    (void)version, (void)unused;
    if (type == SSL3_RT_HEADER) /* without the records that are not encrypted */
        *count += first == SSL3_RT_APPLICATION_DATA;
    else if (message == SSL3_MT_FINISHED || message == SSL3_MT_KEY_UPDATE)
        *count = 0;
    engine->has_new_keys |= message == SSL3_MT_KEY_UPDATE;
    bool is_answer = is_sent && type == SSL3_RT_ALERT && !engine->is_closed;
    if (engine->is_established && (is_answer || (message >= 0 && !is_sent)))
        (void)gs_tls_is_flood(engine);
}

/* Returns the result for one of OpenSSL's that is not positive; the queue of errors is emptied. */
static int failed(struct gs_tls_engine *engine, int result)
{
    int error = SSL_get_error(engine->ssl, result);
    unsigned long first = ERR_peek_error(), next;
    while ((next = ERR_get_error()))
        engine->lacks_memory |= ERR_GET_REASON(next) == ERR_R_MALLOC_FAILURE;
    if (engine->has_failed)
        return -EPROTO;
    if (error == SSL_ERROR_WANT_READ)
        return -EAGAIN;
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    engine->has_failed = true;
    engine->error = first;
    return engine->lacks_memory ? -ENOMEM : -EPROTO;
}

/* ---- Reading ---- */

/* A server that speaks HTTP answers a client's first message in it. */
static bool is_http(const struct gs_tls_input *input)
{
    return input->n >= 5 && !memcmp(input->bytes, "HTTP/", 5);
}

/* Whether a client's first bytes are a request without TLS. OpenSSL 3.5 takes some of these for
 * records that are too long. Returns OpenSSL's reason; 0: they are not. */
static int find_request(const struct gs_tls_engine *engine, const struct gs_tls_input *input)
{
    static const char *const methods[] = {"CONNE", "GET ",  "HEAD ", "POST ", "PUT ",
                                          "PATCH", "OPTIO", "DELET", "TRACE"};
    if (engine->context->is_client || !SSL_in_before(engine->ssl) || input->n < 5)
        return 0;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!memcmp(input->bytes, methods[i], strlen(methods[i])))
            return i ? SSL_R_HTTP_REQUEST : SSL_R_HTTPS_PROXY_REQUEST;
    return 0;
}

/* Returns 0: the handshake is complete; or an error. */
static int make_handshake(struct gs_tls_engine *engine, struct gs_tls_input *input)
{
    int request = find_request(engine, input);
    if (request) {
        engine->error = ERR_PACK(ERR_LIB_SSL, 0, request);
        engine->has_failed = true;
        return -EPROTO;
    }
    engine->speaks_http = engine->context->is_client && is_http(input);
    ERR_clear_error();
    engine->input = input;
    gs_tls_secrets_watch(engine->context->takes_over ? engine : NULL);
    int result = SSL_do_handshake(engine->ssl);
    gs_tls_secrets_watch(NULL);
    engine->input = NULL;
    if (result <= 0)
        return failed(engine, result);
    if (!gs_tls_keep_server_name(engine)) {
        engine->lacks_memory = engine->has_failed = true;
        return -ENOMEM;
    }
    engine->is_established = true;
    engine->speaks_http = false;
    if (!engine->context->is_client)
        gs_tls_records_take_over(engine);
    return 0;
}

/* Does nothing while OpenSSL waits for the rest of a message. */
static void shut_down(SSL *ssl)
{
    if (!(SSL_get_shutdown(ssl) & SSL_SENT_SHUTDOWN))
        (void)SSL_shutdown(ssl);
    ERR_clear_error();
}

static ssize_t read_by_openssl(struct gs_tls_engine *engine, struct gs_tls_input *input,
                               void *plain, size_t size)
{
    size_t n = 0;
    if (!input->n && !SSL_has_pending(engine->ssl))
        return SSL_get_shutdown(engine->ssl) & SSL_RECEIVED_SHUTDOWN ? 0 : -EAGAIN;
    ERR_clear_error();
    engine->input = input;
    int result = SSL_read_ex(engine->ssl, plain, size, &n);
    engine->input = NULL;
    int err = result > 0 && !engine->has_failed ? 0 : failed(engine, result);
    if (engine->is_closed && !engine->has_failed)
        shut_down(engine->ssl);
    if (!n || engine->has_failed)
        return err;
    engine->messages = 0;
    gs_tls_records_take_over(engine);
    return (ssize_t)n;
}

ssize_t gs_tls_engine_read(struct gs_tls_engine *engine, struct gs_tls_input *input, void *plain,
                           size_t size)
{
    if (engine->has_failed)
        return -EPROTO;
    int err = engine->is_established ? 0 : make_handshake(engine, input);
    if (err)
        return err;
    return engine->ssl ? read_by_openssl(engine, input, plain, size)
                       : gs_tls_records_read(engine, input, plain, size);
}

/* ---- Writing ---- */

/* OpenSSL does not change the key by itself. */
static void limit_key(struct gs_tls_engine *engine)
{
    if (engine->sent_records >= GS_TLS_MAX_RECORDS && SSL_version(engine->ssl) == TLS1_3_VERSION &&
        SSL_is_init_finished(engine->ssl))
        (void)SSL_key_update(engine->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
}

static ssize_t write_by_openssl(struct gs_tls_engine *engine, const void *bytes, size_t n)
{
    const char *at = bytes;
    size_t left = n, written;
    ERR_clear_error();
    while (left) {
        limit_key(engine);
        int result = SSL_write_ex(engine->ssl, at, left, &written);
        if (result <= 0)
            return failed(engine, result);
        at += written;
        left -= written;
    }
    return (ssize_t)n;
}

ssize_t gs_tls_engine_write(struct gs_tls_engine *engine, const void *bytes, size_t n)
{
    if (engine->has_failed)
        return -EPROTO;
    if (engine->is_closed)
        return -EPIPE;
    if (!engine->is_established)
        return -EAGAIN;
    return engine->ssl ? write_by_openssl(engine, bytes, n)
                       : gs_tls_records_write(engine, bytes, n);
}

void gs_tls_engine_close(struct gs_tls_engine *engine)
{
    if (engine->has_failed || engine->is_closed || !engine->is_established)
        return;
    engine->is_closed = true;
    if (engine->ssl) {
        ERR_clear_error();
        shut_down(engine->ssl);
    } else {
        gs_tls_records_close(engine);
    }
}

const char *gs_tls_engine_output(const struct gs_tls_engine *engine, size_t *ret_n)
{
    *ret_n = engine->output_n - engine->sent;
    return engine->output ? engine->output + engine->sent : NULL;
}

void gs_tls_engine_sent(struct gs_tls_engine *engine, size_t n)
{
    engine->sent += n;
    if (engine->sent < engine->output_n)
        return;
    free(engine->output);
    engine->output = NULL;
    engine->output_n = engine->output_size = engine->sent = 0;
}

const struct gs_tls_operations gs_tls_operations = {
    .new_engine = gs_tls_engine_new,
    .free_engine = gs_tls_engine_free,
    .read = gs_tls_engine_read,
    .write = gs_tls_engine_write,
    .close = gs_tls_engine_close,
    .output = gs_tls_engine_output,
    .sent = gs_tls_engine_sent,
    .info = gs_tls_engine_info,
    .error = gs_tls_engine_error,
    .offer_session = gs_tls_session_offer,
    .leave_session = gs_tls_session_leave,
    .free_session = gs_tls_session_free,
    .stream = &gs_tls_stream_operations,
};
