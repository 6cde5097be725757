#include "base/resolution.h"

#include "base/hosts_file.h"

#include <errno.h>
#include <gossamer/error.h>
#include <stdlib.h>
#include <string.h>

/* Without hints, getaddrinfo uses these. */
static const struct addrinfo default_hints = {.ai_flags = AI_V4MAPPED | AI_ADDRCONFIG};

struct resolution *gs_resolution_new(const char *node, const char *service,
                                     const struct addrinfo *hints)
{
    size_t node_size = node ? strlen(node) + 1 : 0,
           service_size = service ? strlen(service) + 1 : 0;
    struct resolution *resolution = malloc(sizeof *resolution + node_size + service_size);
    if (!resolution)
        return NULL;
    *resolution = (struct resolution){.hints = hints ? *hints : default_hints};
    if (node)
        resolution->node = memcpy(resolution->text, node, node_size);
    if (service)
        resolution->service = memcpy(resolution->text + node_size, service, service_size);
    return resolution;
}

/* ---- Arguments ---- */

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

bool gs_resolution_is_same(const struct resolution *a, const struct resolution *b)
{
    return is_same_text(a->node, b->node) && is_same_text(a->service, b->service) &&
           a->hints.ai_flags == b->hints.ai_flags && a->hints.ai_family == b->hints.ai_family &&
           a->hints.ai_socktype == b->hints.ai_socktype &&
           a->hints.ai_protocol == b->hints.ai_protocol;
}

/* Few names begin with a digit. */
static bool may_be_numeric(const char *node)
{
    return (*node >= '0' && *node <= '9') || strchr(node, ':');
}

static bool is_number(const char *service)
{
    return !service || (*service && !service[strspn(service, "0123456789")]);
}

bool gs_resolution_run_here(struct resolution *resolution)
{
    int flags = resolution->hints.ai_flags;
    bool is_numeric = !resolution->node || flags & AI_NUMERICHOST;
    if (!is_number(resolution->service) || !(is_numeric || may_be_numeric(resolution->node)))
        return false;
    resolution->hints.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
    gs_resolution_run(resolution);
    resolution->hints.ai_flags = flags;
    for (struct addrinfo *at = resolution->addresses; at; at = at->ai_next)
        at->ai_flags = flags;
    return is_numeric || resolution->result != EAI_NONAME;
}

static bool is_numeric(const char *node)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST};
    struct addrinfo *addresses;
    if (!may_be_numeric(node) || getaddrinfo(node, NULL, &hints, &addresses))
        return false;
    freeaddrinfo(addresses);
    return true;
}

enum job_kind gs_resolution_kind(struct resolution *resolution)
{
    const char *node = resolution->node;
    if (!node || is_numeric(node))
        return JOB_LOCAL_NAME;
    enum hosts_entry entry = gs_hosts_file_find(node, resolution->hints.ai_family);
    resolution->is_in_no_file = entry == HOSTS_ABSENT;
    return entry == HOSTS_PRESENT ? JOB_LOCAL_NAME : JOB_NAME;
}

/* ---- The call ---- */

void gs_resolution_run(struct resolution *resolution)
{
    resolution->result = getaddrinfo(resolution->node, resolution->service, &resolution->hints,
                                     &resolution->addresses);
}

static int error_of(int result)
{
    switch (result) {
    case 0:
        return 0;
    case EAI_NONAME:
    case EAI_SERVICE:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return -GS_ENONAME;
    case EAI_AGAIN:
        return -GS_ENAMESERVER;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_BADFLAGS:
    case EAI_FAMILY:
    case EAI_SOCKTYPE:
        return -EINVAL;
    default:
        return -EIO;
    }
}

int gs_resolution_result(const struct resolution *resolution)
{
    return error_of(resolution->result);
}

int gs_resolution_take(struct resolution *resolution, struct addrinfo **ret_addresses)
{
    int err = gs_resolution_result(resolution);
    if (err)
        return err;
    *ret_addresses = resolution->addresses;
    resolution->addresses = NULL;
    return 0;
}

/* As getaddrinfo of glibc makes it: freeaddrinfo frees the name and the block with the address. */
static struct addrinfo *copy_address(const struct addrinfo *from)
{
    struct addrinfo *to = malloc(sizeof *to + from->ai_addrlen);
    if (!to)
        return NULL;
    *to = *from;
    to->ai_next = NULL;
    to->ai_addr = memcpy(to + 1, from->ai_addr, from->ai_addrlen);
    if (!from->ai_canonname || (to->ai_canonname = strdup(from->ai_canonname)))
        return to;
    free(to);
    return NULL;
}

int gs_resolution_copy(const struct resolution *resolution, struct addrinfo **ret_addresses)
{
    int err = gs_resolution_result(resolution);
    struct addrinfo *first = NULL, **place = &first;
    if (err)
        return err;
    for (const struct addrinfo *at = resolution->addresses; at; at = at->ai_next) {
        *place = copy_address(at);
        if (!*place) {
            if (first)
                freeaddrinfo(first);
            return -ENOMEM;
        }
        place = &(*place)->ai_next;
    }
    *ret_addresses = first;
    return 0;
}

void gs_resolution_free(struct resolution *resolution)
{
    if (resolution->addresses)
        freeaddrinfo(resolution->addresses);
    if (resolution->services)
        freeaddrinfo(resolution->services);
    free(resolution);
}
