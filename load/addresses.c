#include "load/addresses.h"

#include "load/settings.h"

#include <gossamer/sys.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SOURCES_BY_DEFAULT = 64 };

static bool is_loopback_4(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;
    return address->ss_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool accepts(const struct addrinfo *info)
{
    int fd = gs_sys_socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    int err = gs_sys_connect(fd, info->ai_addr, info->ai_addrlen);
    gs_sys_close(fd);
    return err == 0;
}

/* A name such as localhost often has two addresses, of which a server listens on one. */
static const struct addrinfo *choose(const struct addrinfo *infos)
{
    if (!infos->ai_next)
        return infos;
    for (const struct addrinfo *info = infos; info; info = info->ai_next) {
        if (accepts(info))
            return info;
    }
    return infos;
}

int gs_load_addresses_find(const struct load_url *url, uint64_t sources,
                           struct load_addresses *ret_addresses)
{
    struct addrinfo *infos, wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int problem = getaddrinfo(url->host, url->port, &wanted, &infos);
    if (problem) {
        fprintf(stderr, "%s: no address for \"%s\": %s\n", gs_load_command.name, url->host,
                gai_strerror(problem));
        return -EHOSTUNREACH;
    }
    const struct addrinfo *chosen = choose(infos);
    struct load_addresses found = {.length = chosen->ai_addrlen};
    memcpy(&found.server, chosen->ai_addr, chosen->ai_addrlen);
    freeaddrinfo(infos);
    if (is_loopback_4(&found.server))
        found.sources = sources ? (uint32_t)sources : SOURCES_BY_DEFAULT;
    else if (sources)
        return cli_fail(&gs_load_command,
                        "--source-addresses needs a server in 127/8, which \"%s\" is not",
                        url->host);
    *ret_addresses = found;
    return 0;
}

/* The port is left to connect, which may use one anew for each address. */
static int bind_source(int fd, uint32_t index)
{
    int on = 1;
    struct sockaddr_in source = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK + index)};
    int err = gs_sys_setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    return err ? err : gs_sys_bind(fd, (const struct sockaddr *)&source, sizeof source);
}

int gs_load_addresses_socket(const struct load_addresses *addresses, uint64_t index)
{
    int on = 1;
    int fd =
        gs_sys_socket(addresses->server.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int err = gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!err && addresses->sources > 1)
        err = bind_source(fd, (uint32_t)(index % addresses->sources));
    if (err) {
        gs_sys_close(fd);
        return err;
    }
    return fd;
}
