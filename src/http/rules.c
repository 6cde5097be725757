#include "http/rules.h"

#include "http/cors.h"
#include "http/pattern.h"
#include "http/token.h"

#include <gossamer/http.h>
#include <strings.h>

struct line {
    struct gs_http_text all; /* with its CRLF */
    size_t name_n;
};

/* Returns false at the end. */
static bool next_line(const char **at, const char *end, struct line *ret_line)
{
    if (*at == end)
        return false;
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    const char *next = newline ? newline + 1 : end;
    const char *colon = memchr(*at, ':', (size_t)(next - *at));
    ret_line->all = (struct gs_http_text){*at, (size_t)(next - *at)};
    ret_line->name_n = colon ? (size_t)(colon - *at) : ret_line->all.n;
    *at = next;
    return true;
}

static bool have_same_name(const struct line *a, const struct line *b)
{
    return a->name_n == b->name_n && !strncasecmp(a->all.bytes, b->all.bytes, a->name_n);
}

static struct gs_http_text value_of(const struct line *line)
{
    size_t at = line->name_n + 1, end = line->all.n - 2;
    struct gs_http_text value = {line->all.bytes + at, end > at ? end - at : 0};
    return gs_http_trim(value);
}

/* ---- What is wrong with fields ---- */

static bool is_named(const struct line *line, const char *const *names, size_t count)
{
    struct gs_http_text name = {line->all.bytes, line->name_n};
    for (size_t i = 0; i < count; i++)
        if (gs_http_text_is_nocase(name, names[i]))
            return true;
    return false;
}

static const char *line_problem(const struct line *line)
{
    /* What describes a message or its content, and is known only when that is made. */
    static const char *const own[] = {
        "accept-ranges",
        "allow",
        "connection",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "date",
        "etag",
        "keep-alive",
        "last-modified",
        "location",
        "proxy-connection",
        "retry-after",
        "server",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "www-authenticate",
    };
    struct gs_http_text text = line->all;
    if (text.n < 2 || memcmp(text.bytes + text.n - 2, "\r\n", 2) != 0)
        return "has a line that does not end with CR LF";
    if (line->name_n == text.n ||
        !gs_http_is_token((struct gs_http_text){text.bytes, line->name_n}))
        return "has a line without a name and a colon";
    for (size_t i = 0; i < text.n - 2; i++)
        if (!gs_http_is(text.bytes[i], GS_HTTP_FIELD))
            return "has a control character";
    return is_named(line, own, sizeof own / sizeof *own)
               ? "is a field that only the server can know the value of"
               : NULL;
}

const char *gs_http_site_fields_problem(const char *fields)
{
    const char *at = fields, *end = fields + strlen(fields), *problem = NULL;
    size_t lines = 0;
    struct line line;
    for (; !problem && next_line(&at, end, &line); lines++)
        problem = line_problem(&line);
    if (!problem && (size_t)(end - fields) > GS_HTTP_FIELDS_MAX)
        return "has more than 8192 bytes";
    return !problem && lines > GS_HTTP_FIELD_LINES_MAX ? "has more than 64 lines" : problem;
}

/* ---- The fields of a response ---- */

/* Remove the lines of this name from the first *n bytes, which `rest` bytes follow. */
static void remove_lines(char *fields, size_t *n, size_t rest, const struct line *removed)
{
    const char *at = fields;
    struct line line;
    while (next_line(&at, fields + *n, &line)) {
        if (!have_same_name(&line, removed))
            continue;
        size_t from = (size_t)(line.all.bytes - fields), next = from + line.all.n;
        memmove(fields + from, fields + next, *n + rest - next);
        *n -= line.all.n;
        at = fields + from;
    }
}

static bool is_about_file(const struct line *line)
{
    static const char *const names[] = {"cache-control", "expires"};
    return is_named(line, names, 2);
}

/* Returns the length of all. Lines of the same rule do not replace each other. */
static size_t add_fields(const char *fields, bool is_file, char *out, size_t n)
{
    const char *at = fields, *end = fields + strlen(fields);
    size_t earlier = n, added = 0;
    struct line line;
    while (next_line(&at, end, &line)) {
        if (!is_file && is_about_file(&line))
            continue;
        remove_lines(out, &earlier, added, &line);
        if (!value_of(&line).n)
            continue;
        memcpy(out + earlier + added, line.all.bytes, line.all.n);
        added += line.all.n;
    }
    return earlier + added;
}

