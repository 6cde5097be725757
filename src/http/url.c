#include "http/url.h"

#include "http/base64.h"
#include "http/host.h"
#include "http/token.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static int fail(const char **ret_reason, const char *reason)
{
    *ret_reason = reason;
    return -EINVAL;
}

/* ---- Parsing ---- */

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
static const char *skip_scheme(const char *text, struct gs_http_url *url)
{
    size_t n = strcspn(text, "/?#");
    url->has_scheme = n && text[n - 1] == ':' && !strncmp(text + n, "//", 2);
    if (!url->has_scheme)
        return text;
    url->is_https = n == 6 && !strncasecmp(text, "https", 5);
    bool is_http = n == 5 && !strncasecmp(text, "http", 4);
    return is_http || url->is_https ? text + n + 2 : NULL;
}

/* In any locale. */
static void copy_lower(char *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
}

/* The zone of an IPv6 address, as in [fe80::1%25eth0], selects an interface of this machine: it is
 * part of the address to connect to, and not of the Host field. */
static void copy_host(struct gs_http_url *url, const char *host, size_t n, bool is_bracketed)
{
    const char *zone = is_bracketed ? memchr(host, '%', n) : NULL;
    size_t address_length = zone ? (size_t)(zone - host) : n;
    size_t escape = zone && !strncmp(zone, "%25", 3) ? 2 : 0;
    copy_lower(url->host, host, address_length);
    if (zone) {
        url->host[address_length] = '%';
        memcpy(url->host + address_length + 1, zone + 1 + escape, n - address_length - 1 - escape);
    }
    int length = (int)address_length;
    snprintf(url->authority, sizeof url->authority, is_bracketed ? "[%.*s]" : "%.*s", length,
             url->host);
}

/* Parse the n bytes of a host and an optional port. */
static int parse_authority(struct gs_http_url *url, const char *authority, size_t n,
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
    struct gs_http_text checked = {url->authority, strlen(url->authority)};
    if (!gs_http_host_is_valid(checked))
        return fail(ret_reason, "has a host that is neither a name in ASCII nor an address");
    size_t port_length = end < authority + n ? (size_t)(authority + n - end) - 1 : 0;
    if (!port_length) {
        snprintf(url->port, sizeof url->port, "%s", url->is_https ? "443" : "80");
        return 0;
    }
    if (!is_port(end + 1, port_length))
        return fail(ret_reason, "has no port from 1 to 65535 after the colon");
    memcpy(url->port, end + 1, port_length);
    snprintf(url->authority + checked.n, sizeof url->authority - checked.n, ":%s", url->port);
    return 0;
}

int gs_http_url_parse(const char *text, struct gs_http_url *ret_url, const char **ret_reason)
{
    memset(ret_url, 0, sizeof *ret_url);
    if (has_bad_character(text))
        return fail(ret_reason, "has a space or control character (percent-encode it)");
    if (strlen(text) > GS_HTTP_URL_MAX)
        return fail(ret_reason, "is longer than 65535 bytes");
    const char *authority = skip_scheme(text, ret_url);
    if (!authority)
        return fail(ret_reason, "does not begin with http:// or https://");
    size_t n = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', n), *host = at ? at + 1 : authority;
    ret_url->user = authority;
    ret_url->user_length = at ? (int)(at - authority) : 0;
    ret_url->path = authority + n;
    ret_url->path_length = (int)strcspn(ret_url->path, "#");
    return parse_authority(ret_url, host, n - (size_t)(host - authority), ret_reason);
}

/* ---- Writing ---- */

/* What browsers encode in a path and in a query, and what no request line may contain. */
static bool must_encode(char c)
{
    return !gs_http_is(c, GS_HTTP_TARGET) || strchr("\\^`{|}", c);
}

/* Returns the position behind the n bytes, some of them encoded. */
static char *write_encoded(char *out, const char *text, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < n; i++) {
        if (!must_encode(text[i])) {
            *out++ = text[i];
            continue;
        }
        *out++ = '%';
        *out++ = digits[(unsigned char)text[i] >> 4];
        *out++ = digits[(unsigned char)text[i] & 15];
    }
    return out;
}

size_t gs_http_url_room(const struct gs_http_url *url)
{
    return sizeof "https:///" + strlen(url->authority) + 3 * (size_t)url->path_length;
}

void gs_http_url_write(const struct gs_http_url *url, char *out, const char **ret_target)
{
    char *at = stpcpy(out, url->is_https ? "https://" : "http://");
    at = stpcpy(at, url->authority);
    *ret_target = at;
    if (!url->path_length || url->path[0] != '/')
        *at++ = '/';
    *write_encoded(at, url->path, (size_t)url->path_length) = '\0';
}

/* ---- References (RFC 3986, 5.2) ---- */

struct reference {
    struct gs_http_text scheme, authority, path, query; /* the path is never absent */
};

