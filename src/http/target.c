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
    if (!gs_http_host_is_valid(split.authority))
        return false;
    split_query((struct gs_http_text){target.bytes + n, target.n - n}, &split);
    if (!split.path.n)
        split.path = GS_HTTP_TEXT("/");
    *ret_target = split;
    return true;
}

/* Both a host and a port (RFC 9112, 3.2.3). */
static bool is_host_and_port(struct gs_http_text text)
{
    return gs_http_host_is_valid(text) && memchr(text.bytes, ':', text.n) &&
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

/* The state of normalising a path from [at, end) to out. The first n bytes of out are complete
 * segments, separated by slashes. */
struct normaliser {
    const char *at, *end;
    char *out;
    size_t n, size;
};

/* Decode the escape at *at and advance *at behind it. Returns the byte, or -EINVAL if a name may
 * not contain it. */
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
 * out is reserved for the NUL. */
static int copy_segment(struct normaliser *state, size_t *n)
{
    const char *at = state->at;
    char *out = state->out; /* loaded once: a stored char might alias *state */
    size_t to = *n, last = state->size - 1;
    while (at < state->end && *at != '/') {
        if (to >= last)
            return -ENAMETOOLONG;
        size_t left = (size_t)(state->end - at);
        const char *stop = at + (left < last - to ? left : last - to);
        while (at < stop && gs_http_is(*at, GS_HTTP_SEGMENT))
            out[to++] = *at++;
        if (at == stop || *at == '/')
            continue;
        int byte = unescape(&at, state->end);
        if (byte < 0)
            return byte;
        out[to++] = (char)byte;
    }
    state->at = at;
    *n = to;
    return 0;
}

/* Resolve the segment of out from start to n, which begins with a dot. Returns 1 if it was "." or
 * "..", 0 if it is a name, or -EINVAL for the parent of the root. */
static int remove_dot_segments(struct normaliser *state, size_t start, size_t n)
{
    if (n - start > 2 || state->out[n - 1] != '.')
        return 0;
    if (n - start == 2) {
        if (!state->n)
            return -EINVAL;
        const char *slash = memrchr(state->out, '/', state->n);
        state->n = slash ? (size_t)(slash - state->out) : 0;
    }
    return 1;
}

static bool is_hidden(const char *path, size_t n)
{
    static const char well_known[] = ".well-known";
    size_t length = sizeof well_known - 1;
    size_t at = 0;
    if (n >= length && !memcmp(path, well_known, length) && (n == length || path[length] == '/'))
        at = length;
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
    struct normaliser state = {
        .at = path.bytes, .end = path.bytes + path.n, .out = out, .size = size};
    bool has_dot = false, is_directory = true;
    for (;;) {
        while (state.at < state.end && *state.at == '/')
            state.at++;
        if (state.at == state.end)
            break;
        size_t start = state.n ? state.n + 1 : 0, n = start;
        int result = copy_segment(&state, &n);
        if (!result && out[start] == '.') {
            has_dot = true;
            result = remove_dot_segments(&state, start, n);
        }
        if (result < 0)
            return result;
        is_directory = result || state.at < state.end;
        if (result)
            continue;
        if (start)
            out[state.n] = '/';
        state.n = n;
    }
    out[state.n] = '\0';
    *ret_flags = (is_directory ? GS_HTTP_PATH_DIRECTORY : 0U) |
                 (has_dot && is_hidden(out, state.n) ? GS_HTTP_PATH_HIDDEN : 0U);
    return (ssize_t)state.n;
}
