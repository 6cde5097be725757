/* Locations, and what they do. */
#include "serve/nginx/convert.h"

#include <stdlib.h>
#include <string.h>

/* The last name of a pattern, as `\.(jpg|png)$` gives several. */
enum { ENDINGS_MAX = 50 };

void serve_nginx_try_files(struct serve_nginx *nginx, const struct serve_directive *directive)
{
    size_t last = directive->word_count - 1;
    const char *page = directive->words[last];
    bool is_plain = true;
    for (size_t i = 1; i < last; i++) {
        const char *word = directive->words[i];
        nginx->host.clean_urls |= !strcmp(word, "$uri.html");
        is_plain &= !strcmp(word, "$uri") || !strcmp(word, "$uri/") || !strcmp(word, "$uri.html") ||
                    !strcmp(word, "$uri/index.html");
    }
    size_t n = strcspn(page, "?$");
    if (!is_plain || (*page != '/' && strcmp(page, "=404") && strncmp(page, "$uri", 4)))
        serve_nginx_leave_out(nginx, directive,
                              "the server looks for the file, a folder with "
                              "index.html, FILE.html, and one fallback");
    else if (*page == '/')
        nginx->host.fallback = serve_nginx_text(nginx, "%.*s", (int)n, page);
}

/* Returns whether the text is "VARIABLES" behind the prefix. */
static bool is_same_path(const char *text)
{
    return !strcmp(text, "$request_uri") || !strcmp(text, "$uri");
}

static const char *expand_scheme(struct serve_nginx *nginx, const char *url)
{
    const char *scheme = "$scheme://";
    if (strncmp(url, scheme, strlen(scheme)))
        return url;
    return serve_nginx_text(nginx, "%s://%s", nginx->has_tls ? "https" : "http",
                            url + strlen(scheme));
}

void serve_nginx_return(struct serve_nginx *nginx, const struct serve_directive *directive,
                        const char *from, bool is_exact)
{
    const char *status = directive->words[1];
    const char *url = directive->word_count == 3 ? directive->words[2] : "";
    if (!strncmp(url, "https://$", 9) && strchr(url, '$') && !is_exact &&
        (strstr(url, "$request_uri") || strstr(url, "$uri"))) {
        nginx->returns_https = true;
        return;
    }
    url = expand_scheme(nginx, url);
    const char *variable = strchr(url, '$');
    bool is_redirect = strlen(status) == 3 && strstr("301|302|307|308", status);
    if (!is_redirect || !*url || (variable && (is_exact || !is_same_path(variable)))) {
        serve_nginx_leave_out(nginx, directive, "only redirects to a path or URL are supported");
        return;
    }
    struct serve_config_redirect *redirect =
        serve_nginx_add(nginx, &nginx->host.redirects, sizeof *redirect);
    if (!redirect)
        return;
    redirect->line = directive->line;
    redirect->from = is_exact ? from : serve_nginx_text(nginx, "%s**", from);
    redirect->to =
        variable ? serve_nginx_text(nginx, "%.*s%s$1", (int)(variable - url), url, from) : url;
    redirect->status = (uint64_t)atoi(status);
}

/* The endings of `\.(?:jpe?g|png)$`, or of `\.css$`. Returns their number; 0: it is another. */
static size_t parse_endings(struct serve_nginx *nginx, const char *regex,
                            const char *endings[ENDINGS_MAX])
{
    size_t count = 0, length = strlen(regex);
    if (strncmp(regex, "\\.", 2) || length < 4 || regex[length - 1] != '$')
        return 0;
    const char *at = regex + 2, *end = regex + length - 1;
    if (*at == '(' && end[-1] == ')') {
        at += strncmp(at, "(?:", 3) ? 1 : 3;
        end--;
    }
    while (at < end) {
        size_t n = strcspn(at, "|)$");
        const char *optional = memchr(at, '?', n);
        for (size_t i = 0; i < n; i++)
            if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789?_-", at[i]))
                return 0;
        if (!n || optional == at || count + 2 > ENDINGS_MAX)
            return 0;
        if (optional) {
            int before = (int)(optional - at), behind = (int)n - before - 1;
            endings[count++] =
                serve_nginx_text(nginx, "%.*s%.*s", before - 1, at, behind, optional + 1);
            endings[count++] =
                serve_nginx_text(nginx, "%.*s%.*s", before, at, behind, optional + 1);
        } else {
            endings[count++] = serve_nginx_text(nginx, "%.*s", (int)n, at);
        }
        if (count && memchr(endings[count - 1], '?', strlen(endings[count - 1])))
            return 0;
        at += n + (at[n] == '|');
        if (at < end && (*at == ')' || *at == '$'))
            return 0;
    }
    return count;
}

