#include "tls/expand.h"

#include <openssl/crypto.h>
#include <string.h>

#define MAX_BLOCK 128 /* of a hash: SHA-384 */

static bool hash_padded(const struct gs_tls_expansion *expansion, unsigned char padding,
                        EVP_MD_CTX *hash, const unsigned char *bytes, size_t n)
{
    unsigned char block[MAX_BLOCK];
    size_t size = (size_t)EVP_MD_get_block_size(expansion->digest);
    for (size_t i = 0; i < size; i++)
        block[i] = padding ^ (i < expansion->secret_n ? expansion->secret[i] : 0);
    bool is_done = EVP_DigestInit_ex2(hash, expansion->digest, NULL) &&
                   EVP_DigestUpdate(hash, block, size) && EVP_DigestUpdate(hash, bytes, n);
    OPENSSL_cleanse(block, sizeof block);
    return is_done;
}

/* HMAC (RFC 2104) with the secret. OpenSSL's function looks up the hash by its name, which takes
 * ten times as long. */
static bool authenticate(const struct gs_tls_expansion *expansion, const unsigned char *bytes,
                         size_t n, unsigned char ret_block[EVP_MAX_MD_SIZE])
{
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    unsigned size;
    bool is_done = hash && hash_padded(expansion, 0x36, hash, bytes, n) &&
                   EVP_DigestFinal_ex(hash, ret_block, &size) &&
                   hash_padded(expansion, 0x5c, hash, ret_block, size) &&
                   EVP_DigestFinal_ex(hash, ret_block, &size);
    EVP_MD_CTX_free(hash);
    return is_done;
}

bool gs_tls_expand(const struct gs_tls_expansion *expansion, unsigned char *ret_bytes, size_t n)
{
    unsigned char info[11 + GS_TLS_LABEL_MAX + GS_TLS_DATA_MAX], block[EVP_MAX_MD_SIZE], *at = info;
    *at++ = 0;
    *at++ = (unsigned char)n;
    *at++ = (unsigned char)(6 + expansion->label_n);
    memcpy(at, "tls13 ", 6);
    memcpy(at + 6, expansion->label, expansion->label_n);
    at += 6 + expansion->label_n;
    *at++ = (unsigned char)expansion->data_n;
    if (expansion->data_n)
        memcpy(at, expansion->data, expansion->data_n);
    at += expansion->data_n;
    *at++ = 1; /* the first block of the hash, and the only one */
    bool is_done = authenticate(expansion, info, (size_t)(at - info), block);
    if (is_done)
        memcpy(ret_bytes, block, n);
    OPENSSL_cleanse(block, sizeof block);
    return is_done;
}
