#include "dns/answer.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* ---- The family ---- */

static bool is_loopback(const struct sockaddr *address)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    const struct in_addr *four = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    return address->sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(six)
                                          : four->s_addr == htonl(INADDR_LOOPBACK);
}

/* As getaddrinfo of glibc: it leaves no family out if the machine has neither. */
int gs_dns_family(const struct addrinfo *hints)
{
    struct ifaddrs *all;
    bool has_four = false, has_six = false;
    if (!(hints->ai_flags & AI_ADDRCONFIG) || getifaddrs(&all))
        return hints->ai_family;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
        bool is_usable = (family == AF_INET || family == AF_INET6) && !is_loopback(at->ifa_addr);
        has_four = has_four || (is_usable && family == AF_INET);
        has_six = has_six || (is_usable && family == AF_INET6);
    }
    freeifaddrs(all);
    if (hints->ai_family == AF_UNSPEC && has_four != has_six)
        return has_four ? AF_INET : AF_INET6;
    bool is_missing =
        hints->ai_family == AF_INET ? !has_four : hints->ai_family == AF_INET6 && !has_six;
    return is_missing ? -1 : hints->ai_family;
}

/* ---- The result ---- */

/* As getaddrinfo returns it. */
static int result_of(int status)
{
    switch (status) {
    case ARES_SUCCESS:
        return 0;
    case ARES_ENODATA:
    case ARES_ENOTFOUND:
    case ARES_EBADNAME:
    case ARES_ENONAME:
        return EAI_NONAME;
    case ARES_ENOMEM:
        return EAI_MEMORY;
    case ARES_EFORMERR:
    case ARES_ESERVFAIL:
    case ARES_ENOTIMP:
    case ARES_EREFUSED:
    case ARES_EBADRESP:
    case ARES_ECONNREFUSED:
    case ARES_ETIMEOUT:
    case ARES_EDESTRUCTION:
        return EAI_AGAIN;
    default:
        return EAI_FAIL;
    }
}

/* In one block, as getaddrinfo of glibc makes it. */
static struct addrinfo *new_address(const struct ares_addrinfo_node *node,
                                    const struct addrinfo *service, int flags)
{
    struct addrinfo *address = malloc(sizeof *address + node->ai_addrlen);
    if (!address)
        return NULL;
    *address = (struct addrinfo){
        .ai_flags = flags,
        .ai_family = node->ai_family,
        .ai_socktype = service->ai_socktype,
        .ai_protocol = service->ai_protocol,
        .ai_addrlen = node->ai_addrlen,
    };
    address->ai_addr = memcpy(address + 1, node->ai_addr, node->ai_addrlen);
    in_port_t port = ((const struct sockaddr_in *)(const void *)service->ai_addr)->sin_port;
    if (node->ai_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)address->ai_addr)->sin6_port = port;
    else
        ((struct sockaddr_in *)(void *)address->ai_addr)->sin_port = port;
    return address;
}

/* Each address with each service. Returns false if there is no memory. */
static bool add_addresses(struct resolution *resolution, const struct ares_addrinfo *found)
{
    struct addrinfo **place = &resolution->addresses;
    for (const struct ares_addrinfo_node *node = found->nodes; node; node = node->ai_next)
        for (const struct addrinfo *service = resolution->services; service;
             service = service->ai_next) {
            *place = new_address(node, service, resolution->hints.ai_flags);
            if (!*place)
                return false;
            place = &(*place)->ai_next;
        }
    return true;
}

/* The name at the end of the chain of aliases. */
static bool add_canonical_name(struct resolution *resolution, const struct ares_addrinfo *found)
{
    const char *name = found->name ? found->name : resolution->node;
    for (const struct ares_addrinfo_cname *alias = found->cnames; alias; alias = alias->next)
        name = alias->name ? alias->name : name;
    return (resolution->addresses->ai_canonname = strdup(name));
}

static bool add_all(struct resolution *resolution, const struct ares_addrinfo *found)
{
    if (!add_addresses(resolution, found))
        return false;
    return !(resolution->hints.ai_flags & AI_CANONNAME) || add_canonical_name(resolution, found);
}

void gs_dns_set_result(struct resolution *resolution, int status, const struct ares_addrinfo *found)
{
    resolution->result = result_of(status);
    if (!resolution->result && !found->nodes)
        resolution->result = EAI_NONAME;
    if (resolution->result || add_all(resolution, found))
        return;
    resolution->result = EAI_MEMORY;
    if (resolution->addresses)
        freeaddrinfo(resolution->addresses);
    resolution->addresses = NULL;
}
