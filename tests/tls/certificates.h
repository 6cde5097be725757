/* Certificates for tests, made when a test runs. */
#ifndef GS_TESTS_TLS_CERTIFICATES_H
#define GS_TESTS_TLS_CERTIFICATES_H

#include <stdbool.h>
#include <stddef.h>

/* Absolute paths, below a new directory that is removed at the end of the process. */
struct certificate_files {
    char chain[128], key[128];
};

/* Write a self-signed certificate for the name (P-256), and its key. */
void certificate_make(const char *name, struct certificate_files *ret_files);

struct certificate_request {
    const char *names; /* as OpenSSL's subjectAltName: "DNS:a.test,DNS:*.b.test,IP:127.0.0.1" */
    const char *common_name;
    const struct certificate_files *issuer; /* NULL: itself */
    const char *passphrase;                 /* of the key; NULL: it is not encrypted */
    int days;                               /* until it expires; negative: it has */
    bool is_authority, is_rsa;
    bool is_in_one_file; /* the key follows the certificate; both paths are that file's */
};
void certificate_make_as(const struct certificate_request *request,
                         struct certificate_files *ret_files);

/* Write a response of OCSP that calls the certificate good, signed by its own key and valid for
 * some seconds. */
void certificate_make_ocsp(const struct certificate_files *files, int seconds,
                           char ret_path[static 128]);

/* Write any bytes to a new file. */
void certificate_write(const void *bytes, size_t n, char ret_path[static 128]);

#endif
