/* The key schedule of TLS 1.3 (RFC 8446, section 7.1), for OpenSSL and for our own records.
 *
 * OpenSSL's library of TLS derives each secret by the algorithm "TLS13-KDF" of a provider. Contexts
 * of this module use a provider of their own for it, which has two advantages: the secrets of the
 * traffic can be noted, and a derivation takes a tenth of the time, since OpenSSL's looks up HMAC
 * and the hash by their names each time. */
#ifndef GS_TLS_KDF_H
#define GS_TLS_KDF_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>

struct gs_tls_bytes {
    const unsigned char *at;
    size_t n;
};

/* The library context of OpenSSL for contexts of TLS, and the properties by which they find the
 * provider; NULL: the default one, since this one could not be made. The first call makes it. */
OSSL_LIB_CTX *gs_tls_library(void);
#define GS_TLS_PROPERTIES "?provider=gossamer"

/* HKDF-Expand-Label, for at most one block of the hash. Returns false: there is no memory, or
 * it would be more. */
bool gs_tls_expand(const EVP_MD *digest, struct gs_tls_bytes secret, const char *label,
                   unsigned char *ret_bytes, size_t n);

/* Until the next call, the traffic secrets that this kernel thread derives are those of the
 * engine. NULL: of none. */
struct gs_tls_engine;
void gs_tls_kdf_note_for(struct gs_tls_engine *engine);

#endif
