#include "http/below.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* printf needs too much stack. */
static void put_number(char *out, int number)
{
    char digits[12], *end = digits + sizeof digits, *first = end - 1;
    *first = '\0';
    do
        *--first = (char)('0' + number % 10);
    while (number /= 10);
    memcpy(out, first, (size_t)(end - first));
}

/* Get the kernel's path of the file, at most PATH_MAX bytes with the NUL. */
static bool read_path(int fd, char *path)
{
    char link[32] = "/proc/self/fd/";
    put_number(link + strlen(link), fd);
    long n = gs_syscall(SYS_readlinkat, AT_FDCWD, (long)link, (long)path, PATH_MAX, 0, 0);
    if (n <= 0 || n >= PATH_MAX || *path != '/')
        return false;
    path[n] = '\0';
    return true;
}

/* Returns the part of path behind root; NULL: it is not below root. */
static const char *remove_root(const char *root, const char *path)
{
    size_t n = root[1] ? strlen(root) : 0;
    if (strncmp(path, root, n) != 0)
        return NULL;
    return path[n] == '/' ? path + n + 1 : path[n] ? NULL : path + n;
}

int gs_http_path_below(int root_fd, int fd, const char *rest, char **ret_path)
{
    char *paths = malloc((size_t)2 * PATH_MAX); /* too large for some stacks */
    if (!paths)
        return -ENOMEM;
    char *root = paths, *path = paths + PATH_MAX;
    bool is_known = read_path(root_fd, root) && read_path(fd, path);
    const char *below = is_known ? remove_root(root, path) : NULL;
    const char *first = below && *below ? below : ".";
    size_t first_n = strlen(first), rest_n = strlen(rest);
    char *joined = below ? malloc(first_n + 1 + rest_n + 1) : NULL;
    if (joined) {
        memcpy(joined, first, first_n);
        joined[first_n] = '/';
        memcpy(joined + first_n + (rest_n > 0), rest, rest_n + 1);
        *ret_path = joined;
    }
    free(paths);
    return joined ? 0 : below ? -ENOMEM : -EXDEV;
}
