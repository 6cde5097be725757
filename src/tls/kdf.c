#include "tls/kdf.h"

#include "tls/engine.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <string.h>

#define MAX_BLOCK 128 /* of a hash: SHA-384 */

static OSSL_LIB_CTX *library;
static EVP_MD *digests[2];
static _Thread_local struct gs_tls_engine *noted;

/* ---- HMAC and HKDF ---- */

static bool hash_padded(const EVP_MD *digest, struct gs_tls_bytes key, unsigned char padding,
                        EVP_MD_CTX *hash, struct gs_tls_bytes text)
{
    unsigned char block[MAX_BLOCK];
    size_t size = (size_t)EVP_MD_get_block_size(digest);
    for (size_t i = 0; i < size; i++)
        block[i] = padding ^ (i < key.n ? key.at[i] : 0);
    bool is_done = EVP_DigestInit_ex2(hash, digest, NULL) && EVP_DigestUpdate(hash, block, size) &&
                   EVP_DigestUpdate(hash, text.at, text.n);
    OPENSSL_cleanse(block, sizeof block);
    return is_done;
}

/* HMAC (RFC 2104), of a key that is no longer than a block. */
static bool authenticate(const EVP_MD *digest, struct gs_tls_bytes key, struct gs_tls_bytes text,
                         unsigned char ret_block[EVP_MAX_MD_SIZE])
{
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    unsigned size;
    bool is_done = hash && key.n <= (size_t)EVP_MD_get_block_size(digest) &&
                   hash_padded(digest, key, 0x36, hash, text) &&
                   EVP_DigestFinal_ex(hash, ret_block, &size) &&
                   hash_padded(digest, key, 0x5c, hash, (struct gs_tls_bytes){ret_block, size}) &&
                   EVP_DigestFinal_ex(hash, ret_block, &size);
    EVP_MD_CTX_free(hash);
    return is_done;
}

static unsigned char *append(unsigned char *at, struct gs_tls_bytes bytes)
{
    if (bytes.n)
        memcpy(at, bytes.at, bytes.n);
    return at + bytes.n;
}

struct expansion {
    struct gs_tls_bytes secret, prefix, label, context;
};

static bool expand(const EVP_MD *digest, const struct expansion *from, unsigned char *ret_bytes,
                   size_t n)
{
    unsigned char info[256], block[EVP_MAX_MD_SIZE], *at = info;
    if (n > (size_t)EVP_MD_get_size(digest) ||
        from->prefix.n + from->label.n + from->context.n > sizeof info - 5)
        return false;
    *at++ = 0;
    *at++ = (unsigned char)n;
    *at++ = (unsigned char)(from->prefix.n + from->label.n);
    at = append(append(at, from->prefix), from->label);
    *at++ = (unsigned char)from->context.n;
    at = append(at, from->context);
    *at++ = 1; /* the first block */
    bool is_done =
        authenticate(digest, from->secret, (struct gs_tls_bytes){info, (size_t)(at - info)}, block);
    memcpy(ret_bytes, block, n);
    OPENSSL_cleanse(block, sizeof block);
    return is_done;
}

static const struct gs_tls_bytes prefix = {(const unsigned char *)"tls13 ", 6};

bool gs_tls_expand(const EVP_MD *digest, struct gs_tls_bytes secret, const char *label,
                   unsigned char *ret_bytes, size_t n)
{
    const struct expansion from = {
        secret, prefix, {(const unsigned char *)label, strlen(label)}, {NULL, 0}};
    return expand(digest, &from, ret_bytes, n);
}

/* The next secret of the schedule: HKDF-Extract with a salt that is derived from the last one. */
static bool extract(const EVP_MD *digest, struct gs_tls_bytes before, struct gs_tls_bytes label,
                    struct gs_tls_bytes key, unsigned char *ret_bytes)
{
    static const unsigned char zeros[EVP_MAX_MD_SIZE];
    unsigned char nothing[EVP_MAX_MD_SIZE], salt[EVP_MAX_MD_SIZE], block[EVP_MAX_MD_SIZE];
    size_t size = (size_t)EVP_MD_get_size(digest);
    struct gs_tls_bytes salted = {zeros, size};
    if (!key.at)
        key = (struct gs_tls_bytes){zeros, size};
    if (before.at) {
        const struct expansion from = {before, prefix, label, {nothing, size}};
        if (!EVP_Digest("", 0, nothing, NULL, digest, NULL) || !expand(digest, &from, salt, size))
            return false;
        salted.at = salt;
    }
    bool is_done = authenticate(digest, salted, key, block);
    memcpy(ret_bytes, block, size);
    OPENSSL_cleanse(salt, sizeof salt);
    OPENSSL_cleanse(block, sizeof block);
    return is_done;
}

