/* The provider by which OpenSSL derives the keys of TLS 1.3. */
#include "tls/secrets.h"

#include "tests/test.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

static unsigned char bytes[200]; /* of keys, salts and data */

/* What OpenSSL passes to derive a key of n bytes; a size of 0: there is none. */
struct derivation {
    int mode;
    const char *digest, *label;
    size_t key_n, salt_n, data_n, n;
};

static void add(OSSL_PARAM **at, const char *name, size_t n)
{
    if (n)
        *(*at)++ = OSSL_PARAM_construct_octet_string(name, bytes, n);
}

static EVP_KDF_CTX *new_context(const char *properties)
{
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_TLS1_3_KDF, properties);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(kdf);
    CHECK(context);
    EVP_KDF_free(kdf);
    return context;
}

/* The first of the parameters are set before; the rest are passed with the call. */
static void derive_with(EVP_KDF_CTX *context, const struct derivation *derivation, int set,
                        unsigned char *ret_key)
{
    OSSL_PARAM params[8], *at = params;
    int mode = derivation->mode;
    *at++ = OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode);
    *at++ = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)derivation->digest, 0);
    add(&at, OSSL_KDF_PARAM_KEY, derivation->key_n);
    add(&at, OSSL_KDF_PARAM_SALT, derivation->salt_n);
    *at++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, (char *)"tls13 ", 6);
    *at++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, (char *)derivation->label,
                                              strlen(derivation->label));
    add(&at, OSSL_KDF_PARAM_DATA, derivation->data_n);
    *at = OSSL_PARAM_construct_end();
    if (set) {
        OSSL_PARAM before[8] = {0};
        memcpy(before, params, (size_t)set * sizeof *before);
        CHECK(EVP_KDF_CTX_set_params(context, before));
    }
    CHECK(EVP_KDF_derive(context, ret_key, derivation->n, params + set) > 0);
}

static void derive(const char *properties, const struct derivation *derivation, int set,
                   unsigned char *ret_key)
{
    EVP_KDF_CTX *context = new_context(properties);
    derive_with(context, derivation, set, ret_key);
    EVP_KDF_CTX_free(context);
}

static void fill_bytes(void)
{
    CHECK(gs_tls_secrets_init());
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
}

static const struct derivation derivations[] = {
    {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA256", "s ap traffic", 32, 0, 32, 32},
    {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA384", "c ap traffic", 48, 0, 48, 48},
    {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA256", "key", 32, 0, 0, 16},
    {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA384", "iv", 48, 0, 0, 12},
    {EVP_KDF_HKDF_MODE_EXPAND_ONLY, "SHA512", "finished", 64, 0, 64, 64},
    {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA256", "derived", 32, 32, 0, 32},
    {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA384", "derived", 48, 48, 0, 48},
    {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA256", "derived", 0, 0, 0, 32},
    {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA256", "derived", 0, 32, 0, 32},
    {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA384", "derived", 0, 48, 0, 48},
    {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA256", "derived", 200, 0, 0, 32},
    {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA384", "derived", 200, 48, 0, 48},
    {EVP_KDF_HKDF_MODE_EXTRACT_ONLY, "SHA512", "derived", 64, 64, 0, 64},
};
#define DERIVATIONS (sizeof derivations / sizeof *derivations)

TEST(keys_are_those_of_openssls_own_provider)
{
    fill_bytes();
    for (size_t i = 0; i < DERIVATIONS; i++)
        for (int set = 0; set < 3; set++) {
            unsigned char ours[64] = {0}, openssls[64] = {0};
            derive("provider=gossamer", &derivations[i], set, ours);
            derive("provider=default", &derivations[i], set, openssls);
            CHECK(!memcmp(ours, openssls, sizeof ours));
        }
}

TEST(context_that_was_reset_derives_another_key)
{
    fill_bytes();
    EVP_KDF_CTX *ours = new_context("provider=gossamer");
    EVP_KDF_CTX *openssls = new_context("provider=default");
    for (size_t i = 0; i < 2 * DERIVATIONS; i++) {
        unsigned char our_key[64] = {0}, openssls_key[64] = {0};
        const struct derivation *derivation = &derivations[i % DERIVATIONS];
        EVP_KDF_CTX_reset(ours);
        EVP_KDF_CTX_reset(openssls);
        derive_with(ours, derivation, 0, our_key);
        derive_with(openssls, derivation, 0, openssls_key);
        CHECK(!memcmp(our_key, openssls_key, sizeof our_key));
    }
    EVP_KDF_CTX_free(ours);
    EVP_KDF_CTX_free(openssls);
}

/* OpenSSL 3.0 duplicates no context, and so ours only one in which nothing has been set. */
TEST(duplicate_of_a_context_derives_the_same_key)
{
    fill_bytes();
    EVP_KDF_CTX *openssls = new_context("provider=default");
    EVP_KDF_CTX *other = EVP_KDF_CTX_dup(openssls);
    bool may_be_set = other;
    EVP_KDF_CTX_free(other);
    EVP_KDF_CTX_free(openssls);
    for (int set = 0; set < (may_be_set ? 3 : 1); set++) {
        unsigned char first[64] = {0}, second[64] = {0}, third[64] = {0};
        const struct derivation *derivation = &derivations[0];
        EVP_KDF_CTX *context = new_context("provider=gossamer");
        if (set)
            derive_with(context, derivation, set, first);
        EVP_KDF_CTX *copy = EVP_KDF_CTX_dup(context);
        CHECK(copy);
        derive_with(context, derivation, set, second);
        EVP_KDF_CTX_free(context);
        derive_with(copy, derivation, set, third);
        EVP_KDF_CTX_free(copy);
        CHECK(!memcmp(second, third, sizeof second));
        CHECK(!set || !memcmp(first, second, sizeof first));
    }
}
