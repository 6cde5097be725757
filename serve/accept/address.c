#include "serve/accept/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define HOST_MAX 256
#define UNIX_PREFIX "unix:"
#define TLS_PREFIX "https://"
#define PLAIN_PREFIX "http://"

static bool is_number(const char *word)
{
    return *word && strspn(word, "0123456789") == strlen(word);
}

/* The host and port in the word; brackets are taken off. */
static const char *split(const char *word, char host[HOST_MAX], const char **ret_port)
{
    const char *colon = strrchr(word, ':');
    if (is_number(word)) {
        memcpy(host, "*", sizeof "*");
        *ret_port = word;
        return NULL;
    }
    if (!colon || !colon[1] || strchr(colon, ']'))
        return "has no port: write ADDRESS:PORT";
    size_t n = (size_t)(colon - word);
    if (n >= 2 && word[0] == '[' && word[n - 1] == ']') {
        word++;
        n -= 2;
    } else if (memchr(word, ':', n)) {
        return "needs brackets around its IPv6 address: write [ADDRESS]:PORT";
    }
    if (!n || n >= HOST_MAX)
        return "has no address: write ADDRESS:PORT, or *:PORT for all";
    memcpy(host, word, n);
    host[n] = '\0';
    *ret_port = colon + 1;
    return is_number(colon + 1) ? NULL : "has a port that is not a number";
}

/* What getaddrinfo's result says about the word. */
static const char *problem_of(int result)
{
    switch (result) {
    case EAI_MEMORY:
    case EAI_SYSTEM:
        return "can't be looked up: memory or descriptors are lacking";
    case EAI_AGAIN:
        return "can't be looked up now: the name server does not answer";
    default:
        return "names no address of this machine";
    }
}

static int parse_unix(const char *path, struct serve_address *ret_address, const char **ret_problem)
{
    struct sockaddr_un *name = (struct sockaddr_un *)&ret_address->storage;
    size_t n = strlen(path);
    *ret_problem = !n                           ? "has no path: write unix:PATH"
                   : n >= sizeof name->sun_path ? "has a path of more than 107 bytes"
                                                : NULL;
    if (*ret_problem)
        return -EINVAL;
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(name->sun_path, path, n + 1);
    ret_address->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return 0;
}

int serve_address_parse(const char *word, struct serve_address *ret_address,
                        const char **ret_problem)
{
    ret_address->file_fd = -1;
    ret_address->is_tls = !strncmp(word, TLS_PREFIX, strlen(TLS_PREFIX));
    if (ret_address->is_tls)
        word += strlen(TLS_PREFIX);
    else if (!strncmp(word, PLAIN_PREFIX, strlen(PLAIN_PREFIX)))
        word += strlen(PLAIN_PREFIX);
    if (!strncmp(word, UNIX_PREFIX, strlen(UNIX_PREFIX)))
        return parse_unix(word + strlen(UNIX_PREFIX), ret_address, ret_problem);
    char host[HOST_MAX];
    const char *port;
    *ret_problem = split(word, host, &port);
    if (*ret_problem)
        return -EINVAL;
    unsigned long number = strlen(port) > 5 ? 65536 : (unsigned long)strtol(port, NULL, 10);
    if (number > 65535) {
        *ret_problem = "has a port above 65535";
        return -EINVAL;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    bool any = !strcmp(host, "*");
    hints.ai_family = any ? AF_INET : AF_UNSPEC;
    int result = getaddrinfo(any ? NULL : host, port, &hints, &found);
    if (result) {
        *ret_problem = problem_of(result);
        return -EINVAL;
    }
    memcpy(&ret_address->storage, found->ai_addr, found->ai_addrlen);
    ret_address->length = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

uint16_t serve_address_port(const struct serve_address *address)
{
    const struct sockaddr_storage *storage = &address->storage;
    if (storage->ss_family == AF_UNIX)
        return 0;
    return ntohs(storage->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)storage)->sin6_port
                                                : ((const struct sockaddr_in *)storage)->sin_port);
}

void serve_address_host(const struct sockaddr *address, char out[SERVE_ADDRESS_TEXT])
{
    if (address->sa_family == AF_UNIX) {
        memcpy(out, UNIX_PREFIX, sizeof UNIX_PREFIX);
        return;
    }
    const void *host = address->sa_family == AF_INET6
                           ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                           : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    if (!inet_ntop(address->sa_family, host, out, SERVE_ADDRESS_TEXT))
        memcpy(out, "-", sizeof "-");
}

void serve_address_format(const struct sockaddr *address, char out[SERVE_ADDRESS_TEXT])
{
    char host[SERVE_ADDRESS_TEXT];
    if (address->sa_family == AF_UNIX) {
        const struct sockaddr_un *name = (const struct sockaddr_un *)address;
        snprintf(out, SERVE_ADDRESS_TEXT, UNIX_PREFIX "%s", name->sun_path);
        return;
    }
    serve_address_host(address, host);
    bool six = address->sa_family == AF_INET6;
    unsigned port = ntohs(six ? ((const struct sockaddr_in6 *)address)->sin6_port
                              : ((const struct sockaddr_in *)address)->sin_port);
    snprintf(out, SERVE_ADDRESS_TEXT, six ? "[%s]:%u" : "%s:%u", host, port);
}
