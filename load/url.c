#include "load/url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* Returns the part after the scheme, or NULL. As in other clients, a text without a scheme stands
 * for an http URL. */
static const char *skip_scheme(const char *text, bool *ret_is_https)
{
    size_t n = strcspn(text, "/?#");
    bool has_scheme = n && text[n - 1] == ':' && !strncmp(text + n, "//", 2);
    if (!has_scheme)
        return text;
    *ret_is_https = n == 6 && !strncasecmp(text, "https", 5);
    bool is_http = n == 5 && !strncasecmp(text, "http", 4);
    return is_http || *ret_is_https ? text + n + 2 : NULL;
}

/* The zone of an IPv6 address, as in [fe80::1%25eth0], selects an interface of this machine: it is
 * part of the address to connect to, and not of the Host field. */
static void copy_host(struct load_url *url, const char *host, size_t n, bool is_bracketed)
{
    const char *zone = is_bracketed ? memchr(host, '%', n) : NULL;
    size_t address_length = zone ? (size_t)(zone - host) : n;
    size_t escape = zone && !strncmp(zone, "%25", 3) ? 2 : 0;
    memcpy(url->host, host, address_length);
    if (zone) {
        url->host[address_length] = '%';
        memcpy(url->host + address_length + 1, zone + 1 + escape, n - address_length - 1 - escape);
    }
    int length = (int)address_length;
    snprintf(url->authority, sizeof url->authority, is_bracketed ? "[%.*s]" : "%.*s", length, host);
}

/* Parse the n bytes of a host and an optional port. */
static int parse_authority(struct load_url *url, const char *authority, size_t n,
                           const char **ret_reason)
{
    if (n >= sizeof url->authority)
        return fail(ret_reason, "has a host name that is too long");
    const char *end = host_end(authority, n);
    bool is_bracketed = *authority == '[';
    const char *host = authority + is_bracketed;
    size_t host_length = end ? (size_t)(end - host) - is_bracketed : 0;
    if (!host_length || host_length >= sizeof url->host)
        return fail(ret_reason, "has no host");
    copy_host(url, host, host_length, is_bracketed);
    size_t port_length = end < authority + n ? (size_t)(authority + n - end) - 1 : 0;
    if (!port_length) {
        snprintf(url->port, sizeof url->port, "%s", url->is_https ? "443" : "80");
        return 0;
    }
    if (!is_port(end + 1, port_length))
        return fail(ret_reason, "has no port from 1 to 65535 after the colon");
    memcpy(url->port, end + 1, port_length);
    size_t used = strlen(url->authority);
    snprintf(url->authority + used, sizeof url->authority - used, ":%s", url->port);
    return 0;
}

int gs_load_url_parse(const char *text, struct load_url *ret_url, const char **ret_reason)
{
    struct load_url url = {0};
    if (has_bad_character(text))
        return fail(ret_reason, "has a space or control character (percent-encode it)");
    const char *authority = skip_scheme(text, &url.is_https);
    if (!authority)
        return fail(ret_reason, "does not begin with http:// or https://");
    size_t n = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', n), *host = at ? at + 1 : authority;
    url.user = authority;
    url.user_length = at ? (int)(at - authority) : 0;
    int err = parse_authority(&url, host, n - (size_t)(host - authority), ret_reason);
    if (err)
        return err;
    url.path = authority + n;
    url.path_length = (int)strcspn(url.path, "#");
    *ret_url = url;
    return 0;
}
