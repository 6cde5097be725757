/* A certificate, its key, its chain and its response of OCSP, from files. */
#include "tls/context.h"
#include "tls/file.h"
#include "tls/kdf.h"
#include "tls/text.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <string.h>
#include <time.h>

int64_t gs_tls_seconds_of(const ASN1_TIME *time)
{
    struct tm parts;
    return time && ASN1_TIME_to_tm(time, &parts) ? (int64_t)timegm(&parts) : INT64_MAX;
}

int64_t gs_tls_identity_expiry(const struct gs_tls_identity *identity)
{
    return gs_tls_seconds_of(X509_get0_notAfter(identity->certificate));
}

/* ---- Certificates ---- */

static int read_chain(struct gs_tls_identity *identity, BIO *bio, const char *path, char *ret_text)
{
    X509 *issuer;
    identity->chain = sk_X509_new_null();
    if (!identity->chain)
        return -ENOMEM;
    identity->certificate = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL);
    if (!identity->certificate)
        return gs_tls_say(ret_text, "%s has no certificate in the format PEM: %s", path,
                          gs_tls_last_reason());
    while ((issuer = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
        if (!sk_X509_push(identity->chain, issuer)) {
            X509_free(issuer);
            return -ENOMEM;
        }
    if (ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
        return 0;
    return gs_tls_say(ret_text, "%s: certificate %d is malformed: %s", path,
                      sk_X509_num(identity->chain) + 2, gs_tls_last_reason());
}

static int load_chain(struct gs_tls_identity *identity, const char *path, char *ret_text)
{
    struct gs_tls_file file;
    int err = gs_tls_file_read(path, &file, ret_text);
    if (err)
        return err;
    BIO *bio = BIO_new_mem_buf(file.bytes, (int)file.n);
    err = bio ? read_chain(identity, bio, path, ret_text) : -ENOMEM;
    BIO_free(bio);
    gs_tls_file_done(&file);
    return err;
}

/* ---- Keys ---- */

struct passphrase {
    struct gs_tls_file file; /* .bytes is NULL: none */
    bool is_wanted;
};

static int give_passphrase(char *bytes, int size, int is_writing, void *data)
{
    struct passphrase *passphrase = data;
    const struct gs_tls_file *file = &passphrase->file;
    size_t n = 0;
    (void)is_writing;
    passphrase->is_wanted = true;
    while (n < file->n && n < (size_t)size && file->bytes[n] != '\n' && file->bytes[n] != '\r')
        n++;
    if (!file->bytes || n == (size_t)size)
        return -1;
    memcpy(bytes, file->bytes, n);
    return (int)n;
}

static int read_key(struct gs_tls_identity *identity, const struct gs_tls_certificate *files,
                    const struct gs_tls_file *file, char *ret_text)
{
    struct passphrase passphrase = {.is_wanted = false};
    const char *path = files->key ? files->key : files->chain;
    int err = 0;
    if (files->passphrase_file)
        err = gs_tls_file_read(files->passphrase_file, &passphrase.file, ret_text);
    BIO *bio = err ? NULL : BIO_new_mem_buf(file->bytes, (int)file->n);
    if (!bio)
        return err ? err : -ENOMEM;
    identity->key =
        PEM_read_bio_PrivateKey_ex(bio, NULL, give_passphrase, &passphrase, gs_tls_library(), NULL);
    BIO_free(bio);
    gs_tls_file_done(&passphrase.file);
    if (identity->key)
        return 0;
    if (!passphrase.is_wanted)
        return gs_tls_say(ret_text, "%s has no private key in the format PEM: %s", path,
                          gs_tls_last_reason());
    if (!files->passphrase_file)
        return gs_tls_say(ret_text, "the key in %s is encrypted: name a file with its passphrase",
                          path);
    return gs_tls_say(ret_text, "the passphrase in %s is not that of the key in %s",
                      files->passphrase_file, path);
}

static int load_key(struct gs_tls_identity *identity, const struct gs_tls_certificate *files,
                    char *ret_text)
{
    const char *path = files->key ? files->key : files->chain;
    struct gs_tls_file file;
    int err = gs_tls_file_read(path, &file, ret_text);
    if (err)
        return err;
    err = read_key(identity, files, &file, ret_text);
    gs_tls_file_done(&file);
    if (!err && X509_check_private_key(identity->certificate, identity->key) != 1)
        err = gs_tls_say(ret_text, "the key in %s does not belong to the certificate in %s", path,
                         files->chain);
    return err;
}

/* ---- OCSP ---- */

/* Returns the time at which the response's word on the certificate ends; 0: it has none. */
static int64_t end_of_response(OCSP_RESPONSE *response, const X509 *certificate)
{
    int64_t end = 0;
    OCSP_BASICRESP *basic = OCSP_response_get1_basic(response);
    for (int i = 0; basic && i < OCSP_resp_count(basic); i++) {
        OCSP_SINGLERESP *single = OCSP_resp_get0(basic, i);
        ASN1_INTEGER *serial = NULL;
        ASN1_GENERALIZEDTIME *next = NULL;
        OCSP_id_get0_info(NULL, NULL, NULL, &serial,
                          (OCSP_CERTID *)OCSP_SINGLERESP_get0_id(single));
        if (ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(certificate)))
            continue;
        OCSP_single_get0_status(single, NULL, NULL, NULL, &next);
        end = gs_tls_seconds_of(next);
    }
    OCSP_BASICRESP_free(basic);
    return end;
}

static int load_ocsp(struct gs_tls_identity *identity, const char *path, char *ret_text)
{
    struct gs_tls_file file;
    int err = path ? gs_tls_file_read(path, &file, ret_text) : 0;
    if (!path || err)
        return err;
    const unsigned char *at = (const unsigned char *)file.bytes;
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &at, (long)file.n);
    if (response && OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL)
        identity->ocsp_expiry = end_of_response(response, identity->certificate);
    if (!identity->ocsp_expiry) {
        err = gs_tls_say(ret_text, "%s has no response of OCSP for the certificate", path);
        gs_tls_file_done(&file);
    } else {
        identity->ocsp = (unsigned char *)file.bytes;
        identity->ocsp_n = (long)file.n;
    }
    OCSP_RESPONSE_free(response);
    return err;
}

/* ---- All of it ---- */

int gs_tls_identity_init(struct gs_tls_identity *identity, const struct gs_tls_certificate *files,
                         char *ret_text)
{
    int err = load_chain(identity, files->chain, ret_text);
    if (!err)
        err = load_key(identity, files, ret_text);
    if (!err)
        err = load_ocsp(identity, files->ocsp_file, ret_text);
    return err;
}

void gs_tls_identity_done(struct gs_tls_identity *identity)
{
    X509_free(identity->certificate);
    sk_X509_pop_free(identity->chain, X509_free);
    EVP_PKEY_free(identity->key);
    OPENSSL_free(identity->ocsp);
}
