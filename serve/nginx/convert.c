/* Blocks of nginx's configuration from the outermost to those of servers. */
#include "serve/nginx/nginx.h"

#include "serve/nginx/convert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What means nothing here, or is so in any case. */
static bool is_without_effect(const char *name)
{
    static const char *const names[] = {
        "events",
        "pid",
        "sendfile",
        "tcp_nopush",
        "tcp_nodelay",
        "types",
        "default_type",
        "types_hash_max_size",
        "server_tokens",
        "log_format",
        "ssl_session_cache",
        "ssl_session_timeout",
        "ssl_session_tickets",
        "ssl_prefer_server_ciphers",
        "http2",
        "server_name_in_redirect",
        "worker_rlimit_nofile",
        "server_names_hash_bucket_size",
        "etag",
        "reset_timedout_connection",
        "open_file_cache",
        "open_file_cache_valid",
        "open_file_cache_min_uses",
        "open_file_cache_errors",
        "log_not_found",
        "ssl_dhparam",
        "ssl_ecdh_curve",
        "sendfile_max_chunk",
        "load_module",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* ---- The server as a whole ---- */

/* The first value of a setting counts. */
static void add_line(struct serve_nginx *nginx, const struct serve_directive *directive,
                     const char *setting, const char *value)
{
    const struct serve_config_entry *lines = nginx->lines.items;
    for (size_t i = 0; i < nginx->lines.count; i++) {
        if (strcmp(lines[i].name, setting) != 0)
            continue;
        if (strcmp(lines[i].value, value) != 0)
            serve_nginx_leave_out(nginx, directive, "all hosts have the same, the first was taken");
        return;
    }
    struct serve_config_entry *line = serve_nginx_add(nginx, &nginx->lines, sizeof *line);
    if (line)
        *line = (struct serve_config_entry){.name = setting, .value = value};
}

static void take_log_level(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    const char *level = directive->word_count > 2 ? directive->words[2] : "error";
    bool is_verbose = !strcmp(level, "info") || !strcmp(level, "notice") || !strcmp(level, "debug");
    add_line(nginx, directive, "log_level",
             is_verbose               ? "info"
             : !strcmp(level, "warn") ? "warn"
                                      : "error");
    if (strcmp(directive->words[1], "stderr") != 0)
        serve_nginx_leave_out(nginx, directive, "messages go to stderr; the level was taken");
}

/* Times of nginx are in seconds, or have the units of ours, but for days and longer. */
static bool take_server_wide(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    static const char *const settings[][2] = {
        {"user", "user"},
        {"keepalive_timeout", "idle_timeout"},
        {"client_header_timeout", "header_timeout"},
        {"client_max_body_size", "body_size"},
        {"keepalive_requests", "requests_per_connection"},
    };
    const char *name = directive->words[0];
    if (directive->word_count < 2)
        return false;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (strcmp(name, settings[i][0]) != 0)
            continue;
        add_line(nginx, directive, settings[i][1], directive->words[1]);
        return true;
    }
    if (!strcmp(name, "worker_processes") && strcmp(directive->words[1], "auto") != 0)
        add_line(nginx, directive, "workers", directive->words[1]);
    else if (!strcmp(name, "access_log") && strcmp(directive->words[1], "off") != 0)
        add_line(nginx, directive, "access_log", directive->words[1]);
    else if (!strcmp(name, "error_log"))
        take_log_level(nginx, directive);
    else
        return !strcmp(name, "worker_processes") || !strcmp(name, "access_log");
    return true;
}

/* ---- A server block ---- */

static void add_listen(struct serve_nginx *nginx, const char *where)
{
    const char *const *items = nginx->listen.items;
    for (size_t i = 0; i < nginx->listen.count; i++)
        if (!strcmp(items[i], where))
            return;
    const char **added = serve_nginx_add(nginx, &nginx->listen, sizeof *added);
    if (added)
        *added = where;
}

static bool has_word(const struct serve_directive *directive, const char *word)
{
    for (size_t i = 1; i < directive->word_count; i++)
        if (!strcmp(directive->words[i], word))
            return true;
    return false;
}

/* In an IPv6 address, behind its bracket. */
static bool has_port(const char *where)
{
    const char *bracket = strchr(where, ']');
    return strchr(bracket ? bracket : where, ':');
}

static void take_listen(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    const char *where = directive->words[1];
    bool is_tls = has_word(directive, "ssl"), is_unix = !strncmp(where, "unix:", 5);
    size_t digits = strspn(where, "0123456789");
    bool is_address = strspn(where, "0123456789.:*[]abcdefABCDEF") == strlen(where);
    if (has_word(directive, "proxy_protocol") || (!is_address && !is_unix)) {
        serve_nginx_leave_out(nginx, directive, "an address, a port or unix:PATH is needed");
        return;
    }
    if (!where[digits])
        where = serve_nginx_text(nginx, "*:%s", where);
    else if (!is_unix && !has_port(where))
        where = serve_nginx_text(nginx, "%s:80", where);
    add_listen(nginx, serve_nginx_text(nginx, "%s%s", is_tls ? "https://" : "", where));
    nginx->has_tls |= is_tls;
    nginx->is_default |= has_word(directive, "default_server");
}

static void add_name(struct serve_nginx *nginx, const char *name)
{
    const char **added = serve_nginx_add(nginx, &nginx->host.names, sizeof *added);
    if (added)
        *added = name;
}

static void take_names(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    for (size_t i = 1; i < directive->word_count; i++) {
        const char *name = directive->words[i];
        const char *star = strchr(name, '*');
        if (*name == '~' || (star && (star != name || strchr(star + 1, '*'))))
            serve_nginx_leave_out(nginx, directive,
                                  "names are whole, or end alike (*.example.org)");
        else if (*name == '.') {
            add_name(nginx, name + 1);
            add_name(nginx, serve_nginx_text(nginx, "*%s", name));
        } else if (*name && strcmp(name, "_") != 0 && strcmp(name, "localhost") != 0) {
            add_name(nginx, name);
        }
    }
}

static void take_index(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    if (directive->word_count != 2 || strcmp(directive->words[1], "index.html") != 0)
        serve_nginx_leave_out(nginx, directive, "the index of a folder is index.html alone");
}

/* certbot's `if ($host = example.org) { return 301 https://$host$request_uri; }`. */
static void take_if(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    const struct serve_directive *inner = directive->block.items;
    bool returns = directive->block.count == 1 && !strcmp(inner->words[0], "return") &&
                   inner->word_count == 3 && !strncmp(inner->words[2], "https://$", 9);
    if (returns)
        nginx->returns_https = true;
    else
        serve_nginx_leave_out(nginx, directive, "conditions are not supported");
}

static void take_protocols(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    if (directive->word_count == 2 && !strcmp(directive->words[1], "TLSv1.3"))
        add_line(nginx, directive, "tls_modern", "true");
}

static void take_directive(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    const char *name = directive->words[0];
    bool has_word_1 = directive->word_count > 1;
    if (!strcmp(name, "listen") && has_word_1)
        take_listen(nginx, directive);
    else if (!strcmp(name, "server_name"))
        take_names(nginx, directive);
    else if (!strcmp(name, "index"))
        take_index(nginx, directive);
    else if (!strcmp(name, "location"))
        serve_nginx_location(nginx, directive);
    else if (!strcmp(name, "return") && nginx->returns_https && !nginx->has_tls)
        return; /* for hosts that are not redirected, if there are any */
    else if (!strcmp(name, "return") && has_word_1)
        serve_nginx_return(nginx, directive, "/", false);
    else if (!strcmp(name, "if"))
        take_if(nginx, directive);
    else if (!strcmp(name, "try_files") && directive->word_count > 2)
        serve_nginx_try_files(nginx, directive);
    else if (!strcmp(name, "ssl_protocols"))
        take_protocols(nginx, directive);
    else if (!serve_nginx_take(nginx, directive, &nginx->server) &&
             !take_server_wide(nginx, directive) && !is_without_effect(name))
        serve_nginx_leave_out(nginx, directive, "there is no such setting");
}

/* The default server is the first host; ours is that without names, or else the first. */
static void add_host(struct serve_nginx *nginx)
{
    struct serve_config_host *host = serve_nginx_add(nginx, &nginx->config.hosts, sizeof *host);
    if (!host)
        return;
    struct serve_config_host *first = nginx->config.hosts.items;
    if (nginx->is_default && nginx->host.names.count) {
        memmove(first + 1, first, (size_t)(host - first) * sizeof *host);
        host = first;
    }
    *host = nginx->host;
}

static void finish_server(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    struct serve_config_host *host = &nginx->host;
    if (nginx->returns_https && !nginx->has_tls) {
        nginx->redirects_https = true;
        return;
    }
    host->line = directive->line;
    host->certificate = nginx->has_tls ? nginx->server.certificate : NULL;
    host->key = nginx->has_tls ? nginx->server.key : NULL;
    host->error_pages = nginx->server.error_pages;
    host->root = nginx->server.root ? nginx->server.root : host->root;
    if (!host->root && host->redirects.count)
        host->root = "/var/www/html"; /* all of it is redirected */
    if (host->root)
        add_host(nginx);
    else
        serve_nginx_leave_out(nginx, directive, "it has no root");
}

/* Fields for all files are placed before those of locations, which replace them. */
static void take_server(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    nginx->host = (struct serve_config_host){0};
    nginx->server = nginx->http;
    nginx->server.fields = (struct serve_config_items){0};
    nginx->has_tls = nginx->is_default = nginx->returns_https = false;
    for (int wants_locations = 0; wants_locations < 2; wants_locations++) {
        for (size_t i = 0; i < directive->block.count; i++) {
            const struct serve_directive *inner = &directive->block.items[i];
            bool is_late =
                !strcmp(inner->words[0], "location") || !strcmp(inner->words[0], "return");
            if (is_late == wants_locations)
                take_directive(nginx, inner);
        }
        if (wants_locations)
            continue;
        if (!nginx->server.fields.count)
            nginx->server.fields = nginx->http.fields;
        serve_nginx_add_headers(nginx, &nginx->server, "**", directive->line);
    }
    finish_server(nginx, directive);
}

/* ---- The file ---- */

static void take_block(struct serve_nginx *nginx, const struct serve_directives *block)
{
    for (size_t i = 0; i < block->count; i++) {
        const struct serve_directive *directive = &block->items[i];
        const char *name = directive->words[0];
        if (!strcmp(name, "http"))
            take_block(nginx, &directive->block);
        else if (!strcmp(name, "server"))
            take_server(nginx, directive);
        else if (!strcmp(name, "index"))
            take_index(nginx, directive);
        else if (!serve_nginx_take(nginx, directive, &nginx->http) &&
                 !take_server_wide(nginx, directive) && !is_without_effect(name) &&
                 strcmp(name, "ssl_protocols") != 0 && strcmp(name, "include") != 0)
            serve_nginx_leave_out(nginx, directive, "there is no such setting");
    }
}

static void print(const struct serve_nginx *nginx, FILE *out)
{
    const char *const *listen = nginx->listen.items;
    const struct serve_config_entry *lines = nginx->lines.items;
    fputs("listen: [", out);
    for (size_t i = 0; i < nginx->listen.count; i++) {
        fputs(i ? ", " : "", out);
        serve_config_print_text(out, listen[i]);
    }
    fputs(nginx->listen.count ? "]\n" : "\"*:80\"]\n", out);
    if (nginx->redirects_https)
        fputs("redirect_https: true\n", out);
    for (size_t i = 0; i < nginx->lines.count; i++)
        fprintf(out, "%s: %s\n", lines[i].name, lines[i].value);
    serve_config_print_hosts(&nginx->config, out);
}

/* Returns what stands before the last slash of the file's path. */
static const char *folder_of(struct serve_nginx *nginx, const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? serve_nginx_text(nginx, "%.*s", (int)(slash - file), file) : ".";
}

int serve_nginx_convert(const char *file, FILE *out, struct serve_report *report)
{
    struct serve_nginx nginx = {.report = report};
    struct serve_directives directives;
    struct serve_directive_reader reader = {
        .arena = &nginx.arena, .report = report, .folder = folder_of(&nginx, file)};
    report->file = file;
    int err = serve_directives_read(&reader, file, &directives);
    if (!err)
        take_block(&nginx, &directives);
    if (!err && nginx.lacks_memory)
        err = -ENOMEM;
    if (err == -ENOMEM)
        serve_report_add(report, 0, "there is not enough memory");
    if (!err && !nginx.config.hosts.count) {
        report->file = file;
        serve_report_add(report, 0, "there is no server with a root: name the main file of nginx");
        err = -EINVAL;
    }
    if (!err)
        print(&nginx, out);
    serve_arena_free(&nginx.arena);
    return err;
}
