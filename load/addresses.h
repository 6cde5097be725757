/* Where connections go to and come from.
 *
 * A client's address has some 28,000 ports for connections to one server, and each port rests for a
 * minute after its connection was closed. Towards the loopback interface, connections come from
 * many addresses of 127/8 in turn, so that ports do not run out. */
#ifndef GS_LOAD_ADDRESSES_H
#define GS_LOAD_ADDRESSES_H

#include "load/url.h"

#include <stdint.h>
#include <sys/socket.h>

struct load_addresses {
    struct sockaddr_storage server;
    socklen_t length;
    uint32_t sources; /* that connections rotate through; 0: the kernel chooses */
};

/* sources: how many addresses to rotate through; 0: 64 towards 127/8, else the kernel's choice. If
 * the name has several addresses, the first that accepts a connection. Returns 0 or, after a line
 * on stderr, -EINVAL (sources towards an address outside of 127/8) or -EHOSTUNREACH (an unknown
 * host). */
GS_MUST_CHECK int gs_load_addresses_find(const struct load_url *url, uint64_t sources,
                                         struct load_addresses *ret_addresses);

/* A socket for the index-th connection, from the address that is its turn, which gs_sys_connect may
 * take to the server. Returns the descriptor or -errno. */
GS_MUST_CHECK int gs_load_addresses_socket(const struct load_addresses *addresses, uint64_t index);

#endif
