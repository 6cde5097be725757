/* Internals of an engine. */
#ifndef GS_TLS_ENGINE_H
#define GS_TLS_ENGINE_H

#include "tls/context.h"

#include <gossamer/tls_engine.h>

struct gs_tls_engine {
    SSL *ssl;
    struct gs_tls_context *context;
    struct gs_tls_input *input; /* of the call in progress; NULL: none */
    char *output;               /* NULL: none */
    size_t output_n, output_size, sent;
    unsigned long error; /* the first of OpenSSL's that ended the connection */
    bool has_failed, is_closed;
};

/* The BIO of an engine: it reads from `input` and appends to `output`. NULL: there is no memory. */
BIO *gs_tls_bio_new(struct gs_tls_engine *engine);

#endif
