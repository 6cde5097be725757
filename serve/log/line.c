#include "serve/log/line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Of the combined format: the client, the date, the numbers, the version of TLS, its cipher and the
 * punctuation. */
#define REST_MAX 319

/* Of an object: the names of its members, the numbers, and short texts. */
#define OBJECT_REST_MAX 500

_Static_assert(SERVE_LOG_REQUEST_MAX + 2 * SERVE_LOG_FIELD_MAX + SERVE_LOG_NAME_MAX + REST_MAX <=
                   SERVE_LOG_LINE_MAX - 1,
               "a line is short enough");
_Static_assert(SERVE_LOG_TARGET_MAX + 2 * SERVE_LOG_FIELD_MAX + 2 * SERVE_LOG_NAME_MAX +
                       OBJECT_REST_MAX <=
                   SERVE_LOG_LINE_MAX - 1,
               "an object is short enough");

static const char upper_digits[] = "0123456789ABCDEF";

/* ---- The combined format ---- */

size_t serve_log_escape(char *out, size_t max, const char *text, size_t n)
{
    size_t length = 0;
    for (size_t i = 0; i < n && length + 4 <= max; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            out[length++] = (char)c;
            continue;
        }
        const char escape[] = {'\\', 'x', upper_digits[c >> 4], upper_digits[c & 15]};
        memcpy(out + length, escape, sizeof escape);
        length += sizeof escape;
    }
    return length;
}

static size_t put_request(char *out, const struct gs_http_log_entry *entry)
{
    return entry->request_line ? serve_log_escape(out, SERVE_LOG_REQUEST_MAX, entry->request_line,
                                                  entry->request_line_length)
                               : serve_log_escape(out, SERVE_LOG_REQUEST_MAX, "-", 1);
}

static size_t put_field(char *out, const char *text)
{
    return serve_log_escape(out, SERVE_LOG_FIELD_MAX, text ? text : "-", text ? strlen(text) : 1);
}

/* The first two are ours; the name is the client's. */
static char *put_tls(char *out, const struct gs_tls_info *tls)
{
    const char *name = tls && tls->server_name ? tls->server_name : "-";
    char *at = out + sprintf(out, " \"%s\" \"%s\" \"", tls && tls->version ? tls->version : "-",
                             tls && tls->cipher ? tls->cipher : "-");
    at += serve_log_escape(at, SERVE_LOG_NAME_MAX, name, strlen(name));
    return stpcpy(at, "\"");
}

static void put_date(char *out, size_t max, const char *pattern, int64_t seconds)
{
    struct tm local;
    time_t received = (time_t)seconds;
    localtime_r(&received, &local);
    strftime(out, max, pattern, &local);
}

static size_t put_combined(char *out, const struct serve_log_format *format,
                           const struct serve_log_line *line)
{
    const struct gs_http_log_entry *entry = line->entry;
    char date[40];
    put_date(date, sizeof date, "%d/%b/%Y:%H:%M:%S %z", entry->received);
    char *at = out + sprintf(out, "%s - - [%s] \"", line->client, date);
    at += put_request(at, entry);
    at += sprintf(at, "\" %u %llu \"", entry->status, (unsigned long long)entry->body_bytes);
    at += put_field(at, entry->referer);
    at = stpcpy(at, "\" \"");
    at += put_field(at, entry->user_agent);
    *at++ = '"';
    if (format->has_tls)
        at = put_tls(at, line->tls);
    *at++ = '\n';
    return (size_t)(at - out);
}

/* ---- JSON (RFC 8259) ---- */

/* A string of n bytes, each of which is the character of its number (as in Latin-1), since no
 * encoding can be relied on; bytes NULL: null. At most max bytes are written between the quotes. */
static char *put_string(char *out, size_t max, const char *bytes, size_t n)
{
    if (!bytes)
        return stpcpy(out, "null");
    char *at = out;
    *at++ = '"';
    for (size_t i = 0; i < n && (size_t)(at - out) + 6 <= max; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            *at++ = '\\';
        if (c >= 0x20 && c < 0x7f)
            *at++ = (char)c;
        else
            at += sprintf(at, "\\u00%02x", c);
    }
    *at++ = '"';
    return at;
}

static char *put_text(char *out, size_t max, const char *text)
{
    return put_string(out, max, text, text ? strlen(text) : 0);
}

/* Of a request line with three parts; otherwise all of it is the target. */
struct parts {
    const char *method, *target, *protocol; /* NULL: it has none */
    size_t method_n, target_n, protocol_n;
};

static struct parts split(const struct gs_http_log_entry *entry)
{
    const char *line = entry->request_line;
    size_t n = line ? entry->request_line_length : 0;
    const char *first = line ? memchr(line, ' ', n) : NULL;
    const char *last = line ? memrchr(line, ' ', n) : NULL;
    if (!first || first == last)
        return (struct parts){.target = line, .target_n = n};
    return (struct parts){
        .method = line,
        .method_n = (size_t)(first - line),
        .target = first + 1,
        .target_n = (size_t)(last - first - 1),
        .protocol = last + 1,
        .protocol_n = (size_t)(line + n - last - 1),
    };
}

#define SHORT_MAX ((size_t)40)

static char *put_time(char *out, const struct serve_log_line *line)
{
    char date[40];
    put_date(date, sizeof date, "%Y-%m-%dT%H:%M:%S%z", line->entry->received);
    return put_text(out, SHORT_MAX, date);
}

