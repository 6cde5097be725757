/* A host of the emulated network: a TUN device with an address of 198.18/15, the range reserved for
 * benchmarks (RFC 2544).
 *
 * The server's device is in the network namespace in which the program was started; each host's
 * device is in a namespace of its own. A namespace exists while its descriptor is open or it
 * contains a process, and a device exists while its descriptor is open, so nothing is left behind
 * however the program ends. */
#ifndef GS_BENCH_HOST_H
#define GS_BENCH_HOST_H

#include <netinet/in.h>

struct host {
    int tun_fd;        /* nonblocking; each read or write is one packet */
    int netns_fd;      /* network namespace */
    in_addr_t address; /* in network byte order */
};

/* Create the server's device. ret_net: number of a network of 254 addresses that no other relay
 * uses. Returns 0 or -errno: -EPERM without CAP_NET_ADMIN. */
int host_init_server(struct host *server, unsigned *ret_net);

/* Create the device of host `number`, 0 to 252, in a new namespace. Returns 0 or -errno: -EPERM
 * without CAP_NET_ADMIN or CAP_SYS_ADMIN. On failure the calling thread may be in the new
 * namespace. */
int host_init(struct host *host, const struct host *server, unsigned net, unsigned number);

void host_done(struct host *host);

#endif
