#include "load/target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- The user name and the body ---- */

/* Write the field of the Basic scheme (RFC 7617). */
static int write_authorization(FILE *text, const struct gs_http_url *url)
{
    char *value = malloc(GS_HTTP_BASIC_ROOM(url->user_length));
    if (!value)
        return -ENOMEM;
    gs_http_url_write_basic(url, value);
    fprintf(text, "Authorization: %s\r\n", value);
    free(value);
    return 0;
}

/* Returns false if reading failed. */
static bool copy_stream(FILE *from, FILE *to)
{
    char bytes[4096];
    for (size_t n = sizeof bytes; n == sizeof bytes;) {
        n = fread(bytes, 1, sizeof bytes, from);
        fwrite(bytes, 1, n, to);
    }
    return !ferror(from);
}

static int fail_to_read(const char *path)
{
    return cli_fail(&gs_load_command, "cannot read %s: %s", path, strerror(errno));
}

/* The body of all requests: a text, or "@" and the name of a file, "@-" for standard input. Returns
 * 0, -ENOMEM or, after printing a line to stderr, -EINVAL. */
static int read_body(const char *option, struct load_bytes *ret_body)
{
    bool is_file = *option == '@', is_stdin = !strcmp(option, "@-");
    FILE *from = !is_file ? NULL : is_stdin ? stdin : fopen(option + 1, "re");
    if (is_file && !from)
        return fail_to_read(option + 1);
    int err = 0;
    FILE *to = open_memstream(&ret_body->bytes, &ret_body->length);
    if (to && from && !copy_stream(from, to))
        err = fail_to_read(option + 1);
    else if (to && !from)
        fputs(option, to);
    if (!to || fclose(to))
        err = -ENOMEM;
    if (from && !is_stdin)
        (void)!fclose(from);
    return err;
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

static int write_fields(const struct load_settings *settings, const struct gs_http_url *url,
                        size_t body_length, FILE *text)
{
    int err = 0;
    if (!has_field(settings, "Host"))
        fprintf(text, "Host: %s\r\n", url->authority);
    bool has_body = settings->body || may_have_body(settings->method);
    if (has_body && !has_field(settings, "Content-Length") &&
        !has_field(settings, "Transfer-Encoding"))
        fprintf(text, "Content-Length: %zu\r\n", body_length);
    if (url->user_length && !has_field(settings, "Authorization"))
        err = write_authorization(text, url);
    for (size_t i = 0; i < settings->headers.count; i++)
        fprintf(text, "%s\r\n", settings->headers.items[i]);
    return err;
}

static int build_request(const struct load_target *target, const struct load_settings *settings,
                         const struct gs_http_url *url, bool is_last,
                         struct load_bytes *ret_request)
{
    struct load_bytes request;
    FILE *text = open_memstream(&request.bytes, &request.length);
    if (!text)
        return -ENOMEM;
    bool has_path = url->path_length && url->path[0] == '/';
    fprintf(text, "%s %s%.*s HTTP/1.1\r\n", settings->method, has_path ? "" : "/", url->path_length,
            url->path);
    int err = write_fields(settings, url, target->body.length, text);
    if (is_last && !has_field(settings, "Connection"))
        fputs("Connection: close\r\n", text);
    fputs("\r\n", text);
    if (target->body.length)
        fwrite(target->body.bytes, 1, target->body.length, text);
    bool has_failed = ferror(text);
    if (fclose(text) || has_failed || err) {
        free(request.bytes);
        return -ENOMEM;
    }
    *ret_request = request;
    return 0;
}

static int parse_url(const char *text, struct gs_http_url *ret_url)
{
    const char *reason;
    int err = gs_http_url_parse(text, ret_url, &reason);
    if (err)
        cli_fail(&gs_load_command, "URL \"%s\" %s", text, reason);
    return err;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static int add_server(struct load_target *target, const struct load_settings *settings,
                      const struct gs_http_url *url)
{
    if (!url->is_https && gs_load_has_tls_option(settings))
        return cli_fail(&gs_load_command,
                        "--ca, --insecure, --cert and --resume require an https URL");
    int err = gs_load_addresses_resolve(url, settings, &target->addresses);
    if (err || !url->is_https)
        return err;
    return gs_load_tls_target_init(&target->tls, settings, url,
                                   is_loopback(&target->addresses.server));
}

static int add_requests(struct load_target *target, const struct load_settings *settings)
{
    struct gs_http_url first, url;
    int err = parse_url(settings->urls[0], &first);
    for (size_t i = 0; !err && i < settings->url_count; i++) {
        err = parse_url(settings->urls[i], &url);
        if (err)
            return err;
        if (strcasecmp(url.host, first.host) != 0 || strcmp(url.port, first.port) != 0 ||
            url.is_https != first.is_https)
            return cli_fail(&gs_load_command, "all URLs must name one server: %s is not %s",
                            url.authority, first.authority);
        struct load_request *request = &target->requests[target->request_count++];
        err = build_request(target, settings, &url, false, &request->kept);
        if (!err)
            err = build_request(target, settings, &url, true, &request->last);
        if (!err && settings->is_http2)
            err = gs_load_fields_new(request->kept.bytes, url.is_https, &request->fields);
    }
    return err ? err : add_server(target, settings, &first);
}

int gs_load_target_init(struct load_target *target, const struct load_settings *settings)
{
    *target =
        (struct load_target){.requests = calloc(settings->url_count, sizeof *target->requests)};
    int err = target->requests ? 0 : -ENOMEM;
    if (!err && settings->body)
        err = read_body(settings->body, &target->body);
    if (!err)
        err = add_requests(target, settings);
    if (err == -ENOMEM)
        fprintf(stderr, "%s: out of memory\n", gs_load_command.name);
    if (err)
        gs_load_target_done(target);
    return err;
}

void gs_load_target_done(struct load_target *target)
{
    for (size_t i = 0; i < target->request_count; i++) {
        free(target->requests[i].kept.bytes);
        free(target->requests[i].last.bytes);
        gs_load_fields_free(target->requests[i].fields);
    }
    free(target->requests);
    free(target->body.bytes);
    gs_load_tls_target_done(&target->tls);
}
