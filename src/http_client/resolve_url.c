#include "http/url.h"

#include <errno.h>
#include <gossamer/http_client.h>
#include <stdlib.h>
#include <string.h>

static bool is_space(char c)
{
    return c && strchr(" \t\r\n\f", c);
}

/* Write a URL of http or https. Returns 0, -EINVAL, -ENAMETOOLONG or -ENOMEM. */
static int write_url(const char *text, char *out, size_t size)
{
    struct gs_http_url url;
    const char *unused;
    if (gs_http_url_parse(text, &url, &unused) || !url.has_scheme)
        return -EINVAL;
    char *written = malloc(gs_http_url_room(&url));
    if (!written)
        return -ENOMEM;
    gs_http_url_write(&url, written, &unused);
    size_t n = strlen(written) + 1;
    if (n <= size)
        memcpy(out, written, n);
    free(written);
    return n <= size ? 0 : -ENAMETOOLONG;
}

int gs_http_resolve_url(const char *base, const char *reference, char *out, size_t size)
{
    struct gs_http_url url;
    const char *unused;
    while (is_space(*reference))
        reference++;
    size_t n = strlen(reference);
    while (n && is_space(reference[n - 1]))
        n--;
    if (gs_http_url_parse(base, &url, &unused) || !url.has_scheme)
        return -EINVAL;
    size_t room = strlen(base) + 3 * n + 16;
    char *trimmed = malloc(n + 1 + room);
    if (!trimmed)
        return -ENOMEM;
    memcpy(trimmed, reference, n);
    trimmed[n] = '\0';
    char *text = trimmed + n + 1;
    int err = gs_http_url_resolve(base, trimmed, text, room);
    if (!err)
        err = write_url(text, out, size);
    free(trimmed);
    return err;
}
