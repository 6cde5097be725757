#include "serve/accept/inherited.h"

#include "serve/operations/number.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- The environment ---- */

static int count_sockets(unsigned *ret_count, const char **ret_problem)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    uint64_t number;
    *ret_count = 0;
    if (!fds || !serve_is_number(pid, INT32_MAX, &number) || number != (uint64_t)getpid())
        return 0;
    if (!serve_is_number(fds, SERVE_INHERITED_MAX, &number)) {
        *ret_problem = "LISTEN_FDS is not a number of descriptors";
        return -EINVAL;
    }
    *ret_count = (unsigned)number;
    return 0;
}

static void remove_from_environment(void)
{
    static const char *const names[] = {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
                                        "LISTEN_PIDFDID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

/* *names is where the search for the next name starts; NULL: there are no more. */
static size_t next_name(const char **names, const char **ret_name)
{
    *ret_name = *names ? *names : "";
    size_t n = strcspn(*ret_name, ":");
    if (*names)
        *names = (*names)[n] ? *names + n + 1 : NULL;
    return n;
}

/* ---- The sockets ---- */

static bool option_is(int fd, int option, int wanted)
{
    int value = -1;
    socklen_t length = sizeof value;
    return !gs_sys_getsockopt(fd, SOL_SOCKET, option, &value, &length) && value == wanted;
}

static int set_flags(int fd)
{
    int flags = gs_sys_fcntl(fd, F_GETFL, 0);
    int err = flags < 0 ? flags : gs_sys_fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    return err < 0 ? err : gs_sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static int take_socket(struct serve_inherited_socket *taken, const char *name, size_t n,
                       const char **ret_problem)
{
    struct serve_address *address = &taken->address;
    address->length = sizeof address->storage;
    address->file_fd = -1;
    address->is_tls = n >= strlen("https") && !strncmp(name, "https", strlen("https"));
    taken->is_bound = n == strlen(SERVE_BOUND_NAME) && !strncmp(name, SERVE_BOUND_NAME, n);
    taken->owner = SERVE_UNCLAIMED;
    *ret_problem = "LISTEN_FDS names a descriptor that is not a listening stream socket";
    if (!option_is(taken->fd, SO_TYPE, SOCK_STREAM) || !option_is(taken->fd, SO_ACCEPTCONN, 1))
        return -EINVAL;
    int err = gs_sys_getsockname(taken->fd, (struct sockaddr *)&address->storage, &address->length);
    if (err)
        return err;
    int family = address->storage.ss_family;
    *ret_problem = "LISTEN_FDS names a socket that is neither of IPv4, IPv6 nor a Unix socket";
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
        return -EINVAL;
    *ret_problem = "the flags of a socket of LISTEN_FDS can't be set";
    return set_flags(taken->fd);
}

static int append(struct serve_inherited *inherited, const char *name, size_t n,
                  const char **ret_problem)
{
    unsigned count = inherited->count + 1;
    struct serve_inherited_socket *items = realloc(inherited->items, count * sizeof *items);
    if (!items) {
        *ret_problem = "there is no memory for the sockets of LISTEN_FDS";
        return -ENOMEM;
    }
    inherited->items = items;
    items[count - 1] =
        (struct serve_inherited_socket){.fd = SERVE_INHERITED_FIRST + (int)inherited->count};
    inherited->count = count;
    return take_socket(&items[count - 1], name, n, ret_problem);
}

int serve_inherited_take(struct serve_inherited *ret_inherited, const char **ret_problem)
{
    struct serve_inherited inherited = {0};
    const char *names = getenv("LISTEN_FDNAMES"), *name;
    unsigned count;
    int err = count_sockets(&count, ret_problem);
    while (!err && inherited.count < count) {
        size_t n = next_name(&names, &name);
        err = append(&inherited, name, n, ret_problem);
    }
    remove_from_environment();
    if (err)
        free(inherited.items);
    else
        *ret_inherited = inherited;
    return err;
}

void serve_inherited_done(struct serve_inherited *inherited)
{
    for (unsigned i = 0; i < inherited->count; i++)
        gs_sys_close(inherited->items[i].fd);
    free(inherited->items);
    *inherited = (struct serve_inherited){0};
}

/* ---- Their addresses ---- */

static bool is_in(const struct serve_address *address, const struct sockaddr_in *asked)
{
    const struct sockaddr_in *name = (const struct sockaddr_in *)&address->storage;
    return name->sin_addr.s_addr == asked->sin_addr.s_addr &&
           (!asked->sin_port || name->sin_port == asked->sin_port);
}

static bool is_in6(const struct serve_address *address, const struct sockaddr_in6 *asked)
{
    const struct sockaddr_in6 *name = (const struct sockaddr_in6 *)&address->storage;
    return !memcmp(&name->sin6_addr, &asked->sin6_addr, sizeof asked->sin6_addr) &&
           name->sin6_scope_id == asked->sin6_scope_id &&
           (!asked->sin6_port || name->sin6_port == asked->sin6_port);
}

/* The kernel gives the length of a path with or without its end. */
static size_t path_length(const struct serve_address *address)
{
    size_t n = address->length - offsetof(struct sockaddr_un, sun_path);
    const struct sockaddr_un *name = (const struct sockaddr_un *)&address->storage;
    return name->sun_path[0] ? strnlen(name->sun_path, n) : n;
}

static bool is_un(const struct serve_address *address, const struct serve_address *asked)
{
    const struct sockaddr_un *name = (const struct sockaddr_un *)&address->storage;
    const struct sockaddr_un *other = (const struct sockaddr_un *)&asked->storage;
    size_t n = path_length(address);
    return n == path_length(asked) && !memcmp(name->sun_path, other->sun_path, n);
}

static bool is_at(const struct serve_address *address, const struct serve_address *asked)
{
    if (address->storage.ss_family != asked->storage.ss_family)
        return false;
    switch (asked->storage.ss_family) {
    case AF_INET:
        return is_in(address, (const struct sockaddr_in *)&asked->storage);
    case AF_INET6:
        return is_in6(address, (const struct sockaddr_in6 *)&asked->storage);
    default:
        return is_un(address, asked);
    }
}

unsigned serve_inherited_claim(struct serve_inherited *inherited, struct serve_address *address,
                               int owner)
{
    unsigned count = 0;
    for (unsigned i = 0; i < inherited->count; i++) {
        struct serve_inherited_socket *item = &inherited->items[i];
        if (item->owner != SERVE_UNCLAIMED || !is_at(&item->address, address))
            continue;
        if (!count++) {
            address->storage = item->address.storage;
            address->length = item->address.length;
        }
        item->owner = owner;
    }
    return count;
}

int serve_inherited_socket(const struct serve_inherited *inherited, int owner, unsigned n)
{
    unsigned i = 0;
    while (inherited->items[i].owner != owner || n--)
        i++;
    return inherited->items[i].fd;
}
