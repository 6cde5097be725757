#include "load/target.h"

#include <gossamer/sys.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Addresses ---- */

enum { DEFAULT_SOURCE_COUNT = 64 };

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

/* A name such as localhost often has two addresses, while the server listens on one of them. */
static const struct addrinfo *choose_address(const struct addrinfo *infos)
{
    if (!infos->ai_next)
        return infos;
    for (const struct addrinfo *info = infos; info; info = info->ai_next) {
        if (accepts(info))
            return info;
    }
    return infos;
}

int gs_load_addresses_resolve(const struct load_url *url, uint64_t source_count,
                              struct load_addresses *ret_addresses)
{
    struct addrinfo *infos, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int error = getaddrinfo(url->host, url->port, &hints, &infos);
    if (error) {
        fprintf(stderr, "%s: cannot resolve \"%s\": %s\n", gs_load_command.name, url->host,
                gai_strerror(error));
        return -EHOSTUNREACH;
    }
    const struct addrinfo *chosen = choose_address(infos);
    struct load_addresses found = {.length = chosen->ai_addrlen};
    memcpy(&found.server, chosen->ai_addr, chosen->ai_addrlen);
    freeaddrinfo(infos);
    if (is_loopback_4(&found.server))
        found.source_count = source_count ? (uint32_t)source_count : DEFAULT_SOURCE_COUNT;
    else if (source_count)
        return cli_fail(&gs_load_command,
                        "--source-addresses requires a server in 127/8, and \"%s\" is not",
                        url->host);
    *ret_addresses = found;
    return 0;
}

/* connect chooses the port, so that each source address has all ephemeral ports. */
static int bind_source(int fd, uint32_t index)
{
    int on = 1;
    struct sockaddr_in source = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK + index)};
    int err = gs_sys_setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    return err ? err : gs_sys_bind(fd, (const struct sockaddr *)&source, sizeof source);
}

int gs_load_addresses_open_socket(const struct load_addresses *addresses, uint64_t index)
{
    int on = 1;
    int fd =
        gs_sys_socket(addresses->server.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int err = gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!err && addresses->source_count > 1)
        err = bind_source(fd, (uint32_t)(index % addresses->source_count));
    if (err) {
        gs_sys_close(fd);
        return err;
    }
    return fd;
}

/* ---- Requests ---- */

static bool has_field(const struct load_settings *settings, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < settings->headers.count; i++) {
        if (!strncasecmp(settings->headers.items[i], name, n) &&
            settings->headers.items[i][n] == ':')
            return true;
    }
    return false;
}

static bool may_have_body(const char *method)
{
    return !strcmp(method, "POST") || !strcmp(method, "PUT") || !strcmp(method, "PATCH");
}

static int build_request(const struct load_settings *settings, const struct load_url *url,
                         bool is_last, char **ret_bytes, size_t *ret_length)
{
    char *bytes;
    size_t length;
    FILE *text = open_memstream(&bytes, &length);
    if (!text)
        return -ENOMEM;
    bool has_path = url->path_length && url->path[0] == '/';
    fprintf(text, "%s %s%.*s HTTP/1.1\r\n", settings->method, has_path ? "" : "/", url->path_length,
            url->path);
    if (!has_field(settings, "Host"))
        fprintf(text, "Host: %s\r\n", url->authority);
    if (may_have_body(settings->method) && !has_field(settings, "Content-Length"))
        fputs("Content-Length: 0\r\n", text);
    if (is_last && !has_field(settings, "Connection"))
        fputs("Connection: close\r\n", text);
    for (size_t i = 0; i < settings->headers.count; i++)
        fprintf(text, "%s\r\n", settings->headers.items[i]);
    fputs("\r\n", text);
    bool has_failed = ferror(text);
    if (fclose(text) || has_failed) {
        free(bytes);
        return -ENOMEM;
    }
    *ret_bytes = bytes;
    *ret_length = length;
    return 0;
}

static int parse_url(const char *text, struct load_url *ret_url)
{
    const char *reason;
    int err = gs_load_url_parse(text, ret_url, &reason);
    if (err)
        cli_fail(&gs_load_command, "URL \"%s\" %s", text, reason);
    return err;
}

static int add_requests(struct load_target *target, const struct load_settings *settings)
{
    struct load_url first, url;
    int err = parse_url(settings->urls[0], &first);
    for (size_t i = 0; !err && i < settings->url_count; i++) {
        err = parse_url(settings->urls[i], &url);
        if (err)
            return err;
        if (strcasecmp(url.authority, first.authority) != 0)
            return cli_fail(&gs_load_command, "all URLs must name one server: %s is not %s",
                            url.authority, first.authority);
        struct load_request *request = &target->requests[target->request_count++];
        err = build_request(settings, &url, false, &request->bytes, &request->length);
        if (!err)
            err = build_request(settings, &url, true, &request->last_bytes, &request->last_length);
    }
    if (err)
        return err;
    return gs_load_addresses_resolve(&first, settings->source_addresses, &target->addresses);
}

int gs_load_target_init(struct load_target *target, const struct load_settings *settings)
{
    *target =
        (struct load_target){.requests = calloc(settings->url_count, sizeof *target->requests)};
    int err = target->requests ? add_requests(target, settings) : -ENOMEM;
    if (err == -ENOMEM)
        fprintf(stderr, "%s: out of memory\n", gs_load_command.name);
    if (err)
        gs_load_target_done(target);
    return err;
}

void gs_load_target_done(struct load_target *target)
{
    for (size_t i = 0; i < target->request_count; i++) {
        free(target->requests[i].bytes);
        free(target->requests[i].last_bytes);
    }
    free(target->requests);
}