/* ---- The algorithm that OpenSSL calls ---- */

void gs_tls_kdf_note_for(struct gs_tls_engine *engine)
{
    noted = engine;
}

static struct gs_tls_bytes bytes_of(const OSSL_PARAM *parameters, const char *name)
{
    const OSSL_PARAM *found = OSSL_PARAM_locate_const(parameters, name);
    return found ? (struct gs_tls_bytes){found->data, found->data_size}
                 : (struct gs_tls_bytes){NULL, 0};
}

static const EVP_MD *digest_of(const OSSL_PARAM *parameters)
{
    const OSSL_PARAM *found = OSSL_PARAM_locate_const(parameters, OSSL_KDF_PARAM_DIGEST);
    for (unsigned i = 0; found && i < 2; i++)
        if (EVP_MD_is_a(digests[i], found->data))
            return digests[i];
    return NULL;
}

static int derive(void *unused, unsigned char *bytes, size_t n, const OSSL_PARAM parameters[])
{
    const EVP_MD *digest = digest_of(parameters);
    const OSSL_PARAM *found = OSSL_PARAM_locate_const(parameters, OSSL_KDF_PARAM_MODE);
    struct gs_tls_bytes key = bytes_of(parameters, OSSL_KDF_PARAM_KEY);
    struct gs_tls_bytes label = bytes_of(parameters, OSSL_KDF_PARAM_LABEL);
    int mode;
    (void)unused;
    if (!digest || !found || !OSSL_PARAM_get_int(found, &mode))
        return 0;
    if (mode == EVP_KDF_HKDF_MODE_EXTRACT_ONLY)
        return n == (size_t)EVP_MD_get_size(digest) &&
               extract(digest, bytes_of(parameters, OSSL_KDF_PARAM_SALT), label, key, bytes);
    const struct expansion from = {key, bytes_of(parameters, OSSL_KDF_PARAM_PREFIX), label,
                                   bytes_of(parameters, OSSL_KDF_PARAM_DATA)};
    if (!expand(digest, &from, bytes, n))
        return 0;
    if (noted && label.n == 12 && !memcmp(label.at + 1, " ap traffic", 11))
        gs_tls_records_note(noted, label.at[0] == 'c', bytes, n);
    return 1;
}

/* It has no state. */
static void *new_state(void *unused)
{
    static char state;
    (void)unused;
    return &state;
}

static void free_state(void *unused)
{
    (void)unused;
}

static const OSSL_DISPATCH functions[] = {
    {OSSL_FUNC_KDF_NEWCTX, (void (*)(void))new_state},
    {OSSL_FUNC_KDF_FREECTX, (void (*)(void))free_state},
    {OSSL_FUNC_KDF_RESET, (void (*)(void))free_state},
    {OSSL_FUNC_KDF_DERIVE, (void (*)(void))derive},
    {0, NULL},
};

static const OSSL_ALGORITHM *query(void *unused, int operation, int *ret_no_cache)
{
    static const OSSL_ALGORITHM algorithms[] = {
        {OSSL_KDF_NAME_TLS1_3_KDF, "provider=gossamer", functions, NULL},
        {NULL, NULL, NULL, NULL},
    };
    (void)unused;
    *ret_no_cache = 0;
    return operation == OSSL_OP_KDF ? algorithms : NULL;
}

static int init_provider(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in,
                         const OSSL_DISPATCH **ret_out, void **ret_state)
{
    static const OSSL_DISPATCH out[] = {
        {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query},
        {0, NULL},
    };
    (void)handle, (void)in;
    *ret_out = out;
    *ret_state = new_state(NULL);
    return 1;
}

/* ---- The library context ---- */

static void make_library(void)
{
    OSSL_LIB_CTX *made = OSSL_LIB_CTX_new();
    char *file = CONF_get1_default_config_file();
    if (made && file)
        (void)OSSL_LIB_CTX_load_config(made, file);
    OPENSSL_free(file);
    digests[0] = EVP_MD_fetch(made, "SHA256", NULL);
    digests[1] = EVP_MD_fetch(made, "SHA384", NULL);
    if (made && digests[0] && digests[1] &&
        OSSL_PROVIDER_add_builtin(made, "gossamer", init_provider) &&
        OSSL_PROVIDER_load(made, "default") && OSSL_PROVIDER_load(made, "gossamer"))
        library = made;
    else
        OSSL_LIB_CTX_free(made);
}

OSSL_LIB_CTX *gs_tls_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_library);
    return library;
}
