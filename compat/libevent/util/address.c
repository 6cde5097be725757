/* Addresses as text. */
#include <arpa/inet.h>
#include <event2/util.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* No address is longer, with its scope. */
#define MAX_ADDRESS 127

const char *evutil_inet_ntop(int af, const void *src, char *dst, size_t len)
{
    return inet_ntop(af, src, dst, len < UINT32_MAX ? (socklen_t)len : UINT32_MAX);
}

/* Unlike inet_pton's, the numbers may have leading zeros. Returns whether it is an address. */
static bool parse_ipv4(const char *text, unsigned char bytes[4])
{
    for (int i = 0; i < 4; i++) {
        if (i && *text++ != '.')
            return false;
        unsigned number = 0;
        const char *start = text;
        for (; *text >= '0' && *text <= '9' && number <= 255; text++)
            number = number * 10 + (unsigned)(*text - '0');
        if (text == start || number > 255)
            return false;
        bytes[i] = (unsigned char)number;
    }
    return !*text;
}

int evutil_inet_pton(int af, const char *src, void *dst)
{
    if (af != AF_INET)
        return inet_pton(af, src, dst);
    unsigned char bytes[4];
    if (!parse_ipv4(src, bytes))
        return 0;
    memcpy(dst, bytes, sizeof bytes);
    return 1;
}

/* Returns whether text is an interface or a number; none at all is 0. */
static bool parse_scope(const char *text, unsigned *ret_index)
{
    *ret_index = if_nametoindex(text);
    if (*ret_index)
        return true;
    char *end;
    *ret_index = (unsigned)strtoul(text, &end, 10);
    return !*end;
}

int evutil_inet_pton_scope(int af, const char *src, void *dst, unsigned *indexp)
{
    *indexp = 0;
    const char *percent = af == AF_INET6 ? strchr(src, '%') : NULL;
    if (!percent)
        return af == AF_INET || af == AF_INET6 ? evutil_inet_pton(af, src, dst) : -1;
    char address[INET6_ADDRSTRLEN];
    size_t length = (size_t)(percent - src);
    unsigned index;
    if (!parse_scope(percent + 1, &index))
        return 0;
    *indexp = index;
    if (length >= sizeof address)
        return 0;
    memcpy(address, src, length);
    address[length] = '\0';
    return evutil_inet_pton(af, address, dst);
}

/* The parts of a text: an address of one of the families, and a port, NULL without one. */
struct parts {
    bool is_ipv6;
    const char *address;
    size_t length;
    const char *port;
};

/* Returns whether the brackets, if there are any, are closed. */
static bool split(const char *text, struct parts *ret_parts)
{
    const char *colon = strchr(text, ':');
    if (*text == '[') {
        const char *end = strchr(text, ']');
        if (!end)
            return false;
        *ret_parts = (struct parts){true, text + 1, (size_t)(end - text - 1),
                                    end[1] == ':' ? end + 2 : NULL};
    } else if (colon && strchr(colon + 1, ':')) {
        *ret_parts = (struct parts){true, text, strlen(text), NULL};
    } else if (colon) {
        *ret_parts = (struct parts){false, text, (size_t)(colon - text), colon + 1};
    } else {
        *ret_parts = (struct parts){false, text, strlen(text), NULL};
    }
    return true;
}

/* Returns the port, 0 if there is none, or -1. What follows the number is ignored. */
static int parse_port(const char *text)
{
    if (!text)
        return 0;
    long port = strtol(text, NULL, 10);
    return port > 0 && port <= UINT16_MAX ? (int)port : -1;
}

static int give(struct sockaddr *out, int *outlen, const void *address, size_t size)
{
    if (*outlen < (int)size)
        return -1;
    memset(out, 0, (size_t)*outlen);
    memcpy(out, address, size);
    *outlen = (int)size;
    return 0;
}

int evutil_parse_sockaddr_port(const char *str, struct sockaddr *out, int *outlen)
{
    struct parts parts;
    if (!split(str, &parts) || parts.length > MAX_ADDRESS)
        return -1;
    int port = parse_port(parts.port);
    if (port < 0)
        return -1;
    char text[MAX_ADDRESS + 1];
    memcpy(text, parts.address, parts.length);
    text[parts.length] = '\0';
    if (parts.is_ipv6) {
        struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        if (evutil_inet_pton_scope(AF_INET6, text, &address.sin6_addr, &address.sin6_scope_id) != 1)
            return -1;
        return give(out, outlen, &address, sizeof address);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (evutil_inet_pton(AF_INET, text, &address.sin_addr) != 1)
        return -1;
    return give(out, outlen, &address, sizeof address);
}

int evutil_sockaddr_cmp(const struct sockaddr *sa1, const struct sockaddr *sa2, int include_port)
{
    if (sa1->sa_family != sa2->sa_family)
        return sa1->sa_family - sa2->sa_family;
    if (sa1->sa_family == AF_INET) {
        const struct sockaddr_in *a = (const void *)sa1, *b = (const void *)sa2;
        int order = memcmp(&a->sin_addr, &b->sin_addr, sizeof a->sin_addr);
        return order || !include_port ? order : (int)a->sin_port - (int)b->sin_port;
    }
    if (sa1->sa_family == AF_INET6) {
        const struct sockaddr_in6 *a = (const void *)sa1, *b = (const void *)sa2;
        int order = memcmp(&a->sin6_addr, &b->sin6_addr, sizeof a->sin6_addr);
        return order || !include_port ? order : (int)a->sin6_port - (int)b->sin6_port;
    }
    return 1;
}
