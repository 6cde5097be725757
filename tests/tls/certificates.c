#include "tests/tls/certificates.h"

#include <openssl/ec.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Files ---- */

static char directory[64];
static unsigned file_count;
static pid_t owner;

static void must(int is_done, const char *what)
{
    if (is_done)
        return;
    fprintf(stderr, "certificates: %s failed\n", what);
    exit(1);
}

static void remove_directory(void)
{
    char path[128];
    for (unsigned i = 0; getpid() == owner && i < file_count; i++) {
        snprintf(path, sizeof path, "%s/%u.pem", directory, i);
        unlink(path);
    }
    if (getpid() == owner)
        rmdir(directory);
}

static FILE *new_file(char ret_path[static 128])
{
    if (!directory[0]) {
        snprintf(directory, sizeof directory, "/tmp/gossamer-tls-XXXXXX");
        must(mkdtemp(directory) != NULL, "mkdtemp");
        owner = getpid();
        atexit(remove_directory);
    }
    snprintf(ret_path, 128, "%s/%u.pem", directory, file_count++);
    FILE *file = fopen(ret_path, "wx");
    must(file != NULL, "fopen");
    return file;
}

void certificate_write(const void *bytes, size_t n, char ret_path[static 128])
{
    FILE *file = new_file(ret_path);
    must(fwrite(bytes, 1, n, file) == n && !fclose(file), "writing");
}

static X509 *read_certificate(const char *path)
{
    FILE *file = fopen(path, "r");
    X509 *certificate = file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    must(certificate && !fclose(file), "reading");
    return certificate;
}

static EVP_PKEY *read_key(const char *path)
{
    FILE *file = fopen(path, "r");
    EVP_PKEY *key = file ? PEM_read_PrivateKey(file, NULL, NULL, NULL) : NULL;
    must(key && !fclose(file), "reading");
    return key;
}

/* ---- Certificates ---- */

static void add_extension(X509 *certificate, int kind, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, kind, value);
    must(extension && X509_add_ext(certificate, extension, -1), "an extension");
    X509_EXTENSION_free(extension);
}

static X509 *new_certificate(const struct certificate_request *request, EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    must(certificate != NULL, "X509_new");
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), (long)file_count + 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -10L * 86400);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400L * request->days);
    X509_set_pubkey(certificate, key);
    if (request->names)
        add_extension(certificate, NID_subject_alt_name, request->names);
    if (request->is_authority)
        add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    const unsigned char *name = (const unsigned char *)request->common_name;
    must(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, name,
                                    -1, -1, 0),
         "the subject");
    return certificate;
}

static void sign(X509 *certificate, EVP_PKEY *key, const struct certificate_files *issuer)
{
    X509 *signer = issuer ? read_certificate(issuer->chain) : certificate;
    EVP_PKEY *signing = issuer ? read_key(issuer->key) : key;
    must(X509_set_issuer_name(certificate, X509_get_subject_name(signer)), "the issuer");
    must(X509_sign(certificate, signing, EVP_sha256()) > 0, "X509_sign");
    if (issuer) {
        X509_free(signer);
        EVP_PKEY_free(signing);
    }
}

void certificate_make_as(const struct certificate_request *request,
                         struct certificate_files *ret_files)
{
    const char *passphrase = request->passphrase;
    EVP_PKEY *key = request->is_rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
    must(key != NULL, "making a key");
    X509 *certificate = new_certificate(request, key);
    sign(certificate, key, request->issuer);
    FILE *file = new_file(ret_files->chain);
    must(PEM_write_X509(file, certificate), "writing");
    if (request->is_in_one_file) {
        memcpy(ret_files->key, ret_files->chain, sizeof ret_files->key);
    } else {
        must(!fclose(file), "writing");
        file = new_file(ret_files->key);
    }
    must(PEM_write_PrivateKey(file, key, passphrase ? EVP_aes_256_cbc() : NULL,
                              (const unsigned char *)passphrase,
                              passphrase ? (int)strlen(passphrase) : 0, NULL, NULL),
         "writing");
    must(!fclose(file), "writing");
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void certificate_make(const char *name, struct certificate_files *ret_files)
{
    char names[300];
    snprintf(names, sizeof names, "DNS:%s", name);
    const struct certificate_request request = {.names = names, .common_name = name, .days = 1};
    certificate_make_as(&request, ret_files);
}

/* ---- OCSP ---- */

void certificate_make_ocsp(const struct certificate_files *files, int seconds,
                           char ret_path[static 128])
{
    X509 *certificate = read_certificate(files->chain);
    EVP_PKEY *key = read_key(files->key);
    OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
    OCSP_CERTID *id = OCSP_cert_to_id(EVP_sha1(), certificate, certificate);
    ASN1_TIME *from = X509_gmtime_adj(NULL, -60), *to = X509_gmtime_adj(NULL, seconds);
    must(basic && id && from && to, "OCSP");
    must(OCSP_basic_add1_status(basic, id, V_OCSP_CERTSTATUS_GOOD, 0, NULL, from, to) != NULL,
         "OCSP_basic_add1_status");
    must(OCSP_basic_sign(basic, certificate, key, EVP_sha256(), NULL, 0), "OCSP_basic_sign");
    OCSP_RESPONSE *response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
    unsigned char *bytes = NULL;
    int n = i2d_OCSP_RESPONSE(response, &bytes);
    must(n > 0, "i2d_OCSP_RESPONSE");
    certificate_write(bytes, (size_t)n, ret_path);
    OPENSSL_free(bytes);
    OCSP_RESPONSE_free(response);
    OCSP_BASICRESP_free(basic);
    OCSP_CERTID_free(id);
    ASN1_TIME_free(from);
    ASN1_TIME_free(to);
    X509_free(certificate);
    EVP_PKEY_free(key);
}
