/* Internals of contexts. */
#ifndef GS_TLS_CONTEXT_H
#define GS_TLS_CONTEXT_H

#include <gossamer/tls_context.h>
#include <openssl/ssl.h>
#include <stdatomic.h>

struct gs_tls_context {
    SSL_CTX *ssl; /* of the first certificate */
    bool is_client;
    bool verifies; /* the server's name and certificate */
    int64_t expiry;
    unsigned char *protocols; /* in the form of ALPN: each with its length before it */
    unsigned protocols_n;
    atomic_uint references;
};

#endif
