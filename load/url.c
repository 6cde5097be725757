#include "load/url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char scheme[] = "http://";

static int fail(const char **ret_reason, const char *reason)
{
    *ret_reason = reason;
    return -EINVAL;
}

/* Spaces and control characters are not valid in a URL, and could end the request line. */
static bool has_bad_character(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text <= ' ' || *text == 0x7f)
            return true;
    }
    return false;
}

static bool is_port(const char *text, size_t n)
{
    if (!n || n > 5 || strspn(text, "0123456789") < n)
        return false;
    long port = strtol(text, NULL, 10);
    return port > 0 && port < 65536;
}

/* Returns the end of the host in the authority of n bytes, or NULL if brackets do not match. */
static const char *host_end(const char *authority, size_t n)
{
    if (*authority == '[') {
        const char *bracket = memchr(authority, ']', n);
        bool is_last = bracket && (bracket + 1 == authority + n || bracket[1] == ':');
        return is_last ? bracket + 1 : NULL;
    }
    const char *colon = memchr(authority, ':', n);
    return colon ? colon : authority + n;
}

int gs_load_url_parse(const char *text, struct load_url *ret_url, const char **ret_reason)
{
    struct load_url url = {0};
    if (!strncasecmp(text, "https://", 8))
        return fail(ret_reason, "has the scheme https, which is not supported");
    if (strncasecmp(text, scheme, sizeof scheme - 1) != 0)
        return fail(ret_reason, "does not begin with http://");
    if (has_bad_character(text))
        return fail(ret_reason, "has a space or control character (percent-encode it)");
    const char *authority = text + sizeof scheme - 1;
    size_t n = strcspn(authority, "/?#");
    if (n >= sizeof url.authority || memchr(authority, '@', n))
        return fail(ret_reason, "has a user name, or a host name that is too long");
    const char *end = host_end(authority, n);
    bool is_bracketed = *authority == '[';
    const char *host = authority + is_bracketed;
    size_t host_length = end ? (size_t)(end - host) - is_bracketed : 0;
    if (!host_length || host_length >= sizeof url.host)
        return fail(ret_reason, "has no host");
    bool has_port = end < authority + n;
    size_t port_length = has_port ? (size_t)(authority + n - end) - 1 : 0;
    if (has_port && !is_port(end + 1, port_length))
        return fail(ret_reason, "has no port from 1 to 65535 after the colon");
    memcpy(url.authority, authority, n);
    memcpy(url.host, host, host_length);
    memcpy(url.port, has_port ? end + 1 : "80", has_port ? port_length : 2);
    url.path = authority + n;
    url.path_length = (int)strcspn(url.path, "#");
    *ret_url = url;
    return 0;
}
