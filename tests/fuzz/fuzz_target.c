/* Fuzzes the target parser with any bytes: the parts lie within the target, and the path never
 * leaves the root. */
#include "http/target.h"
#include "http/token.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(struct gs_http_text name)
{
    assert(name.n > 0);
    assert(!gs_http_text_is(name, ".") && !gs_http_text_is(name, ".."));
    for (size_t i = 0; i < name.n; i++)
        assert(name.bytes[i] == '%' || gs_http_is(name.bytes[i], GS_HTTP_SEGMENT));
}

static void check_names(const char *path, size_t n, unsigned flags)
{
    bool hidden = false;
    for (size_t at = 0; n > 0 && at <= n;) {
        const char *slash = memchr(path + at, '/', n - at);
        size_t end = slash ? (size_t)(slash - path) : n;
        struct gs_http_text name = {path + at, end - at};
        check_name(name);
        hidden |= name.bytes[0] == '.' && !(at == 0 && gs_http_text_is(name, ".well-known"));
        at = end + 1;
    }
    assert(hidden == !!(flags & GS_HTTP_PATH_HIDDEN));
}

/* Normalising a normalised path, with its percent signs escaped, does not change it. */
static void check_again(const char *path, size_t n, unsigned flags)
{
    char *escaped = malloc(3 * n + 2), *out = malloc(3 * n + 2);
    size_t length = 0;
    unsigned again;
    assert(escaped && out);
    escaped[length++] = '/';
    for (size_t i = 0; i < n; i++) {
        escaped[length++] = path[i];
        if (path[i] == '%') {
            escaped[length++] = '2';
            escaped[length++] = '5';
        }
    }
    struct gs_http_text text = {escaped, length};
    assert(gs_http_path_normalise(text, out, 3 * n + 2, &again) == (ssize_t)n);
    assert(!memcmp(out, path, n + 1));
    assert((again & GS_HTTP_PATH_HIDDEN) == (flags & GS_HTTP_PATH_HIDDEN));
    free(escaped);
    free(out);
}

static void check_path(struct gs_http_text path)
{
    char *out = malloc(path.n);
    unsigned flags;
    assert(out);
    ssize_t n = gs_http_path_normalise(path, out, path.n, &flags);
    if (n >= 0) {
        assert((size_t)n < path.n && strlen(out) == (size_t)n);
        assert(n > 0 || flags == GS_HTTP_PATH_DIRECTORY);
        check_names(out, (size_t)n, flags);
        check_again(out, (size_t)n, flags);
    }
    free(out);
}

static void check_within(struct gs_http_text full, struct gs_http_text piece)
{
    assert(!piece.n || (piece.bytes >= full.bytes && piece.bytes + piece.n <= full.bytes + full.n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_http_text text = {(const char *)data, size};
    struct gs_http_target target;
    check_path(text);
    if (!gs_http_target_split(text, &target))
        return 0;
    check_within(text, target.authority);
    check_within(text, target.query);
    assert(!target.path.bytes || target.path.bytes[0] == '/');
    if (target.path.bytes)
        check_path(target.path);
    return 0;
}
