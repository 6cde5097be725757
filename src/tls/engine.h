/* Internals of an engine. */
#ifndef GS_TLS_ENGINE_H
#define GS_TLS_ENGINE_H

#include "tls/context.h"
#include "tls/records.h"

#include <gossamer/tls_engine.h>

struct gs_tls_engine {
    SSL *ssl; /* NULL: `records` has taken over */
    struct gs_tls_context *context;
    struct gs_tls_input *input; /* of the call in progress; NULL: none */
    char *output;               /* NULL: none */
    size_t output_n, output_size, sent;
    struct gs_tls_traffic *traffic; /* before `records`; NULL: no keys are known */
    struct gs_tls_records *records; /* NULL: OpenSSL's object handles them */
    struct gs_tls_kept *kept;       /* once OpenSSL's object is gone */
    unsigned long error; /* the first of OpenSSL's that ended the connection; 0: another reason */
    char *server_name;   /* NULL: none, or the handshake is not complete */
    char *text;          /* what is wrong with the peer's certificate; NULL: nothing */
    uint64_t sent_records, received_records; /* by OpenSSL, with the keys in use */
    unsigned char messages; /* received after the handshake since the last plaintext */
    bool is_established, has_failed, is_closed, has_new_keys;
    bool lacks_memory, speaks_http, is_flooded;
};

/* The BIO of an engine: it reads from `input` and appends to `output`. NULL: there is no memory.
 * gs_tls_bio_init comes first, and returns 0 or -ENOMEM. */
int gs_tls_bio_init(void);
BIO *gs_tls_bio_new(struct gs_tls_engine *engine);
struct gs_tls_engine *gs_tls_engine_of(const SSL *ssl);

/* Returns where n more bytes of output belong, which are not yet part of it; NULL: there is no
 * memory. */
unsigned char *gs_tls_output_reserve(struct gs_tls_engine *engine, size_t n);

/* Count a message without plaintext. Returns whether there were too many, so that the connection
 * has failed. */
bool gs_tls_is_flood(struct gs_tls_engine *engine);

/* Keep the name that the client asks for. Returns false: there is no memory. */
bool gs_tls_keep_server_name(struct gs_tls_engine *engine);

/* Keep what gs_tls_engine_info and _session tell when OpenSSL's object is gone. Returns false:
 * there is no memory. */
struct gs_tls_kept {
    struct gs_tls_info info;
    SSL_SESSION *session; /* of a client; NULL: none */
};
bool gs_tls_keep_info(struct gs_tls_engine *engine);
void gs_tls_drop_openssl(struct gs_tls_engine *engine);

/* OpenSSL tells it of all that is sent or received. */
void gs_tls_on_message(int is_sent, int version, int type, const void *bytes, size_t n, SSL *ssl,
                       void *unused);

#endif
