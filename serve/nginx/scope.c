/* Directives that may stand in several blocks. */
#include "serve/nginx/convert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_protection(const char *name)
{
    static const char *const names[] = {"auth_basic", "deny",        "auth_request",
                                        "satisfy",    "secure_link", "auth_jwt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

void serve_nginx_leave_out(struct serve_nginx *nginx, const struct serve_directive *directive,
                           const char *reason)
{
    char text[200] = "";
    if (is_protection(directive->words[0]))
        reason = "CAUTION: files that it protects are served to all";
    for (size_t i = 0; i < directive->word_count && i < 4; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.100s", i ? " " : "",
                 directive->words[i]);
    nginx->report->file = directive->file;
    serve_report_add(nginx->report, directive->line, "%s: left out: %s", text, reason);
}

const char *serve_nginx_text(struct serve_nginx *nginx, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = n < 0 ? NULL : serve_arena_take(&nginx->arena, (size_t)n + 1);
    nginx->lacks_memory |= !text;
    if (!text)
        return "";
    va_start(arguments, format);
    vsnprintf(text, (size_t)n + 1, format, arguments);
    va_end(arguments);
    return text;
}

void *serve_nginx_add(struct serve_nginx *nginx, struct serve_config_items *items, size_t size)
{
    char *moved = serve_arena_grow(&nginx->arena, items->items, items->count, size);
    nginx->lacks_memory |= !moved;
    if (!moved)
        return NULL;
    items->items = moved;
    return memset(moved + items->count++ * size, 0, size);
}

static void add_entry(struct serve_nginx *nginx, struct serve_config_items *entries,
                      const char *name, const char *value)
{
    struct serve_config_entry *entry = serve_nginx_add(nginx, entries, sizeof *entry);
    if (entry)
        *entry = (struct serve_config_entry){.name = name, .value = value};
}

static void take_field(struct serve_nginx *nginx, const struct serve_directive *directive,
                       struct serve_nginx_scope *scope)
{
    if (directive->word_count < 3 || strchr(directive->words[2], '$'))
        serve_nginx_leave_out(nginx, directive, "the value is not the same for all requests");
    else
        add_entry(nginx, &scope->fields, directive->words[1], directive->words[2]);
}

static void take_error_page(struct serve_nginx *nginx, const struct serve_directive *directive,
                            struct serve_nginx_scope *scope)
{
    static const char supported[] = "403|404|405|500|501|503";
    size_t last = directive->word_count - 1;
    const char *page = directive->words[last];
    if (last < 2 || *page != '/' || directive->words[last - 1][0] == '=') {
        serve_nginx_leave_out(nginx, directive, "a page of the site can be sent, with its status");
        return;
    }
    for (size_t i = 1; i < last; i++)
        if (strlen(directive->words[i]) == 3 && strstr(supported, directive->words[i]))
            add_entry(nginx, &scope->error_pages, directive->words[i], page);
}

static void take_certificate(struct serve_nginx *nginx, const struct serve_directive *directive,
                             const char **file)
{
    if (*file)
        serve_nginx_leave_out(nginx, directive, "a host has one certificate");
    else
        *file = directive->words[1];
}

/* nginx knows the directives in all blocks, so their order is that of nginx's documentation. */
bool serve_nginx_take(struct serve_nginx *nginx, const struct serve_directive *directive,
                      struct serve_nginx_scope *scope)
{
    const char *name = directive->words[0];
    if (directive->word_count < 2)
        return false;
    if (!strcmp(name, "root"))
        scope->root = directive->words[1];
    else if (!strcmp(name, "expires"))
        scope->expires = directive->words[directive->word_count - 1];
    else if (!strcmp(name, "add_header"))
        take_field(nginx, directive, scope);
    else if (!strcmp(name, "error_page"))
        take_error_page(nginx, directive, scope);
    else if (!strcmp(name, "ssl_certificate"))
        take_certificate(nginx, directive, &scope->certificate);
    else if (!strcmp(name, "ssl_certificate_key"))
        take_certificate(nginx, directive, &scope->key);
    else
        return false;
    return true;
}

/* Returns the seconds of nginx's "30d", "1y" or "1h30m"; -1: it is something else. */
static int64_t parse_time(const char *text)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {{'y', 31536000}, {'M', 2592000}, {'w', 604800}, {'d', 86400},
                 {'h', 3600},     {'m', 60},      {'s', 1},      {'\0', 1}};
    int64_t sum = 0;
    do {
        char *end;
        long long value = strtoll(text, &end, 10);
        size_t i = 0;
        while (i < sizeof units / sizeof *units && units[i].unit != *end)
            i++;
        if (end == text || value < 0 || value > 1000000000 || i == sizeof units / sizeof *units)
            return -1;
        sum += value * units[i].seconds;
        text = end + !!*end;
    } while (*text);
    return sum;
}

/* The value of Cache-Control; NULL: `expires` gives none. */
static const char *cache_control_of(struct serve_nginx *nginx, const char *expires)
{
    if (!expires || !strcmp(expires, "off"))
        return NULL;
    if (!strcmp(expires, "epoch") || *expires == '-')
        return "no-cache";
    if (!strcmp(expires, "max"))
        return "max-age=315360000";
    int64_t seconds = parse_time(expires);
    return seconds < 0 ? NULL : serve_nginx_text(nginx, "max-age=%" PRId64, seconds);
}

static struct serve_config_entry *find(const struct serve_config_items *entries, const char *name)
{
    struct serve_config_entry *items = entries->items;
    for (size_t i = 0; i < entries->count; i++)
        if (!strcasecmp(items[i].name, name))
            return &items[i];
    return NULL;
}

/* Fields of the same name are joined, as lists are. */
static void join(struct serve_nginx *nginx, struct serve_config_items *fields, const char *name,
                 const char *value)
{
    struct serve_config_entry *entry = find(fields, name);
    if (entry)
        entry->value = serve_nginx_text(nginx, "%s, %s", entry->value, value);
    else
        add_entry(nginx, fields, name, value);
}

void serve_nginx_add_headers(struct serve_nginx *nginx, const struct serve_nginx_scope *scope,
                             const char *pattern, unsigned line)
{
    const struct serve_config_entry *entries = scope->fields.items;
    const char *cache_control = cache_control_of(nginx, scope->expires);
    struct serve_config_items fields = {0};
    if (cache_control)
        add_entry(nginx, &fields, "Cache-Control", cache_control);
    for (size_t i = 0; i < scope->fields.count; i++)
        join(nginx, &fields, entries[i].name, entries[i].value);
    struct serve_config_headers *headers =
        fields.count ? serve_nginx_add(nginx, &nginx->host.headers, sizeof *headers) : NULL;
    if (headers)
        *headers = (struct serve_config_headers){.line = line, .path = pattern, .set = fields};
}
