#include "tls/secrets.h"

#include "tls/engine.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/provider.h>
#include <pthread.h>
#include <string.h>

static _Thread_local struct gs_tls_engine *watching;

void gs_tls_secrets_watch(struct gs_tls_engine *engine)
{
    watching = engine;
}

static void note(const OSSL_PARAM params[], const unsigned char *secret, size_t n)
{
    static const char of_server[] = "s ap traffic", of_client[] = "c ap traffic";
    const OSSL_PARAM *label = OSSL_PARAM_locate_const(params, OSSL_KDF_PARAM_LABEL);
    if (!label || label->data_size != sizeof of_server - 1)
        return;
    bool is_client = !memcmp(label->data, of_client, sizeof of_client - 1);
    if (is_client || !memcmp(label->data, of_server, sizeof of_server - 1))
        gs_tls_records_note(watching, is_client == watching->context->is_client, secret, n);
}

/* ---- The algorithm ---- */

static EVP_KDF *openssls;

static void *new_context(void *unused)
{
    (void)unused;
    return EVP_KDF_CTX_new(openssls);
}

static void free_context(void *context)
{
    EVP_KDF_CTX_free(context);
}

static void reset(void *context)
{
    EVP_KDF_CTX_reset(context);
}

static int derive(void *context, unsigned char *key, size_t n, const OSSL_PARAM params[])
{
    int is_done = EVP_KDF_derive(context, key, n, params);
    if (is_done > 0 && watching)
        note(params, key, n);
    return is_done;
}

static int set_parameters(void *context, const OSSL_PARAM params[])
{
    return EVP_KDF_CTX_set_params(context, params);
}

static const OSSL_PARAM *settable_parameters(void *context, void *unused)
{
    (void)context, (void)unused;
    return EVP_KDF_settable_ctx_params(openssls);
}

static int get_parameters(void *context, OSSL_PARAM params[])
{
    return EVP_KDF_CTX_get_params(context, params);
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
