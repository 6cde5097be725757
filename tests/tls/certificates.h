/* Certificates for tests, made when a test runs. */
#ifndef GS_TESTS_TLS_CERTIFICATES_H
#define GS_TESTS_TLS_CERTIFICATES_H

/* Write a self-signed certificate for the name (P-256), and its key, to files of a new directory
 * that is removed at the end of the process. The paths are absolute. */
struct certificate_files {
    char chain[128], key[128];
};
void certificate_make(const char *name, struct certificate_files *ret_files);

#endif
