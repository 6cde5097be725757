/* HKDF-Expand-Label (RFC 8446, section 7.1), from which all keys of TLS 1.3 come. */
#ifndef GS_TLS_EXPAND_H
#define GS_TLS_EXPAND_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>

/* The limits of what is expanded: enough for every label of TLS, and the hash of messages. */
#define GS_TLS_LABEL_MAX 32
#define GS_TLS_DATA_MAX 64

struct gs_tls_expansion {
    const EVP_MD *digest;
    const unsigned char *secret; /* of the size of the hash */
    size_t secret_n;
    const char *label; /* without "tls13 " */
    size_t label_n;
    const unsigned char *data; /* NULL: none */
    size_t data_n;
};

/* Write n bytes, at most the size of the hash. Returns false: there is no memory. */
bool gs_tls_expand(const struct gs_tls_expansion *expansion, unsigned char *ret_bytes, size_t n);

#endif
