#include "load/target.h"

#include "load/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static int form_request(const struct load_settings *settings, const struct load_url *url,
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
    bool is_bad = ferror(text);
    if (fclose(text) || is_bad) {
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
            return cli_fail(&gs_load_command, "all URLs must be of one server: %s is not %s",
                            url.authority, first.authority);
        struct load_request *request = &target->requests[target->request_count++];
        err = form_request(settings, &url, false, &request->bytes, &request->length);
        if (!err)
            err = form_request(settings, &url, true, &request->last_bytes, &request->last_length);
    }
    if (err)
        return err;
    return gs_load_addresses_find(&first, settings->source_addresses, &target->addresses);
}

int gs_load_target_init(struct load_target *target, const struct load_settings *settings)
{
    *target =
        (struct load_target){.requests = calloc(settings->url_count, sizeof *target->requests)};
    int err = target->requests ? add_requests(target, settings) : -ENOMEM;
    if (err == -ENOMEM)
        fprintf(stderr, "%s: no memory\n", gs_load_command.name);
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
