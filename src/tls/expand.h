/* The key schedule of TLS 1.3 (RFC 8446, section 7.1): HKDF-Expand-Label, from which all keys come,
 * and HKDF-Extract, which takes it from secret to secret. */
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

/* Write n bytes, at most the size of the hash; `hash` is used for it. Returns false: there is no
 * memory. */
bool gs_tls_expand(const struct gs_tls_expansion *expansion, EVP_MD_CTX *hash,
                   unsigned char *ret_bytes, size_t n);

/* Write the next secret, of the size of the hash, into which n bytes go; NULL: as many zeros. The
 * salt is expanded from the secret before, with a hash of nothing for data; without a secret, it is
 * empty. Returns false: there is no memory. */
bool gs_tls_extract(const struct gs_tls_expansion *salt, EVP_MD_CTX *hash,
                    const unsigned char *bytes, size_t n, unsigned char *ret_secret);

#endif
