/* Sealing and opening records of TLS 1.3 (RFC 8446, sections 5.2, 5.3 and 7.3). */
#ifndef GS_TLS_SEAL_H
#define GS_TLS_SEAL_H

#include "tls/traffic.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_TLS_HEADER ((size_t)5)
#define GS_TLS_TAG ((size_t)16)
/* How much longer than its content a record is: header, type and tag. */
#define GS_TLS_SEALED_MORE (GS_TLS_HEADER + 1 + GS_TLS_TAG)
/* For AES-GCM, 2^24.5 records may be sealed with a key (RFC 8446, section 5.5). */
#define GS_TLS_MAX_RECORDS ((uint64_t)1 << 24)

/* One direction of a connection. */
struct gs_tls_keys {
    EVP_CIPHER_CTX *cipher;
    const EVP_MD *digest;
    uint64_t sequence;        /* the number of the next record */
    unsigned char secret[48]; /* of the size of the hash */
    unsigned char secret_n;
    unsigned char iv[12];
};

/* Fetch the ciphers, once in a process; one that OpenSSL does not have is not known then. */
void gs_tls_seal_init(void);

/* Returns the hash of a cipher, by the name that EVP_MD_get0_name returns; NULL: none. */
const EVP_MD *gs_tls_digest(const char *name);

/* Begin with keys that were derived for the cipher of this number (of TLS). Returns false if it is
 * not known, they do not have its sizes, or there is no memory; gs_tls_keys_done is due in any
 * case. */
bool gs_tls_keys_init(struct gs_tls_keys *keys, unsigned cipher,
                      const struct gs_tls_derived *derived, bool seals);
void gs_tls_keys_done(struct gs_tls_keys *keys);

/* Continue with the next secret, as after a KeyUpdate. Returns false: there is no memory. */
bool gs_tls_keys_update(struct gs_tls_keys *keys);

/* Write the next record to ret_record, n + GS_TLS_SEALED_MORE bytes. Returns false if the cipher
 * fails. */
bool gs_tls_seal(struct gs_tls_keys *keys, int type, const void *bytes, size_t n,
                 unsigned char *ret_record);

/* Open the next record, whose header tells its size: the content and its type go to ret_plain,
 * GS_TLS_TAG less than the record without its header. Returns false if it is not authentic; then
 * ret_plain is garbage. */
bool gs_tls_open(struct gs_tls_keys *keys, const unsigned char *record, unsigned char *ret_plain);

#endif
