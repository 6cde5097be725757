#include "tests/tls/certificates.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char directory[64];
static unsigned file_count;

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
    for (unsigned i = 0; i < file_count; i++) {
        snprintf(path, sizeof path, "%s/%u.pem", directory, i);
        unlink(path);
    }
    rmdir(directory);
}

static FILE *new_file(char *ret_path, size_t size)
{
    if (!directory[0]) {
        snprintf(directory, sizeof directory, "/tmp/gossamer-tls-XXXXXX");
        must(mkdtemp(directory) != NULL, "mkdtemp");
        atexit(remove_directory);
    }
    snprintf(ret_path, size, "%s/%u.pem", directory, file_count++);
    FILE *file = fopen(ret_path, "wx");
    must(file != NULL, "fopen");
    return file;
}

static void add_name(X509 *certificate, const char *name)
{
    char alternative[300];
    snprintf(alternative, sizeof alternative, "DNS:%s", name);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, alternative);
    must(extension && X509_add_ext(certificate, extension, -1), "subjectAltName");
    X509_EXTENSION_free(extension);
    X509_NAME *subject = X509_get_subject_name(certificate);
    must(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                                    -1, 0),
         "subject");
    must(X509_set_issuer_name(certificate, subject), "issuer");
}

void certificate_make(const char *name, struct certificate_files *ret_files)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    must(key && certificate, "EVP_EC_gen");
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), (long)file_count + 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_set_pubkey(certificate, key);
    add_name(certificate, name);
    must(X509_sign(certificate, key, EVP_sha256()) > 0, "X509_sign");
    FILE *file = new_file(ret_files->chain, sizeof ret_files->chain);
    must(PEM_write_X509(file, certificate) && !fclose(file), "writing");
    file = new_file(ret_files->key, sizeof ret_files->key);
    must(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) && !fclose(file), "writing");
    X509_free(certificate);
    EVP_PKEY_free(key);
}
