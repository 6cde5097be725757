#include "serve/operations/users.h"

#include "serve/log/error_log.h"

#ifdef SERVE_HAS_CRYPT
#include <crypt.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/random.h>

#define FILE_MAX (1 << 20)

#ifdef SERVE_HAS_CRYPT

/* The time that a comparison takes must not tell how much of the hash is right. */
static bool is_equal(const char *a, const char *b)
{
    size_t n = strlen(a);
    unsigned difference = n != strlen(b);
    for (size_t i = 0; i < n && b[i]; i++)
        difference |= (unsigned char)a[i] ^ (unsigned char)b[i];
    return !difference;
}

static int verify(const char *password, const char *hash)
{
    struct crypt_data *data = calloc(1, sizeof *data); /* 32 KiB */
    if (!data)
        return -ENOMEM;
    const char *result = crypt_r(password, hash, data);
    int err = !result || *result == '*' ? -EINVAL : is_equal(result, hash) ? 0 : -EACCES;
    explicit_bzero(data, sizeof *data);
    free(data);
    return err;
}

#else

static int verify(const char *password, const char *hash)
{
    (void)password;
    (void)hash;
    return -EINVAL;
}

#endif

/* Returns the length, or -errno. */
static ssize_t read_file(const char *file, char *bytes, size_t size)
{
    const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};
    int fd = gs_sys_openat2(AT_FDCWD, file, &how);
    size_t n = 0;
    ssize_t result = fd < 0 ? fd : 1;
    while (result > 0 && n < size) {
        result = gs_sys_pread(fd, bytes + n, size - n, (off_t)n);
        n += result > 0 ? (size_t)result : 0;
    }
    if (fd >= 0)
        gs_sys_close(fd);
    return result < 0 ? result : n == size ? -EFBIG : (ssize_t)n;
}

static int parse(const char *file, struct gs_http_text text, struct gs_http_users **ret_users)
{
    struct gs_http_users_error error = {0, "there is not enough memory"};
    uint64_t key[2];
    if (getrandom(key, sizeof key, 0) != sizeof key)
        return -EAGAIN;
    int err = gs_http_users_new(text, verify, key, ret_users, &error);
    if (err && error.line)
        serve_warn("%s:%u: %s", file, error.line, error.text);
    else if (err)
        serve_warn("%s: %s", file, error.text);
    return err;
}

int serve_users_open(const char *file, struct gs_http_users **ret_users)
{
#ifndef SERVE_HAS_CRYPT
    serve_warn("--users: this program was built without libcrypt");
    return -ENOTSUP;
#endif
    char *bytes = malloc(FILE_MAX);
    if (!bytes)
        return -ENOMEM;
    ssize_t n = read_file(file, bytes, FILE_MAX);
    if (n < 0)
        serve_warn("can't read %s: %s", file, strerror((int)-n));
    int err = n < 0 ? (int)n : parse(file, (struct gs_http_text){bytes, (size_t)n}, ret_users);
    free(bytes);
    return err;
}
