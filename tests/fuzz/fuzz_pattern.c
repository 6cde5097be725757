/* Fuzzes patterns and redirects: a pattern matches what a slow and simple matcher says, what its
 * wildcards stand for lies within the path, and no location leads to a host of the path's. The
 * input is a pattern, a path, a target and a query, which end with NUL. */
#include "http/pattern.h"
#include "http/redirect.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- The simple matcher ---- */

#define TEXT_MAX 64

static char known[TEXT_MAX + 2][TEXT_MAX + 2]; /* 1: no match from here on */

static bool is_end(char c)
{
    return !c || c == '/';
}

static bool matches(const char *start, const char *pattern, const char *path, const char *text);

static bool matches_names(const char *start, const char *pattern, const char *path,
                          const char *text)
{
    if (!pattern[2])
        return true;
    for (; text; text = strchr(text, '/') ? strchr(text, '/') + 1 : NULL)
        if (matches(start, pattern + 3, path, text))
            return true;
    return false;
}

static bool matches_star(const char *start, const char *pattern, const char *path, const char *text)
{
    while (*pattern == '*')
        pattern++;
    do
        if (matches(start, pattern, path, text))
            return true;
    while (!is_end(*text++));
    return false;
}

static bool find(const char *start, const char *pattern, const char *path, const char *text)
{
    bool is_start = pattern == start || pattern[-1] == '/';
    if (is_start && pattern[0] == '*' && pattern[1] == '*' && is_end(pattern[2]))
        return matches_names(start, pattern, path, text);
    if (*pattern == '*')
        return matches_star(start, pattern, path, text);
    if (!*pattern || !*text)
        return *pattern == *text;
    return *pattern == *text && matches(start, pattern + 1, path, text + 1);
}

static bool matches(const char *start, const char *pattern, const char *path, const char *text)
{
    char *is_known = &known[pattern - start][text - path];
    if (*is_known)
        return false;
    bool found = find(start, pattern, path, text);
    *is_known = !found;
    return found;
}

static bool matches_simply(const char *pattern, const char *path)
{
    memset(known, 0, sizeof known);
    const char *slash = strrchr(path, '/');
    if (!strchr(pattern, '/') && slash)
        path = slash + 1;
    pattern += *pattern == '/';
    return matches(pattern, pattern, path, path);
}

/* ---- Redirects ---- */

static bool begins_with(const char *text, size_t n, const char *start)
{
    return n >= strlen(start) && !memcmp(text, start, strlen(start));
}

static void check_redirect(const char *pattern, const char *path, const char *target,
                           const char *query)
{
    static char out[GS_HTTP_LOCATION_MAX];
    struct gs_http_redirect redirect = {pattern, target, 301};
    struct gs_http_text path_text = {path, strlen(path)};
    for (const char *at = query; *at; at++) /* that of a target has no control characters */
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return;
    if (gs_http_site_redirect_problem(&redirect))
        return;
    struct gs_http_text query_text = {query, strlen(query)};
    size_t n = gs_http_redirect_location(&redirect, path_text, query_text, out);
    for (size_t i = 0; i < n; i++)
        assert((unsigned char)out[i] > ' ' && (unsigned char)out[i] < 0x7f && out[i] != '\\');
    if (!n)
        return;
    size_t host = strcspn(target, ":") + 3;
    if (*target == '/')
        assert(out[0] == '/' && (n == 1 || out[1] != '/'));
    else
        assert(begins_with(
            out, n, begins_with(target, strlen(target), "https://") ? "https://" : "http://"));
    if (*target == '/')
        return;
    size_t origin = host + strcspn(target + host, "/?#");
    assert(n >= origin && !memcmp(out, target, origin));
    assert(n == origin || strchr("/?#", out[origin]));
}

static void check_match(const char *pattern, const char *path)
{
    struct gs_http_text text = {path, strlen(path)}, captures[GS_HTTP_CAPTURES_MAX];
    bool is_match = gs_http_pattern_match(pattern, text, captures);
    assert(is_match == gs_http_pattern_match(pattern, text, NULL));
    if (strlen(pattern) <= TEXT_MAX && text.n <= TEXT_MAX)
        assert(is_match == matches_simply(pattern, path));
    for (unsigned i = 0; is_match && i < GS_HTTP_CAPTURES_MAX; i++)
        assert(!captures[i].n ||
               (captures[i].bytes >= path && captures[i].bytes + captures[i].n <= path + text.n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *parts[4], *copy = malloc(size + 5), *at = copy;
    assert(copy);
    memcpy(copy, data, size);
    memset(copy + size, 0, 5);
    for (int i = 0; i < 4; i++) {
        parts[i] = at;
        at += strlen(at) + (at < copy + size);
    }
    if (!gs_http_pattern_problem(parts[0])) {
        check_match(parts[0], parts[1]);
        if (gs_http_pattern_match(parts[0], (struct gs_http_text){parts[1], strlen(parts[1])},
                                  NULL))
            check_redirect(parts[0], parts[1], parts[2], parts[3]);
    }
    free(copy);
    return 0;
}
