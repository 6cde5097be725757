#include "tls/expand.h"

#include <openssl/crypto.h>
#include <stdint.h>
#include <string.h>

#define MAX_BLOCK 128 /* of a hash: SHA-384 */

/* What HMAC (RFC 2104) authenticates with. */
struct key {
    const EVP_MD *digest;
    const unsigned char *bytes; /* at most a block */
    size_t n;
};

static bool hash_padded(const struct key *key, unsigned char padding, EVP_MD_CTX *hash,
                        const unsigned char *bytes, size_t n)
{
    unsigned char block[MAX_BLOCK];
    size_t size = (size_t)EVP_MD_get_block_size(key->digest);
    memset(block, padding, sizeof block);
    for (size_t i = 0; i < key->n; i++)
        block[i] ^= key->bytes[i];
    bool is_done = EVP_DigestInit_ex2(hash, key->digest, NULL) &&
                   EVP_DigestUpdate(hash, block, size) && EVP_DigestUpdate(hash, bytes, n);
    OPENSSL_cleanse(block, size);
    return is_done;
}

/* OpenSSL's function looks up the hash by its name, which takes ten times as long. */
static bool authenticate(const struct key *key, EVP_MD_CTX *hash, const unsigned char *bytes,
                         size_t n, unsigned char ret_block[EVP_MAX_MD_SIZE])
{
    unsigned size;
    return hash_padded(key, 0x36, hash, bytes, n) && EVP_DigestFinal_ex(hash, ret_block, &size) &&
           hash_padded(key, 0x5c, hash, ret_block, size) &&
           EVP_DigestFinal_ex(hash, ret_block, &size);
}

bool gs_tls_expand(const struct gs_tls_expansion *expansion, EVP_MD_CTX *hash,
                   unsigned char *ret_bytes, size_t n)
{
    unsigned char info[11 + GS_TLS_LABEL_MAX + GS_TLS_DATA_MAX], block[EVP_MAX_MD_SIZE], *at = info;
    const struct key key = {expansion->digest, expansion->secret, expansion->secret_n};
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
    bool is_done = authenticate(&key, hash, info, (size_t)(at - info), block);
    if (is_done)
        memcpy(ret_bytes, block, n);
    OPENSSL_cleanse(block, sizeof block);
    return is_done;
}

static bool expand_salt(const struct gs_tls_expansion *salt, EVP_MD_CTX *hash,
                        unsigned char ret_bytes[EVP_MAX_MD_SIZE])
{
    unsigned char of_nothing[EVP_MAX_MD_SIZE];
    struct gs_tls_expansion expansion = *salt;
    unsigned n;
    expansion.data = of_nothing;
    if (!EVP_DigestInit_ex2(hash, salt->digest, NULL) || !EVP_DigestFinal_ex(hash, of_nothing, &n))
        return false;
    expansion.data_n = n;
    return gs_tls_expand(&expansion, hash, ret_bytes, n);
}

bool gs_tls_extract(const struct gs_tls_expansion *salt, EVP_MD_CTX *hash,
                    const unsigned char *bytes, size_t n, unsigned char *ret_secret)
{
    static const unsigned char zeros[EVP_MAX_MD_SIZE];
    unsigned char expanded[EVP_MAX_MD_SIZE], block[EVP_MAX_MD_SIZE];
    size_t hash_n = (size_t)EVP_MD_get_size(salt->digest);
    const struct key key = {salt->digest, expanded, salt->secret ? hash_n : 0};
    bool is_done = (!salt->secret || expand_salt(salt, hash, expanded)) &&
                   authenticate(&key, hash, bytes ? bytes : zeros, bytes ? n : hash_n, block);
    if (is_done)
        memcpy(ret_secret, block, hash_n);
    OPENSSL_cleanse(expanded, sizeof expanded);
    OPENSSL_cleanse(block, sizeof block);
    return is_done;
}
