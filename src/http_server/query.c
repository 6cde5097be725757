/* What a handler gets from its request: fields by name, the path and the query, decoded. */
#include "http/target.h"
#include "http/token.h"

#include <errno.h>
#include <gossamer/http_server.h>
#include <string.h>

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_same_name(const char *a, const char *b)
{
    while (*a && to_lower(*a) == to_lower(*b)) {
        a++;
        b++;
    }
    return !*a && !*b;
}

const char *gs_http_field(const struct gs_http_exchange *exchange, const char *name)
{
    for (unsigned i = 0; i < exchange->field_count; i++)
        if (is_same_name(exchange->fields[i].name, name))
            return exchange->fields[i].value;
    return NULL;
}

ssize_t gs_http_decode_path(const char *path, char *out, size_t size)
{
    unsigned flags;
    return gs_http_path_normalise((struct gs_http_text){path, strlen(path)}, out, size, &flags);
}

/* Decode the next character of a name or a value, and advance *at. Returns it, or -1: a malformed
 * escape, or NUL. */
static int next_character(const char **at)
{
    const char *c = *at;
    if (*c != '%') {
        (*at)++;
        return *c == '+' ? ' ' : (unsigned char)*c;
    }
    if (!gs_http_is(c[1], GS_HTTP_HEX) || !gs_http_is(c[2], GS_HTTP_HEX))
        return -1;
    *at += 3;
    int value = (int)(gs_http_hex_value(c[1]) << 4 | gs_http_hex_value(c[2]));
    return value ? value : -1;
}

static bool is_end(char c)
{
    return c == '\0' || c == '&';
}

/* Returns the value behind the name at the start of this parameter; NULL: it has another name. */
static const char *match_name(const char *at, const char *name)
{
    while (!is_end(*at) && *at != '=') {
        int c = next_character(&at);
        if (c < 0 || !*name || c != (unsigned char)*name++)
            return NULL;
    }
    if (*name)
        return NULL;
    return *at == '=' ? at + 1 : at;
}

static ssize_t decode_value(const char *at, char *out, size_t size)
{
    size_t n = 0;
    while (!is_end(*at)) {
        int c = next_character(&at);
        if (c < 0)
            return -EINVAL;
        if (n + 1 >= size)
            return -ENAMETOOLONG;
        out[n++] = (char)c;
    }
    if (n >= size)
        return -ENAMETOOLONG;
    out[n] = '\0';
    return (ssize_t)n;
}

ssize_t gs_http_query_value(const char *query, const char *name, char *out, size_t size)
{
    while (query && *query) {
        const char *value = match_name(query, name);
        if (value)
            return decode_value(value, out, size);
        query += strcspn(query, "&");
        query += *query == '&';
    }
    return -ENOENT;
}
