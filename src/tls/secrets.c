#include "tls/secrets.h"

#include "tls/engine.h"
#include "tls/expand.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <string.h>

/* Of the handshake that this kernel thread makes a step of. */
static _Thread_local struct {
    struct gs_tls_engine *engine; /* NULL: none */
    EVP_MD_CTX *hash;             /* for all keys of the step; NULL: it was not needed so far */
} watched;

void gs_tls_secrets_watch(struct gs_tls_engine *engine)
{
    EVP_MD_CTX_free(watched.hash);
    watched.hash = NULL;
    watched.engine = engine;
}

/* ---- What is asked for ---- */

/* In the order in which libssl passes them. */
enum { MODE, DIGEST, KEY, SALT, PREFIX, LABEL, DATA, NAMES };
static const char *const names[NAMES] = {
    OSSL_KDF_PARAM_MODE,   OSSL_KDF_PARAM_DIGEST, OSSL_KDF_PARAM_KEY,  OSSL_KDF_PARAM_SALT,
    OSSL_KDF_PARAM_PREFIX, OSSL_KDF_PARAM_LABEL,  OSSL_KDF_PARAM_DATA,
};

struct request {
    bool extracts;
    struct gs_tls_expansion expansion; /* of the salt, if it extracts */
    const unsigned char *bytes;        /* that go into what it extracts; NULL: none */
    size_t bytes_n;
};

/* Returns false: there are others. */
static bool sort(const OSSL_PARAM params[], OSSL_PARAM ret_sorted[NAMES])
{
    int at = 0;
    memset(ret_sorted, 0, NAMES * sizeof *ret_sorted);
    for (; params->key; params++) {
        int tried = 0;
        for (; tried < NAMES && strcmp(params->key, names[at]) != 0; tried++)
            at = (at + 1) % NAMES;
        if (tried == NAMES)
            return false;
        ret_sorted[at] = *params;
    }
    return true;
}

static bool has_mode(const OSSL_PARAM sorted[NAMES], bool *ret_extracts)
{
    int mode;
    if (!sorted[MODE].key || !OSSL_PARAM_get_int(&sorted[MODE], &mode))
        return false;
    *ret_extracts = mode == EVP_KDF_HKDF_MODE_EXTRACT_ONLY;
    return *ret_extracts || mode == EVP_KDF_HKDF_MODE_EXPAND_ONLY;
}

/* Returns whether the parameters ask for n bytes of what gs_tls_expand or gs_tls_extract does. */
static bool parse(const OSSL_PARAM params[], size_t n, struct request *ret_request)
{
    OSSL_PARAM sorted[NAMES];
    struct gs_tls_expansion *expansion = &ret_request->expansion;
    if (!sort(params, sorted) || !has_mode(sorted, &ret_request->extracts) ||
        !sorted[DIGEST].data || sorted[PREFIX].data_size != 6 ||
        memcmp(sorted[PREFIX].data, "tls13 ", 6) != 0)
        return false;
    const OSSL_PARAM *secret = &sorted[ret_request->extracts ? SALT : KEY];
    expansion->digest = gs_tls_digest(sorted[DIGEST].data);
    expansion->secret = secret->data;
    expansion->secret_n = secret->data_size;
    expansion->label = sorted[LABEL].data;
    expansion->label_n = sorted[LABEL].data_size;
    expansion->data = sorted[DATA].data;
    expansion->data_n = sorted[DATA].data_size;
    ret_request->bytes = sorted[KEY].data;
    ret_request->bytes_n = sorted[KEY].data_size;
    if (!expansion->digest || !expansion->label || expansion->label_n > GS_TLS_LABEL_MAX ||
        expansion->data_n > GS_TLS_DATA_MAX)
        return false;
    size_t hash_n = (size_t)EVP_MD_get_size(expansion->digest);
    bool has_secret = expansion->secret && expansion->secret_n == hash_n;
    return ret_request->extracts ? n == hash_n && (has_secret || !expansion->secret)
                                 : n <= hash_n && has_secret;
}

/* Returns false: there is no memory. */
static bool answer(const struct request *request, unsigned char *key, size_t n)
{
    EVP_MD_CTX *hash = watched.hash ? watched.hash : EVP_MD_CTX_new();
    bool is_done =
        hash && (request->extracts ? gs_tls_extract(&request->expansion, hash, request->bytes,
                                                    request->bytes_n, key)
                                   : gs_tls_expand(&request->expansion, hash, key, n));
    if (!watched.engine) {
        EVP_MD_CTX_free(hash);
        return is_done;
    }
    watched.hash = hash;
    if (is_done && !request->extracts)
        gs_tls_traffic_note(&watched.engine->traffic, &request->expansion, key, n);
    return is_done;
}

/* ---- The algorithm ---- */

static EVP_KDF *openssls;