static char *put_client(char *out, const struct serve_log_line *line)
{
    return put_text(out, 2 * SHORT_MAX, line->client);
}

static char *put_method(char *out, const struct serve_log_line *line)
{
    struct parts parts = split(line->entry);
    return put_string(out, SHORT_MAX, parts.method, parts.method_n);
}

static char *put_target(char *out, const struct serve_log_line *line)
{
    struct parts parts = split(line->entry);
    return put_string(out, SERVE_LOG_TARGET_MAX, parts.target, parts.target_n);
}

static char *put_protocol(char *out, const struct serve_log_line *line)
{
    struct parts parts = split(line->entry);
    return put_string(out, SHORT_MAX, parts.protocol, parts.protocol_n);
}

static char *put_status(char *out, const struct serve_log_line *line)
{
    return out + sprintf(out, "%u", line->entry->status);
}

static char *put_bytes(char *out, const struct serve_log_line *line)
{
    return out + sprintf(out, "%llu", (unsigned long long)line->entry->body_bytes);
}

/* In seconds. */
static char *put_duration(char *out, const struct serve_log_line *line)
{
    uint64_t start_ns = line->entry->started_ns;
    uint64_t us = line->now_ns > start_ns ? (line->now_ns - start_ns) / GS_MICROSECOND : 0;
    return out + sprintf(out, "%llu.%06llu", (unsigned long long)(us / 1000000),
                         (unsigned long long)(us % 1000000));
}

static char *put_referer(char *out, const struct serve_log_line *line)
{
    return put_text(out, SERVE_LOG_FIELD_MAX, line->entry->referer);
}

static char *put_user_agent(char *out, const struct serve_log_line *line)
{
    return put_text(out, SERVE_LOG_FIELD_MAX, line->entry->user_agent);
}

static char *put_tls_version(char *out, const struct serve_log_line *line)
{
    return put_text(out, SHORT_MAX, line->tls ? line->tls->version : NULL);
}

static char *put_tls_cipher(char *out, const struct serve_log_line *line)
{
    return put_text(out, SHORT_MAX, line->tls ? line->tls->cipher : NULL);
}

static char *put_server_name(char *out, const struct serve_log_line *line)
{
    return put_text(out, SERVE_LOG_NAME_MAX, line->tls ? line->tls->server_name : NULL);
}

static const struct {
    const char *name;
    char *(*put)(char *out, const struct serve_log_line *line);
} members[] = {
    {"time", put_time},
    {"client", put_client},
    {"method", put_method},
    {"target", put_target},
    {"protocol", put_protocol},
    {"status", put_status},
    {"bytes", put_bytes},
    {"duration", put_duration},
    {"referer", put_referer},
    {"user_agent", put_user_agent},
    {"tls_version", put_tls_version},
    {"tls_cipher", put_tls_cipher},
    {"server_name", put_server_name},
};

#define MEMBERS (sizeof members / sizeof *members)
#define TLS_MEMBERS 3 /* the last ones */

_Static_assert(MEMBERS <= SERVE_LOG_MEMBERS, "each may be chosen");

static size_t put_object(char *out, const struct serve_log_format *format,
                         const struct serve_log_line *line)
{
    char *at = out;
    for (unsigned i = 0; i < format->member_count; i++) {
        at += sprintf(at, "%s\"%s\":", i ? "," : "{", members[format->members[i]].name);
        at = members[format->members[i]].put(at, line);
    }
    at = stpcpy(at, "}\n");
    return (size_t)(at - out);
}

size_t serve_log_put_line(char *out, const struct serve_log_format *format,
                          const struct serve_log_line *line)
{
    return format->member_count ? put_object(out, format, line) : put_combined(out, format, line);
}

/* ---- The choice ---- */

static bool add_member(struct serve_log_format *format, const char *name, size_t n)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (strlen(members[i].name) != n || strncmp(members[i].name, name, n) != 0)
            continue;
        if (memchr(format->members, (int)i, format->member_count))
            return false;
        format->members[format->member_count++] = (uint8_t)i;
        return true;
    }
    return false;
}

static const char *add_members(struct serve_log_format *format, const char *list)
{
    while (list) {
        size_t n = strcspn(list, ",");
        if (!add_member(format, list, n))
            return "has a name twice, or one that is none of time, client, method, target, "
                   "protocol, status, bytes, duration, referer, user_agent, tls_version, "
                   "tls_cipher and server_name";
        list = list[n] ? list + n + 1 : NULL;
    }
    return NULL;
}

int serve_log_format_parse(const char *format, const char *list, bool has_tls,
                           struct serve_log_format *ret_format, const char **ret_problem)
{
    *ret_format = (struct serve_log_format){.has_tls = has_tls};
    *ret_problem = NULL;
    if (!format || !strcmp(format, "combined")) {
        *ret_problem = list ? "needs the format json" : NULL;
    } else if (strcmp(format, "json") != 0) {
        *ret_problem = "is neither combined nor json";
    } else if (list) {
        *ret_problem = add_members(ret_format, list);
    } else {
        ret_format->member_count = (unsigned)(MEMBERS - (has_tls ? 0 : TLS_MEMBERS));
        for (unsigned i = 0; i < ret_format->member_count; i++)
            ret_format->members[i] = (uint8_t)i;
    }
    return *ret_problem ? -EINVAL : 0;
}
