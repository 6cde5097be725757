#include "base/resolution.h"

#include <errno.h>
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
        return -ENOENT;
    case EAI_AGAIN:
        return -EAGAIN;
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

int gs_resolution_take(struct resolution *resolution, struct addrinfo **ret_addresses)
{
    int err = error_of(resolution->result);
    if (!err) {
        *ret_addresses = resolution->addresses;
        resolution->addresses = NULL;
    }
    gs_resolution_free(resolution);
    return err;
}

void gs_resolution_free(struct resolution *resolution)
{
    if (resolution->addresses)
        freeaddrinfo(resolution->addresses);
    free(resolution);
}