struct derivation {
    EVP_KDF_CTX *openssls; /* NULL: it was not needed so far */
};

static EVP_KDF_CTX *openssls_of(struct derivation *derivation)
{
    if (!derivation->openssls)
        derivation->openssls = EVP_KDF_CTX_new(openssls);
    return derivation->openssls;
}

static void *new_context(void *unused)
{
    (void)unused;
    return OPENSSL_zalloc(sizeof(struct derivation));
}

static void free_context(void *context)
{
    struct derivation *derivation = context;
    if (derivation)
        EVP_KDF_CTX_free(derivation->openssls);
    OPENSSL_free(derivation);
}

/* OpenSSL 3.0 does not duplicate what has been set. */
static void *duplicate_context(void *context)
{
    const struct derivation *derivation = context;
    struct derivation *copy = new_context(NULL);
    if (!copy || !derivation->openssls)
        return copy;
    copy->openssls = EVP_KDF_CTX_dup(derivation->openssls);
    if (copy->openssls)
        return copy;
    free_context(copy);
    return NULL;
}

static void reset(void *context)
{
    struct derivation *derivation = context;
    EVP_KDF_CTX_free(derivation->openssls);
    derivation->openssls = NULL;
}

/* What has been set before is OpenSSL's, and so is all else that is asked for: its errors, too. */
static int derive(void *context, unsigned char *key, size_t n, const OSSL_PARAM params[])
{
    struct derivation *derivation = context;
    struct request request;
    if (derivation->openssls || !params || !parse(params, n, &request) ||
        !answer(&request, key, n)) {
        EVP_KDF_CTX *other = openssls_of(derivation);
        return other ? EVP_KDF_derive(other, key, n, params) : 0;
    }
    return 1;
}

static int set_parameters(void *context, const OSSL_PARAM params[])
{
    EVP_KDF_CTX *other = openssls_of(context);
    return other ? EVP_KDF_CTX_set_params(other, params) : 0;
}

static const OSSL_PARAM *settable_parameters(void *context, void *unused)
{
    (void)context, (void)unused;
    return EVP_KDF_settable_ctx_params(openssls);
}

static int get_parameters(void *context, OSSL_PARAM params[])
{
    EVP_KDF_CTX *other = openssls_of(context);
    return other ? EVP_KDF_CTX_get_params(other, params) : 0;
}

static const OSSL_PARAM *gettable_parameters(void *context, void *unused)
{
    (void)context, (void)unused;
    return EVP_KDF_gettable_ctx_params(openssls);
}

/* ---- The provider ---- */

static const OSSL_ALGORITHM *query(void *unused, int operation, int *ret_is_uncached)
{
    static const OSSL_DISPATCH functions[] = {
        {OSSL_FUNC_KDF_NEWCTX, (void (*)(void))new_context},
        {OSSL_FUNC_KDF_DUPCTX, (void (*)(void))duplicate_context},
        {OSSL_FUNC_KDF_FREECTX, (void (*)(void))free_context},
        {OSSL_FUNC_KDF_RESET, (void (*)(void))reset},
        {OSSL_FUNC_KDF_DERIVE, (void (*)(void))derive},
        {OSSL_FUNC_KDF_SET_CTX_PARAMS, (void (*)(void))set_parameters},
        {OSSL_FUNC_KDF_SETTABLE_CTX_PARAMS, (void (*)(void))settable_parameters},
        {OSSL_FUNC_KDF_GET_CTX_PARAMS, (void (*)(void))get_parameters},
        {OSSL_FUNC_KDF_GETTABLE_CTX_PARAMS, (void (*)(void))gettable_parameters},
        {0, NULL},
    };
    static const OSSL_ALGORITHM algorithms[] = {
        {OSSL_KDF_NAME_TLS1_3_KDF, "provider=gossamer", functions, NULL},
        {NULL, NULL, NULL, NULL},
    };
    (void)unused;
    *ret_is_uncached = 0;
    return operation == OSSL_OP_KDF ? algorithms : NULL;
}

static int start(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *unused,
                 const OSSL_DISPATCH **ret_functions, void **ret_context)
{
    static const OSSL_DISPATCH functions[] = {
        {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query},
        {0, NULL},
    };
    (void)unused;
    *ret_functions = functions;
    *ret_context = (void *)handle;
    return 1;
}

static OSSL_PROVIDER *ours; /* NULL: OpenSSL does not know it */

/* The providers that OpenSSL loads by itself stay, as if ours was none. */
static void add(void)
{
    gs_tls_seal_init();
    openssls = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_TLS1_3_KDF, NULL);
    if (openssls && OSSL_PROVIDER_add_builtin(NULL, "gossamer", start))
        ours = OSSL_PROVIDER_try_load(NULL, "gossamer", 1);
}

bool gs_tls_secrets_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add);
    return ours;
}
