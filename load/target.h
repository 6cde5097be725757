/* The target of a run: the server's address, the source addresses, and the bytes of the request for
 * each URL. Read-only during the run.
 *
 * A client address has about 28,000 ephemeral ports for connections to one server, and each port
 * stays in TIME_WAIT for a minute after its connection was closed. Towards the loopback interface,
 * connections therefore rotate through many source addresses of 127/8. */
#ifndef GS_LOAD_TARGET_H
#define GS_LOAD_TARGET_H

#include "load/settings.h"
#include "load/url.h"

#include <stdint.h>
#include <sys/socket.h>

struct load_addresses {
    struct sockaddr_storage server;
    socklen_t length;
    uint32_t source_count; /* addresses to rotate through; 0: the kernel chooses */
};

struct load_request {
    char *bytes;
    size_t length;
    char *last_bytes; /* the same with "Connection: close", for a connection's last request */
    size_t last_length;
};

struct load_target {
    struct load_addresses addresses;
    size_t request_count;
    struct load_request *requests;
};

/* Returns 0 or, after printing a line to stderr, -EINVAL (invalid URLs), -EHOSTUNREACH (unknown
 * host) or -ENOMEM. */
GS_MUST_CHECK int gs_load_target_init(struct load_target *target,
                                      const struct load_settings *settings);
void gs_load_target_done(struct load_target *target);

/* source_count: number of source addresses to rotate through; 0: 64 towards 127/8, otherwise the
 * kernel's choice. If the name has several addresses, the first that accepts a connection is
 * chosen. Returns 0 or, after printing a line to stderr, -EINVAL (source addresses towards a server
 * outside 127/8) or -EHOSTUNREACH (unknown host). */
GS_MUST_CHECK int gs_load_addresses_resolve(const struct load_url *url, uint64_t source_count,
                                            struct load_addresses *ret_addresses);

/* Returns a nonblocking socket for the index-th connection, bound to the next source address, for
 * gs_sys_connect; or -errno. */
GS_MUST_CHECK int gs_load_addresses_open_socket(const struct load_addresses *addresses,
                                                uint64_t index);

#endif
