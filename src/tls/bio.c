/* What OpenSSL has in place of a socket: the input of the call in progress, which is borrowed, and
 * the engine's output, which grows. So a write always succeeds, unless there is no memory. */
#include "tls/engine.h"

#include <errno.h>
#include <openssl/bio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int read_input(BIO *bio, char *bytes, size_t n, size_t *ret_n)
{
    const struct gs_tls_engine *engine = BIO_get_data(bio);
    struct gs_tls_input *input = engine->input;
    BIO_clear_retry_flags(bio);
    if (!input || !input->n) {
        BIO_set_retry_read(bio);
        return 0;
    }
    *ret_n = n < input->n ? n : input->n;
    memcpy(bytes, input->bytes, *ret_n);
    input->bytes += *ret_n;
    input->n -= *ret_n;
    return 1;
}

unsigned char *gs_tls_output_reserve(struct gs_tls_engine *engine, size_t n)
{
    size_t size = engine->output_size;
    if (engine->sent && n > size - engine->output_n) {
        engine->output_n -= engine->sent;
        memmove(engine->output, engine->output + engine->sent, engine->output_n);
        engine->sent = 0;
    }
    if (n > size - engine->output_n) {
        size = engine->output_n + n > 2 * size ? engine->output_n + n : 2 * size;
        char *output = realloc(engine->output, size);
        if (!output)
            return NULL;
        engine->output = output;
        engine->output_size = size;
    }
    return (unsigned char *)engine->output + engine->output_n;
}

static int write_output(BIO *bio, const char *bytes, size_t n, size_t *ret_n)
{
    struct gs_tls_engine *engine = BIO_get_data(bio);
    unsigned char *at = gs_tls_output_reserve(engine, n);
    BIO_clear_retry_flags(bio);
    if (!at) {
        engine->lacks_memory = true;
        return 0;
    }
    memcpy(at, bytes, n);
    engine->output_n += n;
    *ret_n = n;
    return 1;
}

static long control(BIO *bio, int command, long n, void *data)
{
    (void)bio, (void)n, (void)data;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gossamer");
    if (!method)
        return;
    BIO_meth_set_read_ex(method, read_input);
    BIO_meth_set_write_ex(method, write_output);
    BIO_meth_set_ctrl(method, control);
}

int gs_tls_bio_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    return method ? 0 : -ENOMEM;
}

BIO *gs_tls_bio_new(struct gs_tls_engine *engine)
{
    BIO *bio = BIO_new(method);
    if (!bio)
        return NULL;
    BIO_set_data(bio, engine);
    BIO_set_init(bio, 1);
    return bio;
}

struct gs_tls_engine *gs_tls_engine_of(const SSL *ssl)
{
    return BIO_get_data(SSL_get_rbio(ssl));
}
