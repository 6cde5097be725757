/* OpenSSL's queue of errors belongs to the kernel thread, and a user thread may wait between two
 * calls: so each call here begins with an empty queue, and reads it before it returns. */
#include "tls/engine.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Life ---- */

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
    return !server_name || SSL_set_tlsext_host_name(engine->ssl, server_name) ? 0 : -EINVAL;
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

void gs_tls_engine_free(struct gs_tls_engine *engine)
{
    if (!engine)
        return;
    /* A session of a connection that was not shut down could not be resumed. */
    if (engine->ssl && !engine->has_failed)
        SSL_set_shutdown(engine->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(engine->ssl);
    gs_tls_context_release(engine->context);
    free(engine->output);
    free(engine);
}

/* ---- Reading and writing ---- */

/* Returns the result for one of OpenSSL's that is not positive; the queue of errors is emptied. */
static int failed(struct gs_tls_engine *engine, int result)
{
    int error = SSL_get_error(engine->ssl, result);
    unsigned long first = ERR_peek_error();
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ)
        return -EAGAIN;
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    engine->has_failed = true;
    engine->error = first;
    return ERR_GET_REASON(first) == ERR_R_MALLOC_FAILURE ? -ENOMEM : -EPROTO;
}

ssize_t gs_tls_engine_read(struct gs_tls_engine *engine, struct gs_tls_input *input, void *plain,
                           size_t size)
{
    size_t n = 0;
    if (engine->has_failed)
        return -EPROTO;
    ERR_clear_error();
    engine->input = input;
    int result = SSL_read_ex(engine->ssl, plain, size, &n);
    engine->input = NULL;
    return result > 0 ? (ssize_t)n : failed(engine, result);
}

ssize_t gs_tls_engine_write(struct gs_tls_engine *engine, const void *bytes, size_t n)
{
    const char *at = bytes;
    size_t left = n, written;
    if (engine->has_failed)
        return -EPROTO;
    if (engine->is_closed)
        return -EPIPE;
    ERR_clear_error();
    while (left) {
        int result = SSL_write_ex(engine->ssl, at, left, &written);
        if (result <= 0)
            return failed(engine, result);
        at += written;
        left -= written;
    }
    return (ssize_t)n;
}

void gs_tls_engine_close(struct gs_tls_engine *engine)
{
    if (engine->has_failed || engine->is_closed || !SSL_is_init_finished(engine->ssl))
        return;
    ERR_clear_error();
    engine->is_closed = true;
    (void)SSL_shutdown(engine->ssl);
    ERR_clear_error();
}

const char *gs_tls_engine_output(const struct gs_tls_engine *engine, size_t *ret_n)
{
    *ret_n = engine->output_n - engine->sent;
    return engine->output + engine->sent;
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