static size_t scheme_length(const char *text)
{
    size_t n = 0;
    while (gs_http_is(text[n], GS_HTTP_TCHAR) && !strchr("!#$%&'*^_`|~", text[n]))
        n++;
    bool is_scheme = n && text[n] == ':' && !gs_http_is(text[0], GS_HTTP_DIGIT) && text[0] != '+' &&
                     text[0] != '-' && text[0] != '.';
    return is_scheme ? n : 0;
}

static void split(const char *at, struct reference *ret_reference)
{
    struct reference parts = {0};
    size_t n = scheme_length(at);
    if (n) {
        parts.scheme = (struct gs_http_text){at, n};
        at += n + 1;
    }
    if (at[0] == '/' && at[1] == '/') {
        parts.authority = (struct gs_http_text){at + 2, strcspn(at + 2, "/?#")};
        at += 2 + parts.authority.n;
    }
    parts.path = (struct gs_http_text){at, strcspn(at, "?#")};
    at += parts.path.n;
    if (*at == '?')
        parts.query = (struct gs_http_text){at + 1, strcspn(at + 1, "#")};
    *ret_reference = parts;
}

/* Remove the segments "." and ".." from a path that begins with a slash (5.2.4). Returns its end.
 */
static char *remove_dots(char *path, const char *end)
{
    char *out = path;
    for (const char *at = path, *next; at < end; at = next) {
        next = memchr(at + 1, '/', (size_t)(end - at) - 1);
        next = next ? next : end;
        struct gs_http_text segment = {at + 1, (size_t)(next - at) - 1};
        bool is_parent = gs_http_text_is(segment, "..");
        bool is_dot = is_parent || gs_http_text_is(segment, ".");
        if (is_parent && out > path)
            out = memrchr(path, '/', (size_t)(out - path));
        if (!is_dot) {
            memmove(out, at, (size_t)(next - at));
            out += next - at;
        } else if (next == end) {
            *out++ = '/';
        }
    }
    return out;
}

/* The base's path up to its last slash. */
static struct gs_http_text folder(struct gs_http_text path)
{
    const char *slash = memrchr(path.bytes, '/', path.n);
    return slash ? (struct gs_http_text){path.bytes, (size_t)(slash - path.bytes) + 1}
                 : GS_HTTP_TEXT("/");
}

int gs_http_url_resolve(const char *base, const char *reference, char *out, size_t size)
{
    struct reference from, to;
    size_t base_n = strlen(base), n = strlen(reference);
    if (n > GS_HTTP_URL_MAX || base_n + 3 * n + 4 > size)
        return -ENAMETOOLONG;
    split(base, &from);
    split(reference, &to);
    bool is_absolute = to.scheme.n || to.authority.bytes;
    bool is_same = !is_absolute && !to.path.n;
    if (!from.scheme.n)
        from.scheme = GS_HTTP_TEXT("http");
    struct gs_http_text scheme = to.scheme.n ? to.scheme : from.scheme;
    struct gs_http_text authority = is_absolute ? to.authority : from.authority;
    struct gs_http_text query = is_same && !to.query.bytes ? from.query : to.query;
    char *at = mempcpy(out, scheme.bytes, scheme.n);
    *at++ = ':';
    if (authority.bytes) {
        at = stpcpy(at, "//");
        at = write_encoded(at, authority.bytes, authority.n);
    }
    char *path = at;
    if (is_same)
        at = mempcpy(at, from.path.bytes, from.path.n);
    else if (!is_absolute && to.path.bytes[0] != '/')
        at = mempcpy(at, folder(from.path).bytes, folder(from.path).n);
    at = write_encoded(at, to.path.bytes, to.path.n);
    if (at > path && *path == '/')
        at = remove_dots(path, at);
    if (query.bytes) {
        *at++ = '?';
        at = write_encoded(at, query.bytes, query.n);
    }
    *at = '\0';
    return 0;
}

/* ---- The user ---- */

/* Undo percent-encoding in place. Returns the length of the result. */
static size_t decode(uint8_t *bytes, size_t n)
{
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_escape = bytes[i] == '%' && i + 2 < n &&
                         gs_http_is((char)bytes[i + 1], GS_HTTP_HEX) &&
                         gs_http_is((char)bytes[i + 2], GS_HTTP_HEX);
        bytes[length++] = is_escape ? (uint8_t)(gs_http_hex_value((char)bytes[i + 1]) << 4 |
                                                gs_http_hex_value((char)bytes[i + 2]))
                                    : bytes[i];
        i += is_escape ? 2 : 0;
    }
    return length;
}

void gs_http_url_write_basic(const struct gs_http_url *url, char *out)
{
    size_t n = (size_t)url->user_length;
    char *text = stpcpy(out, "Basic ");
    /* The plain bytes are at the end of the room: encoding from there never overtakes them. */
    uint8_t *bytes = (uint8_t *)out + GS_HTTP_BASIC_ROOM(n) - n - 2;
    memcpy(bytes, url->user, n);
    size_t length = decode(bytes, n);
    if (!memchr(url->user, ':', n))
        bytes[length++] = ':';
    gs_http_base64_write(text, bytes, length);
    text[GS_HTTP_BASE64_LENGTH(length)] = '\0';
}
