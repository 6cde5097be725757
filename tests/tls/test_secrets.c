/* The provider by which OpenSSL derives the keys of TLS 1.3. */
#include "tls/secrets.h"

#include "tests/test.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

static unsigned char bytes[64]; /* of keys, salts and data */

static void add(OSSL_PARAM **at, const char *name, size_t n)
{
    *(*at)++ = OSSL_PARAM_construct_octet_string(name, bytes, n);
}

/* What OpenSSL passes to derive a key of n bytes. */
struct derivation {
    int mode;
    const char *digest, *label;
    size_t hash_n, data_n, n; /* data_n 0: there is none */
};

static void derive(const char *properties, const struct derivation *derivation,
                   unsigned char *ret_key)
{
    OSSL_PARAM params[8], *at = params;
    int mode = derivation->mode;
    *at++ = OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode);
    *at++ = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)derivation->digest, 0);
    add(&at, OSSL_KDF_PARAM_KEY, derivation->hash_n);
    if (mode == EVP_KDF_HKDF_MODE_EXTRACT_ONLY)
        add(&at, OSSL_KDF_PARAM_SALT, derivation->hash_n);
    *at++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, (char *)"tls13 ", 6);
    *at++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, (char *)derivation->label,
                                              strlen(derivation->label));
    if (derivation->data_n)
        add(&at, OSSL_KDF_PARAM_DATA, derivation->data_n);
    *at = OSSL_PARAM_construct_end();
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_TLS1_3_KDF, properties);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(kdf);
    CHECK(context);
    CHECK(EVP_KDF_derive(context, ret_key, derivation->n, params) > 0);
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
}

TEST(keys_are_those_of_openssls_own_provider)
{
    static const struct derivation derivations[] = {
        {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA256", "s ap traffic", 32, 32, 32},
        {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA384", "c ap traffic", 48, 48, 48},
        {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA256", "key", 32, 0, 16},
        {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA384", "iv", 48, 0, 12},
        {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA512", "finished", 64, 64, 64},
        {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA256", "derived", 32, 0, 32},
        {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA384", "derived", 48, 0, 48},
    };
    CHECK(gs_tls_secrets_init());
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    for (size_t i = 0; i < sizeof derivations / sizeof *derivations; i++) {
        unsigned char ours[64] = {0}, openssls[64] = {0};
        derive("provider=gossamer", &derivations[i], ours);
        derive("provider=default", &derivations[i], openssls);
        CHECK(!memcmp(ours, openssls, sizeof ours));
    }
}