/* What a location without effect may contain. */
static bool is_harmless(const struct serve_directive *directive)
{
    static const char *const names[] = {"log_not_found", "internal", "tcp_nodelay",     "sendfile",
                                        "etag",          "allow",    "limit_rate_after"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(directive->words[0], names[i]))
            return true;
    return false;
}

/* The paths of a location: a prefix or a whole path, or endings of names. */
struct paths {
    const char *prefix;
    bool is_exact;
    const char *endings[ENDINGS_MAX];
    size_t ending_count;
};

static void take_directive(struct serve_nginx *nginx, const struct serve_directive *directive,
                           const struct paths *paths, struct serve_nginx_scope *scope)
{
    const char *name = directive->words[0];
    bool is_all = paths->prefix && !strcmp(paths->prefix, "/") && !paths->is_exact;
    if (!strcmp(name, "return") && directive->word_count > 1 && paths->prefix)
        serve_nginx_return(nginx, directive, paths->prefix, paths->is_exact);
    else if (!strcmp(name, "try_files") && directive->word_count > 1 && is_all)
        serve_nginx_try_files(nginx, directive);
    else if (!strcmp(name, "try_files"))
        serve_nginx_leave_out(nginx, directive, "a site has one fallback, for all of its paths");
    else if (!strcmp(name, "index") && directive->word_count > 1 &&
             !strcmp(directive->words[1], "index.html"))
        return;
    else if (!serve_nginx_take(nginx, directive, scope) && !is_harmless(directive))
        serve_nginx_leave_out(nginx, directive, "a location can't have this");
}

static void take_block(struct serve_nginx *nginx, const struct serve_directive *location,
                       const struct paths *paths)
{
    struct serve_nginx_scope scope = {.root = nginx->server.root, .expires = nginx->server.expires};
    for (size_t i = 0; i < location->block.count; i++)
        take_directive(nginx, &location->block.items[i], paths, &scope);
    bool is_all = paths->prefix && !strcmp(paths->prefix, "/") && !paths->is_exact;
    if (is_all && !nginx->host.root)
        nginx->host.root = scope.root;
    else if (scope.root && nginx->server.root && strcmp(scope.root, nginx->server.root) != 0)
        serve_nginx_leave_out(nginx, location, "all paths of a host are in the same root");
    if (scope.error_pages.count)
        serve_nginx_leave_out(nginx, location, "error pages are those of a host");
    if (scope.expires == nginx->server.expires && !scope.fields.count)
        return;
    for (size_t i = 0; i < paths->ending_count; i++)
        serve_nginx_add_headers(nginx, &scope, serve_nginx_text(nginx, "*.%s", paths->endings[i]),
                                location->line);
    if (paths->prefix)
        serve_nginx_add_headers(nginx, &scope,
                                is_all            ? "**"
                                : paths->is_exact ? paths->prefix
                                                  : serve_nginx_text(nginx, "%s**", paths->prefix),
                                location->line);
}

/* `location ~ /\.` with `deny all`: such files are not served in any case. */
static bool is_denial_of_dotfiles(const struct serve_directive *location, const char *regex)
{
    return !strncmp(regex, "/\\.", 3) && location->block.count &&
           !strcmp(location->block.items[0].words[0], "deny");
}

void serve_nginx_location(struct serve_nginx *nginx, const struct serve_directive *location)
{
    struct paths paths = {0};
    const char *modifier = location->word_count == 3 ? location->words[1] : "";
    const char *path = location->words[location->word_count - 1];
    bool is_regex = *modifier == '~';
    if (location->word_count < 2 || location->word_count > 3) {
        serve_nginx_leave_out(nginx, location, "it has no path");
        return;
    }
    if (is_regex && is_denial_of_dotfiles(location, path))
        return;
    if (is_regex)
        paths.ending_count = parse_endings(nginx, path, paths.endings);
    paths.is_exact = !strcmp(modifier, "=");
    bool is_prefix = !is_regex && !paths.is_exact && *path;
    bool lacks_slash = is_prefix && path[strlen(path) - 1] != '/';
    paths.prefix = is_regex ? NULL : serve_nginx_text(nginx, "%s%s", path, lacks_slash ? "/" : "");
    bool has_pattern = is_regex ? paths.ending_count > 0 : *path == '/' && !strpbrk(path, "*?");
    if (!has_pattern)
        serve_nginx_leave_out(nginx, location, "it can't be said by a pattern");
    else
        take_block(nginx, location, &paths);
}
