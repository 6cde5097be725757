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
    unsigned long error; /* the first of OpenSSL's that ended the connection; 0: another reason */
    char *text;          /* what is wrong with the peer's certificate; NULL: nothing */
    unsigned char messages; /* received after the handshake since the last plaintext */
    bool is_established, has_failed, is_closed;
    bool lacks_memory, speaks_http, is_flooded;
};

/* The BIO of an engine: it reads from `input` and appends to `output`. NULL: there is no memory.
 * gs_tls_bio_init comes first, and returns 0 or -ENOMEM. */
int gs_tls_bio_init(void);
BIO *gs_tls_bio_new(struct gs_tls_engine *engine);
struct gs_tls_engine *gs_tls_engine_of(const SSL *ssl);

/* OpenSSL tells it of all that is sent or received. */
void gs_tls_on_message(int is_sent, int version, int type, const void *bytes, size_t n, SSL *ssl,
                       void *unused);

#endif
