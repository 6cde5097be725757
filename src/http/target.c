#include "http/target.h"

#include "http/host.h"
#include "http/token.h"

#include <errno.h>

static bool starts_with(struct gs_http_text target, const char *scheme)
{
    size_t n = strlen(scheme);
    return target.n >= n && gs_http_text_is_nocase((struct gs_http_text){target.bytes, n}, scheme);
}

/* The length of "http://" or "https://" at the beginning; 0 if it is neither. */
static size_t scheme_length(struct gs_http_text target)
{
    return starts_with(target, "http://")    ? strlen("http://")
           : starts_with(target, "https://") ? strlen("https://")
                                             : 0;
}

static void split_query(struct gs_http_text text, struct gs_http_target *target)
{
    const char *mark = memchr(text.bytes, '?', text.n);
    target->path = text;
    if (mark) {
        target->path.n = (size_t)(mark - text.bytes);
        target->query = (struct gs_http_text){mark + 1, text.n - target->path.n - 1};
    }
}

static bool split_absolute(struct gs_http_text target, size_t scheme,
                           struct gs_http_target *ret_target)
{
    size_t n = scheme;
    while (n < target.n && target.bytes[n] != '/' && target.bytes[n] != '?')
        n++;
    struct gs_http_target split = {.form = GS_HTTP_TARGET_ABSOLUTE,
                                   .is_secure = scheme == strlen("https://"),
                                   .authority = {target.bytes + scheme, n - scheme}};
    if (!gs_http_host_valid(split.authority))
        return false;
    split_query((struct gs_http_text){target.bytes + n, target.n - n}, &split);
    if (!split.path.n)
        split.path = GS_HTTP_TEXT("/");
    *ret_target = split;
    return true;
}

/* Host and port, both there (RFC 9112, 3.2.3). */
static bool is_host_and_port(struct gs_http_text text)
{
    return gs_http_host_valid(text) && memchr(text.bytes, ':', text.n) &&
           gs_http_is(text.bytes[text.n - 1], GS_HTTP_DIGIT);
}

bool gs_http_target_split(struct gs_http_text target, struct gs_http_target *ret_target)
{
    if (target.n && target.bytes[0] == '/') {
        struct gs_http_target split = {.form = GS_HTTP_TARGET_ORIGIN};
        split_query(target, &split);
        *ret_target = split;
        return true;
    }
    size_t scheme = scheme_length(target);
    if (scheme)
        return split_absolute(target, scheme, ret_target);
    if (gs_http_text_is(target, "*"))
        *ret_target = (struct gs_http_target){.form = GS_HTTP_TARGET_ASTERISK};
    else if (is_host_and_port(target))
        *ret_target =
            (struct gs_http_target){.form = GS_HTTP_TARGET_AUTHORITY, .authority = target};
    else
        return false;
    return true;
}

/* A path on its way from text to out. n bytes of out are complete segments, with a slash between
 * two. */
struct walk {
    const char *at, *end;
    char *out;
    size_t n, size;
};

/* The byte that the escape at *at stands for, *at moved behind it; -EINVAL where that may not be in
 * a name. */
static int unescape(const char **at, const char *end)
{
    const char *escape = *at;
    if (*escape != '%' || end - escape < 3 || !gs_http_is(escape[1], GS_HTTP_HEX) ||
        !gs_http_is(escape[2], GS_HTTP_HEX))
        return -EINVAL;
    int byte = (int)(gs_http_hex_value(escape[1]) << 4 | gs_http_hex_value(escape[2]));
    if (byte != '%' && !gs_http_is((char)byte, GS_HTTP_SEGMENT))
        return -EINVAL;
    *at = escape + 3;
    return byte;
}

/* Decode one segment, which is not empty, to out + *n, up to the slash or the end. The last byte of
 * out is left for the NUL. */
static int copy_segment(struct walk *walk, size_t *n)
{
    const char *at = walk->at;
    char *out = walk->out; /* loaded once: a char stored might be part of *walk */
    size_t to = *n, last = walk->size - 1;
    while (at < walk->end && *at != '/') {
        if (to >= last)
            return -ENAMETOOLONG;
        size_t left = (size_t)(walk->end - at);
        const char *stop = at + (left < last - to ? left : last - to);
        while (at < stop && gs_http_is(*at, GS_HTTP_SEGMENT))
            out[to++] = *at++;
        if (at == stop || *at == '/')
            continue;
        int byte = unescape(&at, walk->end);
        if (byte < 0)
            return byte;
        out[to++] = (char)byte;
    }
    walk->at = at;
    *n = to;
    return 0;
}

/* Settle the segment of out from start to n, which begins with a dot: 1 if it was "." or "..", 0 if
 * it is a name, or -EINVAL for the parent of the root. */
static int settle_dots(struct walk *walk, size_t start, size_t n)
{
    if (n - start > 2 || walk->out[n - 1] != '.')
        return 0;
    if (n - start == 2) {
        if (!walk->n)
            return -EINVAL;
        const char *slash = memrchr(walk->out, '/', walk->n);
        walk->n = slash ? (size_t)(slash - walk->out) : 0;
    }
    return 1;
}

static bool is_hidden(const char *path, size_t n)
{
    static const char well_known[] = ".well-known";
    size_t known = sizeof well_known - 1;
    size_t at = 0;
    if (n >= known && !memcmp(path, well_known, known) && (n == known || path[known] == '/'))
        at = known;
    for (; at < n; at++)
        if (path[at] == '.' && (at == 0 || path[at - 1] == '/'))
            return true;
    return false;
}

ssize_t gs_http_path_normalise(struct gs_http_text path, char *out, size_t size,
                               unsigned *ret_flags)
{
    if (!path.n || *path.bytes != '/')
        return -EINVAL;
    if (!size)
        return -ENAMETOOLONG;
    struct walk walk = {.at = path.bytes, .end = path.bytes + path.n, .out = out, .size = size};
    bool dotted = false, directory = true;
    for (;;) {
        while (walk.at < walk.end && *walk.at == '/')
            walk.at++;
        if (walk.at == walk.end)
            break;
        size_t start = walk.n ? walk.n + 1 : 0, n = start;
        int result = copy_segment(&walk, &n);
        if (!result && out[start] == '.') {
            dotted = true;
            result = settle_dots(&walk, start, n);
        }
        if (result < 0)
            return result;
        directory = result || walk.at < walk.end;
        if (result)
            continue;
        if (start)
            out[walk.n] = '/';
        walk.n = n;
    }
    out[walk.n] = '\0';
    *ret_flags = (directory ? GS_HTTP_PATH_DIRECTORY : 0U) |
                 (dotted && is_hidden(out, walk.n) ? GS_HTTP_PATH_HIDDEN : 0U);
    return (ssize_t)walk.n;
}
