/* The server's address, and the source addresses of connections to it.
 *
 * A client address has about 28,000 ephemeral ports for connections to one server, and each port
 * stays in TIME_WAIT for a minute after its connection was closed. Towards the loopback interface,
 * connections therefore rotate through many source addresses of 127/8. */
#ifndef GS_LOAD_ADDRESSES_H
#define GS_LOAD_ADDRESSES_H

#include "http/url.h"
#include "load/settings.h"

#include <stdint.h>
#include <sys/socket.h>

struct load_addresses {
    struct sockaddr_storage server;
    socklen_t length;
    uint32_t source_count; /* addresses to rotate through; 0: the kernel chooses */
};

/* If the name has several addresses, the one that is the first to accept a connection is chosen,
 * within three seconds, the timeout and the time to give up of the settings; if none does, the
 * first one that has not refused it, or else the first. Returns 0 or, after printing a line to
 * stderr, -EINVAL (source addresses towards a server outside 127/8) or -EHOSTUNREACH (unknown
 * host). */
GS_MUST_CHECK int gs_load_addresses_resolve(const struct gs_http_url *url,
                                            const struct load_settings *settings,
                                            struct load_addresses *ret_addresses);

/* Returns a nonblocking socket for the index-th connection, bound to the next source address, for
 * gs_sys_connect; or -errno. */
GS_MUST_CHECK int gs_load_addresses_open_socket(const struct load_addresses *addresses,
                                                uint64_t index);

#endif
