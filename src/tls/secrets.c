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

static _Thread_local struct gs_tls_engine *watching;

void gs_tls_secrets_watch(struct gs_tls_engine *engine)
{
    watching = engine;
}

static bool is_label(const struct gs_tls_expansion *expansion, const char *label)
{
    return expansion->label_n == strlen(label) &&
           !memcmp(expansion->label, label, expansion->label_n);
}

static void note(const struct gs_tls_expansion *expansion, const unsigned char *secret, size_t n)
{
    bool is_client = is_label(expansion, "c ap traffic");
    if (is_client || is_label(expansion, "s ap traffic"))
        gs_tls_records_note(watching, is_client == watching->context->is_client, secret, n);
}

/* ---- Keys ---- */

static const void *find(const OSSL_PARAM params[], const char *name, size_t *ret_n)
{
    const OSSL_PARAM *found = OSSL_PARAM_locate_const(params, name);
    *ret_n = found ? found->data_size : 0;
    return found ? found->data : NULL;
}

/* Returns whether the parameters ask for what gs_tls_expand does, to derive n bytes. */
static bool parse(const OSSL_PARAM params[], size_t n, struct gs_tls_expansion *ret_expansion)
{
    const OSSL_PARAM *mode = OSSL_PARAM_locate_const(params, OSSL_KDF_PARAM_MODE);
    int chosen;
    size_t name_n, prefix_n;
    const char *name = find(params, OSSL_KDF_PARAM_DIGEST, &name_n);
    const void *prefix = find(params, OSSL_KDF_PARAM_PREFIX, &prefix_n);
    if (!mode || !OSSL_PARAM_get_int(mode, &chosen) || chosen != EVP_KDF_HKDF_MODE_EXPAND_ONLY ||
        !name || !prefix || prefix_n != 6 || memcmp(prefix, "tls13 ", 6) != 0)
        return false;
    struct gs_tls_expansion *expansion = ret_expansion;
    expansion->digest = gs_tls_digest(name);
    expansion->secret = find(params, OSSL_KDF_PARAM_KEY, &expansion->secret_n);
    expansion->label = find(params, OSSL_KDF_PARAM_LABEL, &expansion->label_n);
    expansion->data = find(params, OSSL_KDF_PARAM_DATA, &expansion->data_n);
    if (!expansion->digest || !expansion->secret || !expansion->label)
        return false;
    size_t hash_n = (size_t)EVP_MD_get_size(expansion->digest);
    return expansion->secret_n == hash_n && n <= hash_n && expansion->label_n <= GS_TLS_LABEL_MAX &&
           expansion->data_n <= GS_TLS_DATA_MAX;
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

static void reset(void *context)
{
    struct derivation *derivation = context;
    EVP_KDF_CTX_free(derivation->openssls);
    derivation->openssls = NULL;
}

/* What has been set before is OpenSSL's, and so is all that is not expanded: its errors, too. */
static int derive(void *context, unsigned char *key, size_t n, const OSSL_PARAM params[])
{
    struct derivation *derivation = context;
    struct gs_tls_expansion expansion;
    if (derivation->openssls || !params || !parse(params, n, &expansion) ||
        !gs_tls_expand(&expansion, key, n)) {
        EVP_KDF_CTX *other = openssls_of(derivation);
        return other ? EVP_KDF_derive(other, key, n, params) : 0;
    }
    if (watching)
        note(&expansion, key, n);
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
