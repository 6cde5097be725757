/* The proxies of the environment, as curl understands it. */
#include "http/token.h"
#include "http_client/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Of a proxy without a port. */
#define DEFAULT_PORT "1080"

/* ---- Reading the environment ---- */

/* Returns the value of the first variable that is set and not empty; NULL: none is. */
static const char *variable(const char *const names[])
{
    for (; *names; names++) {
        const char *value = secure_getenv(*names);
        if (value && *value)
            return value;
    }
    return NULL;
}

static int refuse(struct gs_http_client_proxy *proxy, const char *text, const char *reason)
{
    return asprintf(&proxy->refusal, "the proxy \"%s\" of the environment %s", text, reason) < 0
               ? -ENOMEM
               : 0;
}

static int set_proxy(struct gs_http_client_proxy *proxy, const struct gs_http_url *url,
                     bool has_port)
{
    bool is_ipv6 = strchr(url->host, ':');
    if (asprintf(&proxy->address, is_ipv6 ? "[%s]:%s" : "%s:%s", url->host,
                 has_port ? url->port : DEFAULT_PORT) < 0) {
        proxy->address = NULL;
        return -ENOMEM;
    }
    if (!url->user_length)
        return 0;
    proxy->authorization = malloc(GS_HTTP_BASIC_ROOM(url->user_length));
    if (!proxy->authorization)
        return -ENOMEM;
    gs_http_url_write_basic(url, proxy->authorization);
    return 0;
}

/* The authority of a URL has a port if a colon is behind the brackets of an address, or anywhere.
 */
static bool has_port(const struct gs_http_url *url)
{
    const char *bracket = strrchr(url->authority, ']');
    return strchr(bracket ? bracket : url->authority, ':');
}

static int parse(struct gs_http_client_proxy *proxy, const char *text)
{
    struct gs_http_url url;
    const char *reason;
    if (!text)
        return 0;
    if (gs_http_url_parse(text, &url, &reason))
        return refuse(proxy, text, reason);
    if (url.is_https)
        return refuse(proxy, text, "would be reached by TLS, which is not supported");
    return set_proxy(proxy, &url, has_port(&url));
}

/* HTTP_PROXY is what a server of CGI sets for a field "Proxy" that anybody may send: it is not
 * looked at. */
int gs_http_client_proxies_init(struct gs_http_client_proxies *proxies)
{
    static const char *const http[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL};
    static const char *const https[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                                        NULL};
    static const char *const none[] = {"no_proxy", "NO_PROXY", NULL};
    const char *exceptions = variable(none);
    int err = parse(&proxies->http, variable(http));
    if (!err)
        err = parse(&proxies->https, variable(https));
    if (!err && exceptions && !(proxies->exceptions = strdup(exceptions)))
        err = -ENOMEM;
    return err;
}

static void done(struct gs_http_client_proxy *proxy)
{
    free(proxy->address);
    free(proxy->authorization);
    free(proxy->refusal);
}

void gs_http_client_proxies_done(struct gs_http_client_proxies *proxies)
{
    done(&proxies->http);
    done(&proxies->https);
    free(proxies->exceptions);
}

/* ---- no_proxy: names with all below them, addresses, and networks ---- */

/* Returns whether the first bits of both addresses are equal. */
static bool is_within(const unsigned char *address, const unsigned char *network, unsigned bits)
{
    unsigned rest = bits % 8, mask = 0xffu << (8 - rest) & 0xff;
    return !memcmp(address, network, bits / 8) &&
           (!rest || !((address[bits / 8] ^ network[bits / 8]) & mask));
}

/* Compare with an element that may end with "/BITS". */
static bool matches_address(int family, const unsigned char *address, char *element)
{
    unsigned char network[16];
    unsigned max = family == AF_INET ? 32 : 128;
    char *slash = strchr(element, '/');
    uint64_t bits = max;
    if (slash) {
        *slash = '\0';
        struct gs_http_text digits = {slash + 1, strlen(slash + 1)};
        if (!gs_http_get_decimal(digits, &bits) || bits > max)
            return false;
    }
    size_t n = strlen(element);
    if (family == AF_INET6 && n > 1 && element[0] == '[' && element[n - 1] == ']') {
        element[n - 1] = '\0';
        element++;
    }
    return inet_pton(family, element, network) == 1 && is_within(address, network, (unsigned)bits);
}

/* The name itself, or one below it; a dot before it does not matter, nor one behind. */
static bool matches_name(const char *host, size_t n, const char *element)
{
    element += *element == '.';
    size_t length = strlen(element);
    length -= length && element[length - 1] == '.';
    n -= n && host[n - 1] == '.';
    if (!length || length > n || strncasecmp(host + n - length, element, length))
        return false;
    return n == length || host[n - length - 1] == '.';
}

bool gs_http_client_proxy_is_exception(const char *exceptions, const char *host)
{
    unsigned char address[16];
    int family = inet_pton(AF_INET, host, address) == 1    ? AF_INET
                 : inet_pton(AF_INET6, host, address) == 1 ? AF_INET6
                                                           : AF_UNSPEC;
    if (!strcmp(exceptions, "*"))
        return true;
    for (const char *at = exceptions; *at;) {
        char element[256];
        size_t n = strcspn(at, ", \t");
        snprintf(element, sizeof element, "%.*s", (int)(n < sizeof element ? n : 0), at);
        if (family == AF_UNSPEC ? matches_name(host, strlen(host), element)
                                : matches_address(family, address, element))
            return true;
        at += n;
        at += strspn(at, ", \t");
    }
    return false;
}

const struct gs_http_client_proxy *
gs_http_client_proxy_for(const struct gs_http_client_proxies *proxies, bool is_https,
                         const char *host)
{
    const struct gs_http_client_proxy *proxy = is_https ? &proxies->https : &proxies->http;
    if (!proxy->address && !proxy->refusal)
        return NULL;
    if (proxies->exceptions && gs_http_client_proxy_is_exception(proxies->exceptions, host))
        return NULL;
    return proxy;
}
