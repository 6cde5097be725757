#include "tls/seal.h"

#include "tls/expand.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <string.h>

/* ---- Ciphers ---- */

static struct cipher {
    unsigned number; /* of TLS, with which OpenSSL's begins */
    const char *name, *hash;
    EVP_CIPHER *cipher;
    EVP_MD *digest;
} ciphers[] = {
    {TLS1_3_CK_AES_128_GCM_SHA256, "AES-128-GCM", "SHA256", NULL, NULL},
    {TLS1_3_CK_AES_256_GCM_SHA384, "AES-256-GCM", "SHA384", NULL, NULL},
    {TLS1_3_CK_CHACHA20_POLY1305_SHA256, "ChaCha20-Poly1305", "SHA256", NULL, NULL},
};
#define CIPHERS (sizeof ciphers / sizeof *ciphers)

static void fetch(void)
{
    for (size_t i = 0; i < CIPHERS; i++) {
        ciphers[i].cipher = EVP_CIPHER_fetch(NULL, ciphers[i].name, NULL);
        ciphers[i].digest = EVP_MD_fetch(NULL, ciphers[i].hash, NULL);
    }
}

void gs_tls_seal_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fetch);
}

static const struct cipher *find(unsigned number)
{
    for (size_t i = 0; i < CIPHERS; i++)
        if (ciphers[i].number == number && ciphers[i].cipher && ciphers[i].digest)
            return &ciphers[i];
    return NULL;
}

const EVP_MD *gs_tls_digest(const char *name)
{
    for (size_t i = 0; i < CIPHERS; i++)
        if (ciphers[i].digest && !strcmp(EVP_MD_get0_name(ciphers[i].digest), name))
            return ciphers[i].digest;
    return NULL;
}

/* ---- Keys ---- */

static bool expand(const struct gs_tls_keys *keys, const char *label, unsigned char *ret_bytes,
                   size_t n)
{
    const struct gs_tls_expansion expansion = {
        .digest = keys->digest,
        .secret = keys->secret,
        .secret_n = keys->secret_n,
        .label = label,
        .label_n = strlen(label),
    };
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    bool is_done = hash && gs_tls_expand(&expansion, hash, ret_bytes, n);
    EVP_MD_CTX_free(hash);
    return is_done;
}

bool gs_tls_keys_init(struct gs_tls_keys *keys, unsigned number,
                      const struct gs_tls_derived *derived, bool seals)
{
    const struct cipher *cipher = find(number);
    if (!cipher || derived->secret_n != EVP_MD_get_size(cipher->digest) ||
        derived->key_n != EVP_CIPHER_get_key_length(cipher->cipher) ||
        derived->iv_n != sizeof keys->iv)
        return false;
    keys->digest = cipher->digest;
    keys->secret_n = derived->secret_n;
    memcpy(keys->secret, derived->secret, derived->secret_n);
    memcpy(keys->iv, derived->iv, sizeof keys->iv);
    keys->cipher = EVP_CIPHER_CTX_new();
    return keys->cipher &&
           EVP_CipherInit_ex(keys->cipher, cipher->cipher, NULL, derived->key, NULL, seals);
}

void gs_tls_keys_done(struct gs_tls_keys *keys)
{
    EVP_CIPHER_CTX_free(keys->cipher);
    OPENSSL_cleanse(keys, sizeof *keys);
}

bool gs_tls_keys_update(struct gs_tls_keys *keys)
{
    unsigned char key[EVP_MAX_KEY_LENGTH];
    size_t n = (size_t)EVP_CIPHER_CTX_get_key_length(keys->cipher);
    bool is_set = expand(keys, "traffic upd", keys->secret, keys->secret_n) &&
                  expand(keys, "key", key, n) && expand(keys, "iv", keys->iv, sizeof keys->iv) &&
                  EVP_CipherInit_ex(keys->cipher, NULL, NULL, key, NULL, -1);
    OPENSSL_cleanse(key, sizeof key);
    keys->sequence = 0;
    return is_set;
}

/* ---- Records ---- */

/* The initial vector of the next record. */
static void next_iv(struct gs_tls_keys *keys, unsigned char ret_iv[12])
{
    uint64_t number = keys->sequence++;
    memcpy(ret_iv, keys->iv, 12);
    for (int i = 11; i > 3; i--, number >>= 8)
        ret_iv[i] ^= (unsigned char)number;
}

bool gs_tls_seal(struct gs_tls_keys *keys, int type, const void *bytes, size_t n,
                 unsigned char *ret_record)
{
    const unsigned char inner = (unsigned char)type;
    unsigned char iv[12], *at = ret_record + GS_TLS_HEADER;
    size_t length = n + 1 + GS_TLS_TAG;
    int done;
    ret_record[0] = SSL3_RT_APPLICATION_DATA;
    ret_record[1] = 3;
    ret_record[2] = 3;
    ret_record[3] = (unsigned char)(length >> 8);
    ret_record[4] = (unsigned char)length;
    next_iv(keys, iv);
    EVP_CIPHER_CTX *cipher = keys->cipher;
    return EVP_EncryptInit_ex(cipher, NULL, NULL, NULL, iv) &&
           EVP_EncryptUpdate(cipher, NULL, &done, ret_record, (int)GS_TLS_HEADER) &&
           EVP_EncryptUpdate(cipher, at, &done, bytes, (int)n) &&
           EVP_EncryptUpdate(cipher, at + n, &done, &inner, 1) &&
           EVP_EncryptFinal_ex(cipher, at + n + 1, &done) &&
           EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, (int)GS_TLS_TAG, at + n + 1) > 0;
}

bool gs_tls_open(struct gs_tls_keys *keys, const unsigned char *record, unsigned char *ret_plain)
{
    const unsigned char *at = record + GS_TLS_HEADER;
    size_t n = ((size_t)record[3] << 8 | record[4]) - GS_TLS_TAG;
    unsigned char iv[12];
    int done;
    next_iv(keys, iv);
    EVP_CIPHER_CTX *cipher = keys->cipher;
    return EVP_DecryptInit_ex(cipher, NULL, NULL, NULL, iv) &&
           EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, (int)GS_TLS_TAG, (void *)(at + n)) >
               0 &&
           EVP_DecryptUpdate(cipher, NULL, &done, record, (int)GS_TLS_HEADER) &&
           EVP_DecryptUpdate(cipher, ret_plain, &done, at, (int)n) &&
           EVP_DecryptFinal_ex(cipher, ret_plain + n, &done) > 0;
}
