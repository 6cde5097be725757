#include "http/pattern.h"

#include "http/token.h"

static bool is_end_of_name(char c)
{
    return !c || c == '/';
}

/* Whether a name of the pattern begins at `at`, and is two asterisks. */
static bool is_names(const char *pattern, const char *at)
{
    return at[0] == '*' && at[1] == '*' && is_end_of_name(at[2]) &&
           (at == pattern || at[-1] == '/');
}

static bool has_dot_name(const char *pattern)
{
    for (const char *at = pattern; *at; at++) {
        size_t dots = (at == pattern || at[-1] == '/') ? strspn(at, ".") : 0;
        if ((dots == 1 || dots == 2) && is_end_of_name(at[dots]))
            return true;
    }
    return false;
}

const char *gs_http_pattern_problem(const char *pattern)
{
    if (!*pattern)
        return "is empty";
    if (strlen(pattern) > GS_HTTP_PATTERN_MAX)
        return "is longer than 255 bytes";
    for (const char *at = pattern; *at; at++)
        if (*at != '/' && *at != '%' && !gs_http_is(*at, GS_HTTP_SEGMENT))
            return "has a backslash or a control character, which no path has";
    if (strchr(pattern, '?'))
        return "has a question mark: queries are not matched, and the wildcards are * and **";
    if (strstr(pattern, "//"))
        return "has an empty name, which no path has";
    return has_dot_name(pattern) ? "has a name that is . or .., which no path has" : NULL;
}

unsigned gs_http_pattern_wildcards(const char *pattern)
{
    unsigned count = 0;
    for (const char *at = pattern; *at; at++)
        if (*at == '*' && (at == pattern || at[-1] != '*'))
            count++;
    return count;
}

/* Where to go on when what follows a wildcard does not match: it takes more. */
struct retry {
    const char *pattern; /* behind the wildcard; NULL: there is none */
    const char *text;    /* what it has taken ends here; of names, the slash behind them is taken */
    unsigned number;     /* of the wildcards in front of it */
};

struct matcher {
    const char *start, *pattern; /* of the pattern, and where it is compared */
    const char *text, *end;
    unsigned number; /* of the wildcards so far */
    struct retry star, names;
    struct gs_http_text *captures; /* or NULL */
};

static void begin_capture(struct matcher *matcher)
{
    if (matcher->captures && matcher->number < GS_HTTP_CAPTURES_MAX)
        matcher->captures[matcher->number] = (struct gs_http_text){matcher->text, 0};
    matcher->number++;
}

/* The wildcard has taken the text up to `end`. */
static void set_capture(struct matcher *matcher, unsigned number, const char *end)
{
    if (!matcher->captures || number >= GS_HTTP_CAPTURES_MAX)
        return;
    struct gs_http_text *capture = &matcher->captures[number];
    capture->n = (size_t)(end - capture->bytes);
}

static void begin_star(struct matcher *matcher)
{
    while (*matcher->pattern == '*')
        matcher->pattern++;
    matcher->star = (struct retry){matcher->pattern, matcher->text, matcher->number};
    begin_capture(matcher);
}

/* Returns true if these names are the rest of the path. */
static bool begin_names(struct matcher *matcher)
{
    matcher->pattern += 2;
    unsigned number = matcher->number;
    begin_capture(matcher);
    if (!*matcher->pattern) {
        set_capture(matcher, number, matcher->end);
        return true;
    }
    matcher->pattern++;
    matcher->star.pattern = NULL;
    matcher->names = (struct retry){matcher->pattern, matcher->text, number};
    return false;
}

static void go_on(struct matcher *matcher, const struct retry *from)
{
    matcher->pattern = from->pattern;
    matcher->text = from->text;
    matcher->number = from->number + 1;
}

/* Only the last wildcard need take more: if one before it did, the last one would find less. So the
 * names of a path are compared with those behind a "**" one after another. Returns false if there
 * is nothing to take. */
static bool take_more(struct matcher *matcher)
{
    struct retry *star = &matcher->star, *names = &matcher->names;
    if (star->pattern && star->text < matcher->end && *star->text != '/') {
        star->text++;
        set_capture(matcher, star->number, star->text);
        go_on(matcher, star);
        return true;
    }
    if (!names->pattern)
        return false;
    const char *slash = memchr(names->text, '/', (size_t)(matcher->end - names->text));
    if (!slash)
        return false;
    names->text = slash + 1;
    star->pattern = NULL;
    set_capture(matcher, names->number, slash);
    go_on(matcher, names);
    return true;
}

static bool match(struct matcher *matcher)
{
    for (;;) {
        bool has_text = matcher->text < matcher->end;
        if (is_names(matcher->start, matcher->pattern)) {
            if (begin_names(matcher))
                return true;
        } else if (*matcher->pattern == '*') {
            begin_star(matcher);
        } else if (has_text && *matcher->pattern == *matcher->text) {
            matcher->pattern++;
            matcher->text++;
        } else if (!has_text && !*matcher->pattern) {
            return true;
        } else if (!take_more(matcher)) {
            return false;
        }
    }
}

bool gs_http_pattern_match(const char *pattern, struct gs_http_text path,
                           struct gs_http_text captures[GS_HTTP_CAPTURES_MAX])
{
    const char *text = path.bytes, *end = path.bytes + path.n;
    if (!strchr(pattern, '/')) {
        const char *slash = path.n ? memrchr(text, '/', path.n) : NULL;
        text = slash ? slash + 1 : text;
    }
    pattern += *pattern == '/';
    for (unsigned i = 0; captures && i < GS_HTTP_CAPTURES_MAX; i++)
        captures[i] = (struct gs_http_text){"", 0};
    struct matcher matcher = {
        .start = pattern,
        .pattern = pattern,
        .text = text,
        .end = end,
        .captures = captures,
    };
    return match(&matcher);
}
