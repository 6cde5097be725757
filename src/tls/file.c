#include "tls/file.h"

#include "tls/text.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define MAX_BYTES ((size_t)16 << 20)

static int read_all(int fd, struct gs_tls_file *file)
{
    size_t size = 0;
    for (;;) {
        if (file->n == size) {
            size_t larger = size ? 2 * size : 4096;
            char *bytes = larger > MAX_BYTES ? NULL : OPENSSL_malloc(larger);
            if (!bytes)
                return larger > MAX_BYTES ? -EFBIG : -ENOMEM;
            if (file->n)
                memcpy(bytes, file->bytes, file->n);
            OPENSSL_clear_free(file->bytes, file->n);
            file->bytes = bytes;
            size = larger;
        }
        ssize_t n = gs_sys_read(fd, file->bytes + file->n, size - file->n);
        if (n <= 0 && n != -EINTR)
            return (int)n;
        file->n += n > 0 ? (size_t)n : 0;
    }
}

int gs_tls_file_read(const char *path, struct gs_tls_file *ret_file, char *ret_text)
{
    struct gs_tls_file file = {NULL, 0};
    int fd = gs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    int err = fd < 0 ? fd : read_all(fd, &file);
    if (fd >= 0)
        gs_sys_close(fd);
    if (err) {
        (void)gs_tls_say(ret_text, "%s cannot be read: %s", path, strerror(-err));
        gs_tls_file_done(&file);
    } else {
        *ret_file = file;
    }
    return err;
}

void gs_tls_file_done(struct gs_tls_file *file)
{
    OPENSSL_clear_free(file->bytes, file->n);
}
