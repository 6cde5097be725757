/* A call of getaddrinfo, which may wait for a name server and cannot be interrupted. It has copies
 * of its arguments, so that it can be abandoned. A resolver on an event loop (dns/dns.h) may give
 * the result in place of getaddrinfo. */
#ifndef GS_BASE_RESOLUTION_H
#define GS_BASE_RESOLUTION_H

#include "base/pool.h"

#include <netdb.h>

struct resolution {
    const char *node, *service; /* in `text`, or NULL */
    struct addrinfo hints, *addresses;
    struct addrinfo *services; /* for a resolver: the service with each type of socket; or NULL */
    int result;                /* as getaddrinfo returns it */
    bool is_in_no_file;        /* the hosts file was read, and lacks the name */
    char text[];
};

/* Returns NULL if there is no memory. */
struct resolution *gs_resolution_new(const char *node, const char *service,
                                     const struct addrinfo *hints);

/* Whether the arguments are the same. */
bool gs_resolution_is_same(const struct resolution *a, const struct resolution *b);

/* Make the call here if that needs no name server and no file: with a numeric address, or none, and
 * the number of a port. Returns whether it was made. */
bool gs_resolution_run_here(struct resolution *resolution);

/* Which kernel threads should make the call: those for names that this machine knows, or others.
 * Never waits; needs some 6 KiB of stack. */
enum job_kind gs_resolution_kind(struct resolution *resolution);

/* Make the call. */
void gs_resolution_run(struct resolution *resolution);

/* Returns 0, -GS_ENONAME, -GS_ENAMESERVER, -ENOMEM, -EINVAL or -EIO. */
int gs_resolution_result(const struct resolution *resolution);

/* Get what was found, or a copy of it, for freeaddrinfo. Both return the result of the call. The
 * copy may also fail with -ENOMEM. */
int gs_resolution_take(struct resolution *resolution, struct addrinfo **ret_addresses);
int gs_resolution_copy(const struct resolution *resolution, struct addrinfo **ret_addresses);

/* Free it and what it has found. */
void gs_resolution_free(struct resolution *resolution);

#endif
