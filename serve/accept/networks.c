#include "serve/accept/networks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* With a port, brackets, and the end of the text. */
#define TEXT_MAX (INET6_ADDRSTRLEN + sizeof "[]:65535")

static struct serve_host host_of_six(const struct in6_addr *six)
{
    struct serve_host host = {.family = AF_INET6};
    if (IN6_IS_ADDR_V4MAPPED(six)) {
        host.family = AF_INET;
        memcpy(host.bytes, &six->s6_addr[12], 4);
    } else {
        memcpy(host.bytes, six, sizeof *six);
    }
    return host;
}

struct serve_host serve_host_of(const struct sockaddr *address)
{
    struct serve_host host = {.family = (uint8_t)address->sa_family};
    if (address->sa_family == AF_INET6)
        return host_of_six(&((const struct sockaddr_in6 *)address)->sin6_addr);
    if (address->sa_family == AF_INET)
        memcpy(host.bytes, &((const struct sockaddr_in *)address)->sin_addr, 4);
    return host;
}

static int parse_plain(const char *text, struct serve_host *ret_host)
{
    struct in6_addr six;
    *ret_host = (struct serve_host){.family = AF_INET};
    if (inet_pton(AF_INET, text, ret_host->bytes) == 1)
        return 0;
    if (inet_pton(AF_INET6, text, &six) != 1)
        return -EINVAL;
    *ret_host = host_of_six(&six);
    return 0;
}

static bool is_port(const char *text)
{
    size_t n = strspn(text, "0123456789");
    return n && n <= 5 && !text[n];
}

int serve_host_parse(const char *text, size_t n, struct serve_host *ret_host)
{
    char copy[TEXT_MAX];
    if (!n || n >= sizeof copy || memchr(text, '\0', n))
        return -EINVAL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    char *colon = strchr(copy, ':');
    if (copy[0] == '[') {
        char *end = strchr(copy, ']');
        if (!end || (end[1] && (end[1] != ':' || !is_port(end + 2))))
            return -EINVAL;
        *end = '\0';
        return strchr(copy + 1, ':') ? parse_plain(copy + 1, ret_host) : -EINVAL;
    }
    if (colon && !strchr(colon + 1, ':')) {
        if (!is_port(colon + 1))
            return -EINVAL;
        *colon = '\0';
    }
    return parse_plain(copy, ret_host);
}

/* Returns the number after the slash; UINT_MAX: it is none, or larger than max. */
static unsigned parse_bits(const char *text, unsigned max)
{
    size_t n = strspn(text, "0123456789");
    if (!n || n > 3 || text[n])
        return UINT32_MAX;
    unsigned bits = (unsigned)strtoul(text, NULL, 10);
    return bits <= max ? bits : UINT32_MAX;
}

static int parse(const char *word, struct serve_network *ret_network)
{
    char text[TEXT_MAX];
    const char *slash = strchr(word, '/');
    size_t n = slash ? (size_t)(slash - word) : strlen(word);
    if (!strcmp(word, "unix")) {
        *ret_network = (struct serve_network){.host = {.family = AF_UNIX}};
        return 0;
    }
    if (n >= sizeof text)
        return -EINVAL;
    memcpy(text, word, n);
    text[n] = '\0';
    if (parse_plain(text, &ret_network->host))
        return -EINVAL;
    bool is_mapped = ret_network->host.family == AF_INET && strchr(text, ':');
    unsigned max = ret_network->host.family == AF_INET ? 32 : 128;
    ret_network->bits = slash ? parse_bits(slash + 1, is_mapped ? 128 : max) : max;
    if (is_mapped && slash && ret_network->bits != UINT32_MAX)
        ret_network->bits = ret_network->bits >= 96 ? ret_network->bits - 96 : UINT32_MAX;
    return ret_network->bits == UINT32_MAX ? -EINVAL : 0;
}

int serve_networks_add(struct serve_networks *networks, const char *word)
{
    struct serve_network network;
    if (parse(word, &network))
        return -EINVAL;
    struct serve_network *items =
        reallocarray(networks->items, networks->count + 1, sizeof *networks->items);
    if (!items)
        return -ENOMEM;
    networks->items = items;
    items[networks->count++] = network;
    return 0;
}

static bool has(const struct serve_network *network, const struct serve_host *host)
{
    unsigned whole = network->bits / 8, rest = network->bits % 8;
    if (network->host.family != host->family ||
        memcmp(network->host.bytes, host->bytes, whole) != 0)
        return false;
    unsigned differing = rest ? network->host.bytes[whole] ^ host->bytes[whole] : 0;
    return !(differing >> (8 - rest) & 0xff);
}

bool serve_networks_have(const struct serve_networks *networks, const struct serve_host *host)
{
    for (size_t i = 0; i < networks->count; i++)
        if (has(&networks->items[i], host))
            return true;
    return false;
}

void serve_networks_done(struct serve_networks *networks)
{
    free(networks->items);
    *networks = (struct serve_networks){0};
}
