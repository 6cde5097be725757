/* Files of PEM and DER. */
#ifndef GS_TLS_FILE_H
#define GS_TLS_FILE_H

#include <stddef.h>

struct gs_tls_file {
    char *bytes;
    size_t n;
};

/* Read the whole file, at most 16 MiB. Returns 0, -ENOMEM, -EFBIG, or the error of opening or
 * reading it, which ret_text describes unless it is NULL. */
int gs_tls_file_read(const char *path, struct gs_tls_file *ret_file, char *ret_text);

/* The bytes are overwritten, since they may be a key. */
void gs_tls_file_done(struct gs_tls_file *file);

#endif