size_t gs_http_rules_fields(const struct gs_http_site *site, const char *common,
                            struct gs_http_text path, bool is_file, char *out)
{
    size_t n = common ? strlen(common) : 0;
    memcpy(out, common ? common : "", n);
    for (unsigned i = 0; i < site->rule_count; i++)
        if (gs_http_pattern_match(site->rules[i].pattern, path, NULL))
            n = add_fields(site->rules[i].fields, is_file, out, n);
    return n + gs_http_cors_fields(site, out + n);
}

/* Returns whether one of the lines is this one. */
static bool has_line(const char *fields, struct gs_http_text line)
{
    while (fields && *fields && strncmp(fields, line.bytes, line.n) != 0) {
        fields = strchr(fields, '\n');
        fields += fields ? 1 : 0;
    }
    return fields && *fields;
}

/* What all responses have is not about the file. A line ends with its newline. */
bool gs_http_rules_next_for_error(struct gs_http_text *fields, const char *common,
                                  struct gs_http_text *ret_line)
{
    while (fields->n) {
        const char *at = fields->bytes;
        struct gs_http_text line = {at,
                                    (size_t)((const char *)memchr(at, '\n', fields->n) + 1 - at)};
        struct line named = {line, (size_t)((const char *)memchr(at, ':', line.n) - at)};
        fields->bytes += line.n;
        fields->n -= line.n;
        *ret_line = line;
        if (!is_about_file(&named) || has_line(common, line))
            return true;
    }
    return false;
}

/* ---- The largest of these ---- */

static const char *fields_of(const struct gs_http_site *site, const char *common, unsigned number)
{
    return number ? site->rules[number - 1].fields : common ? common : "";
}

/* The lines of this name in one rule. */
static struct gs_http_rules_size count_lines(const char *fields, const struct line *named)
{
    const char *at = fields, *end = fields + strlen(fields);
    struct gs_http_rules_size size = {0, 0};
    struct line line;
    while (next_line(&at, end, &line)) {
        if (!have_same_name(&line, named))
            continue;
        size.bytes += line.all.n;
        size.lines++;
    }
    return size;
}

/* The most of this name that a rule has; nothing if a rule before `number` has it, which counts. */
static struct gs_http_rules_size max_lines(const struct gs_http_site *site, const char *common,
                                           unsigned number, const struct line *line)
{
    struct gs_http_rules_size max = {0, 0};
    for (unsigned i = 0; i <= site->rule_count; i++) {
        struct gs_http_rules_size size = count_lines(fields_of(site, common, i), line);
        if (i < number && size.lines)
            return (struct gs_http_rules_size){0, 0};
        max.bytes = size.bytes > max.bytes ? size.bytes : max.bytes;
        max.lines = size.lines > max.lines ? size.lines : max.lines;
    }
    return max;
}

/* Lines replace those of the same name of other rules: so of each name, one rule's remain. */
static struct gs_http_rules_size add_names(const struct gs_http_site *site, const char *common,
                                           unsigned number, struct gs_http_rules_size sum)
{
    const char *fields = fields_of(site, common, number);
    const char *at = fields, *end = fields + strlen(fields);
    struct line line;
    while (next_line(&at, end, &line)) {
        struct gs_http_text before = {fields, (size_t)(line.all.bytes - fields)};
        const char *first = before.bytes;
        struct line other;
        bool is_first = true;
        while (is_first && next_line(&first, before.bytes + before.n, &other))
            is_first = !have_same_name(&other, &line);
        if (!is_first)
            continue;
        struct gs_http_rules_size max = max_lines(site, common, number, &line);
        sum.bytes += max.bytes;
        sum.lines += max.lines;
    }
    return sum;
}

struct gs_http_rules_size gs_http_rules_max(const struct gs_http_site *site, const char *common)
{
    struct gs_http_rules_size sum = {0, 0};
    if (site->cors)
        sum = (struct gs_http_rules_size){GS_HTTP_CORS_MAX, GS_HTTP_CORS_LINES};
    for (unsigned i = 0; i <= site->rule_count; i++)
        sum = add_names(site, common, i, sum);
    return sum;
}
