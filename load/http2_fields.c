#include "load/http2_fields.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The places of the pseudo-header fields, which come first. */
enum { METHOD, SCHEME, AUTHORITY, PATH, FIRST_REGULAR };

/* Fields that describe a connection of HTTP/1 (RFC 9113, section 8.2.2). */
static bool is_of_connection(const char *name)
{
    static const char *const names[] = {"connection", "keep-alive", "proxy-connection",
                                        "transfer-encoding", "upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(names[i], name))
            return true;
    }
    return false;
}

static void set(nghttp2_nv *item, const char *name, const char *value)
{
    *item = (nghttp2_nv){.name = (uint8_t *)name,
                         .value = (uint8_t *)value,
                         .namelen = strlen(name),
                         .valuelen = strlen(value),
                         .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

/* End the text at `end`, and return what follows. */
static char *cut(char *end, size_t n)
{
    *end = '\0';
    return end + n;
}

/* line: "Name: value", which is cut into both. */
static void add(struct load_fields *fields, char *line)
{
    char *value = cut(strchr(line, ':'), 1);
    value += strspn(value, " \t");
    for (size_t n = strlen(value); n && strchr(" \t", value[n - 1]);)
        value[--n] = '\0';
    for (char *c = line; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!strcmp(line, "host"))
        set(&fields->items[AUTHORITY], ":authority", value);
    else if (!is_of_connection(line))
        set(&fields->items[fields->count++], line, value);
}

/* text: up to the empty line, without it. */
static void parse(struct load_fields *fields, char *text, bool is_https)
{
    char *path = cut(strchr(text, ' '), 1);
    char *line = cut(strstr(path, " HTTP/1.1\r\n"), strlen(" HTTP/1.1\r\n"));
    set(&fields->items[METHOD], ":method", text);
    set(&fields->items[SCHEME], ":scheme", is_https ? "https" : "http");
    set(&fields->items[PATH], ":path", path);
    while (*line) {
        char *end = strstr(line, "\r\n"), *next = cut(end, 2);
        add(fields, line);
        line = next;
    }
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; (text = strstr(text, "\r\n")); text += 2)
        count++;
    return count;
}

int gs_load_fields_new(const char *request, bool is_https, struct load_fields **ret_fields)
{
    char *text = strndup(request, (size_t)(strstr(request, "\r\n\r\n") - request) + 2);
    size_t count = text ? FIRST_REGULAR + count_lines(text) : 0;
    struct load_fields *fields = calloc(1, sizeof *fields + count * sizeof *fields->items);
    if (!text || !fields) {
        free(text);
        free(fields);
        return -ENOMEM;
    }
    fields->text = text;
    fields->count = FIRST_REGULAR;
    parse(fields, text, is_https);
    *ret_fields = fields;
    return 0;
}

void gs_load_fields_free(struct load_fields *fields)
{
    if (!fields)
        return;
    free(fields->text);
    free(fields);
}
