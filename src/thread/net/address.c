#include "thread/net/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#define UNIX_PREFIX "unix:"

bool gs_address_is_unix(const char *text)
{
    return strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
}

int gs_address_parse_unix(const char *text, struct address *ret_address)
{
    const char *path = text + strlen(UNIX_PREFIX);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (!n)
        return -EINVAL;
    if (n >= sizeof name.sun_path)
        return -ENAMETOOLONG;
    memcpy(name.sun_path, path, n + 1);
    memcpy(&ret_address->storage, &name, sizeof name);
    ret_address->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return 0;
}

/* Returns the port, or -1. */
static long port_of(const char *text)
{
    long port = 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        port = port * 10 + (*text - '0');
        if (port > UINT16_MAX)
            return -1;
    }
    return port;
}

/* Whether it is a port or may be the name of a service. getaddrinfo takes a port modulo 65536, and
 * spaces and signs before it. */
static bool is_service(const char *text)
{
    bool is_number = !text[strspn(text, "0123456789")];
    return is_number ? port_of(text) >= 0 : isalnum((unsigned char)*text);
}

int gs_address_split(const char *text, char host[HOST_SIZE], char service[SERVICE_SIZE])
{
    const char *colon = strrchr(text, ':');
    if (!colon || !colon[1] || strchr(colon, ']'))
        return -EINVAL;
    size_t n = (size_t)(colon - text), service_length = strlen(colon + 1);
    if (n >= 2 && text[0] == '[' && colon[-1] == ']') {
        text++;
        n -= 2;
        if (!n)
            return -EINVAL;
    } else if (memchr(text, ':', n)) {
        return -EINVAL; /* an IPv6 address without brackets */
    }
    if (n >= HOST_SIZE || service_length >= SERVICE_SIZE)
        return -ENAMETOOLONG;
    if (!is_service(colon + 1))
        return -EINVAL;
    memcpy(host, text, n);
    host[n] = '\0';
    memcpy(service, colon + 1, service_length + 1);
    return 0;
}

bool gs_address_is_numeric(const char *host, const char *port, struct address *ret_address)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    long number = port_of(port);
    if (number < 0)
        return false;
    four.sin_port = six.sin6_port = htons((uint16_t)number);
    if (inet_pton(AF_INET, host, &four.sin_addr) == 1) {
        memcpy(&ret_address->storage, &four, sizeof four);
        ret_address->length = sizeof four;
        return true;
    }
    if (inet_pton(AF_INET6, host, &six.sin6_addr) != 1)
        return false;
    memcpy(&ret_address->storage, &six, sizeof six);
    ret_address->length = sizeof six;
    return true;
}
