/* Fuzzes the parsers of libevent's interface: an address that is parsed can be formatted, and
 * parsed again to the same address. */
#include <arpa/inet.h>
#include <assert.h>
#include <event2/util.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

union address {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
    struct sockaddr_storage storage;
};

static void format(const union address *address, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN], port[8] = "", scope[16] = "";
    int family = address->any.sa_family, is_ipv6 = family == AF_INET6;
    const void *bytes =
        is_ipv6 ? (const void *)&address->ipv6.sin6_addr : (const void *)&address->ipv4.sin_addr;
    assert(evutil_inet_ntop(family, bytes, host, sizeof host) == host);
    if (address->ipv4.sin_port)
        snprintf(port, sizeof port, ":%d", ntohs(address->ipv4.sin_port));
    if (is_ipv6 && address->ipv6.sin6_scope_id)
        snprintf(scope, sizeof scope, "%%%u", address->ipv6.sin6_scope_id);
    evutil_snprintf(text, size, is_ipv6 ? "[%s%s]%s" : "%s%s%s", host, scope, port);
}

static void check_address(const char *text, int length)
{
    union address first, second;
    char again[100];
    int first_length = length, second_length = sizeof second;
    if (evutil_parse_sockaddr_port(text, &first.any, &first_length)) {
        assert(first_length == length);
        return;
    }
    assert(first_length <= length);
    format(&first, again, sizeof again);
    assert(!evutil_parse_sockaddr_port(again, &second.any, &second_length));
    assert(first_length == second_length);
    assert(!memcmp(&first, &second, (size_t)first_length));
    assert(!evutil_sockaddr_cmp(&first.any, &second.any, 1));
}

/* The first byte is the room for the address, the others are the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char *text = malloc(size), *end;
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    check_address(text, data[0] % (int)(sizeof(struct sockaddr_storage) + 1));
    unsigned char bytes[sizeof(struct in6_addr)], plain[sizeof bytes];
    unsigned scope;
    if (evutil_inet_pton_scope(AF_INET6, text, bytes, &scope) == 1 && !strchr(text, '%')) {
        assert(evutil_inet_pton(AF_INET6, text, plain) == 1);
        assert(!memcmp(bytes, plain, sizeof bytes) && !scope);
    }
    assert(!evutil_ascii_strcasecmp(text, text));
    assert(evutil_ascii_strncasecmp(text, "0", 1) == -evutil_ascii_strncasecmp("0", text, 1));
    evutil_strtoll(text, &end, data[0] % 2 ? 10 : 16);
    assert(end >= text && end <= text + size);
    free(text);
    return 0;
}
