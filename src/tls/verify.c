/* Whether the peer must show a certificate, and who may have signed it. */
#include "tls/engine.h"
#include "tls/file.h"
#include "tls/text.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- What is wrong with a certificate ---- */

struct day {
    char text[32];
};

static struct day day_of(const ASN1_TIME *time)
{
    struct day day = {"?"};
    struct tm parts;
    if (ASN1_TIME_to_tm(time, &parts))
        strftime(day.text, sizeof day.text, "%Y-%m-%d", &parts);
    return day;
}

static void say_signer(char *ret_text, const X509 *certificate, const char *name)
{
    char issuer[100] = "?";
    X509_NAME_get_text_by_NID(X509_get_issuer_name(certificate), NID_commonName, issuer,
                              sizeof issuer);
    (void)gs_tls_say(ret_text,
                     "the certificate of %s is signed by \"%s\", which is not a trusted CA: name "
                     "the file of its CA, if it is to be trusted",
                     name, issuer);
}

static void say_other_name(char *ret_text, SSL *ssl, const struct gs_tls_name_text *name)
{
    X509_VERIFY_PARAM *rules = SSL_get0_param(ssl);
    const char *wanted = X509_VERIFY_PARAM_get0_host(rules, 0);
    char *address = X509_VERIFY_PARAM_get1_ip_asc(rules);
    (void)gs_tls_say(ret_text, "the server's certificate is for %s%s, and not for %s", name->text,
                     name->is_common ? " (a common name, which does not count)" : "",
                     wanted    ? wanted
                     : address ? address
                               : "the name asked for");
    OPENSSL_free(address);
}

static void say_invalid(char *ret_text, SSL *ssl, X509_STORE_CTX *store)
{
    const X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    int error = X509_STORE_CTX_get_error(store);
    const struct gs_tls_name_text name = gs_tls_name_of(certificate);
    switch (certificate ? error : X509_V_ERR_UNSPECIFIED) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        (void)gs_tls_say(ret_text, "the certificate of %s has expired on %s", name.text,
                         day_of(X509_get0_notAfter(certificate)).text);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        (void)gs_tls_say(ret_text,
                         "the certificate of %s is valid from %s on: is this clock right?",
                         name.text, day_of(X509_get0_notBefore(certificate)).text);
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        say_other_name(ret_text, ssl, &name);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        say_signer(ret_text, certificate, name.text);
        break;
    default:
        (void)gs_tls_say(ret_text, "the certificate of %s is refused: %s", name.text,
                         X509_verify_cert_error_string(error));
    }
}

/* The first error stays: it ends the handshake. */
static int on_verified(int is_valid, X509_STORE_CTX *store)
{
    if (is_valid)
        return 1;
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct gs_tls_engine *engine = gs_tls_engine_of(ssl);
    char text[GS_TLS_TEXT];
    say_invalid(text, ssl, store);
    if (!engine->text)
        engine->text = strdup(text);
    return 0;
}

/* ---- Whom to trust ---- */

static int add_authority(SSL_CTX *ssl, X509 *certificate, bool is_client)
{
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), certificate) != 1 ||
        (!is_client && SSL_CTX_add_client_CA(ssl, certificate) != 1))
        return -ENOMEM;
    return 0;
}

static int add_authorities(struct gs_tls_context *context, const struct gs_tls_file *file,
                           const char *path, char *ret_text)
{
    BIO *bio = BIO_new_mem_buf(file->bytes, (int)file->n);
    int err = bio ? 0 : -ENOMEM, count = 0;
    X509 *certificate = NULL;
    while (!err && (certificate = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL))) {
        err = add_authority(context->ssl, certificate, context->is_client);
        X509_free(certificate);
        count++;
    }
    if (!err && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        err = gs_tls_say(ret_text, "%s: CA %d is malformed: %s", path, count + 1,
                         gs_tls_last_reason());
    if (!err && !count)
        err = gs_tls_say(ret_text, "%s has no CA's certificate in the format PEM", path);
    ERR_clear_error();
    BIO_free(bio);
    return err;
}

/* ---- Which sessions belong here ----
 *
 * Contexts share the keys of tickets. A session is taken up only by a context that trusts the same
 * CAs in the same way and has certificates for the same names, so also by one that was made from
 * newer files. */

static int set_session_id(struct gs_tls_context *context, int mode,
                          const struct gs_tls_file *authorities)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    bool is_set = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) &&
                  EVP_DigestUpdate(hash, &mode, sizeof mode) &&
                  EVP_DigestUpdate(hash, &authorities->n, sizeof authorities->n) &&
                  EVP_DigestUpdate(hash, authorities->bytes, authorities->n);
    for (size_t i = 0; is_set && i < context->name_count; i++)
        is_set = EVP_DigestUpdate(hash, context->names[i].text, strlen(context->names[i].text) + 1);
    is_set = is_set && EVP_DigestFinal_ex(hash, digest, &n) &&
             SSL_CTX_set_session_id_context(context->ssl, digest, n);
    EVP_MD_CTX_free(hash);
    return is_set ? 0 : -ENOMEM;
}

static int mode_of(const struct gs_tls_options *options)
{
    enum gs_tls_verify verify = options->verify;
    if (options->is_client)
        return verify == GS_TLS_VERIFY_NONE ? SSL_VERIFY_NONE : SSL_VERIFY_PEER;
    if (verify == GS_TLS_VERIFY_REQUIRED)
        return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    return verify == GS_TLS_VERIFY_OPTIONAL ? SSL_VERIFY_PEER : SSL_VERIFY_NONE;
}

int gs_tls_verify_init(struct gs_tls_context *context, const struct gs_tls_options *options,
                       char *ret_text)
{
    struct gs_tls_file file = {NULL, 0};
    int mode = mode_of(options), err = 0;
    SSL_CTX_set_verify(context->ssl, mode, mode == SSL_VERIFY_NONE ? NULL : on_verified);
    context->verifies = options->is_client && mode != SSL_VERIFY_NONE;
    if (mode != SSL_VERIFY_NONE && options->ca_file)
        err = gs_tls_file_read(options->ca_file, &file, ret_text);
    else if (mode != SSL_VERIFY_NONE)
        err = SSL_CTX_set_default_verify_paths(context->ssl) ? 0 : -ENOMEM;
    if (!err && file.bytes)
        err = add_authorities(context, &file, options->ca_file, ret_text);
    if (!err)
        err = set_session_id(context, mode, &file);
    gs_tls_file_done(&file);
    return err;
}
