#include "http/response_head.h"

#include "http/token.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static char *skip_spaces(char *at, const char *end)
{
    while (at < end && is_space(*at))
        at++;
    return at;
}

static char *trim_end(const char *start, char *end)
{
    while (end > start && is_space(end[-1]))
        end--;
    return end;
}

static bool is_clean(const char *at, const char *end)
{
    while (at < end && gs_http_is(*at, GS_HTTP_FIELD))
        at++;
    return at == end;
}

/* Parse a line. *value_end is the end of the last value, and becomes that of this one. Returns 0 or
 * -EPROTO. */
static int split_line(char *line, char *end, struct gs_http_field *ret_field, char **value_end)
{
    char *colon = memchr(line, ':', (size_t)(end - line));
    char *name_end = colon ? trim_end(line, colon) : line;
    if (name_end == line)
        return -EPROTO;
    char *value = skip_spaces(colon + 1, end);
    *value_end = trim_end(value, end);
    *name_end = **value_end = '\0';
    *ret_field = (struct gs_http_field){.name = line, .value = value};
    return 0;
}

/* Let the last value include this line (RFC 9112, 5.2). */
static void join_line(char *line, char *end, char **value_end)
{
    char *trimmed = trim_end(line, end);
    if (trimmed == line)
        return;
    memset(*value_end, ' ', (size_t)(line - *value_end));
    *value_end = trimmed;
    *trimmed = '\0';
}

int gs_http_response_head_split(char *head, size_t n, struct gs_http_field *fields, unsigned max)
{
    char *end = head + n, *next = memchr(head, '\n', n), *value_end = NULL;
    unsigned count = 0;
    while (next && next + 1 < end) {
        char *line = next + 1;
        next = memchr(line, '\n', (size_t)(end - line));
        char *line_end = next ? next : end;
        if (line_end > line && line_end[-1] == '\r')
            line_end--;
        if (!is_clean(line, line_end))
            return -EPROTO;
        if (line == line_end)
            break;
        if (is_space(*line)) {
            if (count)
                join_line(line, line_end, &value_end);
            continue;
        }
        if (count == max)
            return -EMSGSIZE;
        if (split_line(line, line_end, &fields[count], &value_end))
            return -EPROTO;
        count++;
    }
    return (int)count;
}
