/* The keys of a connection's traffic, from the handshake until its records are handled here.
 *
 * OpenSSL derives a secret for each direction, and from it a key and an initial vector: all three
 * are noted, since to derive them once more takes as long as a fiftieth of a handshake. */
#ifndef GS_TLS_TRAFFIC_H
#define GS_TLS_TRAFFIC_H

#include "tls/expand.h"

struct gs_tls_derived {
    unsigned char secret[48], key[32], iv[12];
    unsigned char secret_n, key_n, iv_n; /* 0: it is not known */
};

struct gs_tls_traffic {
    struct gs_tls_derived client, server; /* of what it sends */
};

/* Note n bytes that were expanded, if they are one of the secrets, or follow from one. *traffic is
 * made with the first; NULL: there is none so far. Without memory nothing is noted. */
void gs_tls_traffic_note(struct gs_tls_traffic **traffic, const struct gs_tls_expansion *expansion,
                         const unsigned char *bytes, size_t n);

/* NULL is accepted. */
void gs_tls_traffic_free(struct gs_tls_traffic *traffic);

#endif
