/* A call of getaddrinfo, which may wait for a name server and cannot be interrupted. It has copies
 * of its arguments, so that it can be abandoned. */
#ifndef GS_BASE_RESOLUTION_H
#define GS_BASE_RESOLUTION_H

#include <netdb.h>

struct resolution {
    const char *node, *service; /* in `text`, or NULL */
    struct addrinfo hints, *addresses;
    int result;
    char text[];
};

/* Returns NULL if there is no memory. */
struct resolution *gs_resolution_new(const char *node, const char *service,
                                     const struct addrinfo *hints);

/* Make the call. */
void gs_resolution_run(struct resolution *resolution);

/* Get the outcome, free the resolution, and return 0, -ENOENT, -EAGAIN, -ENOMEM, -EINVAL or
 * -EIO. */
int gs_resolution_take(struct resolution *resolution, struct addrinfo **ret_addresses);

/* Free it and what it has found. */
void gs_resolution_free(struct resolution *resolution);

#endif
