/* gs_listen and gs_bind_unix. */
#include "thread/net/address.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

/* ---- Unix sockets ---- */

/* Whether the file is a socket, of a server that has ended. */
static bool is_stale(const char *path, const struct sockaddr *address, socklen_t length)
{
    struct stat file;
    if (gs_sys_fstatat(AT_FDCWD, path, &file, AT_SYMLINK_NOFOLLOW) || !S_ISSOCK(file.st_mode))
        return false;
    int fd = gs_sys_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    int err = gs_sys_connect(fd, address, length);
    gs_sys_close(fd);
    return err == -ECONNREFUSED;
}

int gs_bind_unix(int fd, const struct sockaddr *address, socklen_t length)
{
    const size_t before_path = offsetof(struct sockaddr_un, sun_path);
    char path[sizeof(struct sockaddr_un) + 1] = {0}; /* the system call needs no null byte */
    int err = gs_sys_bind(fd, address, length);
    if (err != -EADDRINUSE || length <= before_path || length > sizeof(struct sockaddr_un))
        return err;
    memcpy(path, ((const struct sockaddr_un *)address)->sun_path, length - before_path);
    if (!is_stale(path, address, length))
        return err;
    err = (int)gs_syscall(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0);
    return err && err != -ENOENT ? -EADDRINUSE : gs_sys_bind(fd, address, length);
}

/* ---- Listening ---- */

static int set_option(int fd, int level, int name, int value)
{
    return gs_sys_setsockopt(fd, level, name, &value, sizeof value);
}

static int set_options(int fd, int family, bool is_dual, const struct gs_listen_options *options)
{
    int err = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (!err && family == AF_INET6)
        err = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !is_dual);
    if (!err)
        err = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); /* connections inherit it */
    if (!err && options->shares_port)
        err = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    return err;
}

static int listen_at(const struct address *address, bool is_dual,
                     const struct gs_listen_options *options)
{
    const struct sockaddr *name = (const struct sockaddr *)&address->storage;
    int family = name->sa_family;
    int fd = gs_sys_socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int err = family == AF_UNIX ? 0 : set_options(fd, family, is_dual, options);
    if (!err)
        err = family == AF_UNIX ? gs_bind_unix(fd, name, address->length)
                                : gs_sys_bind(fd, name, address->length);
    unsigned backlog = options->backlog;
    if (!err)
        err = gs_sys_listen(fd, backlog && backlog < INT_MAX ? (int)backlog : INT_MAX);
    if (!err)
        return fd;
    gs_sys_close(fd);
    return err;
}

/* Every address of both families, or of IPv4 if the system has no IPv6. */
static int listen_everywhere(const char *port, const struct gs_listen_options *options)
{
    struct address address;
    if (!gs_address_is_numeric("::", port, &address))
        return -EINVAL;
    int fd = listen_at(&address, true, options);
    if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL)
        return fd;
    return gs_address_is_numeric("0.0.0.0", port, &address) ? listen_at(&address, false, options)
                                                            : -EINVAL;
}

int gs_listen(const char *address, const struct gs_listen_options *options)
{
    static const struct gs_listen_options defaults;
    char host[HOST_SIZE], port[SERVICE_SIZE];
    struct address parsed;
    options = options ? options : &defaults;
    if (gs_address_is_unix(address)) {
        int err = gs_address_parse_unix(address, &parsed);
        return err ? err : listen_at(&parsed, false, options);
    }
    int err = gs_address_split(address, host, port);
    if (err)
        return err;
    if (!host[0])
        return listen_everywhere(port, options);
    return gs_address_is_numeric(host, port, &parsed) ? listen_at(&parsed, false, options)
                                                      : -EINVAL;
}
