/* A place in the network: a TUN device with an address of 198.18/15, the network that is set apart for measurements.
 *
 * The server's is in the namespace that the program was started in, each host's in one of its own. Namespaces live as
 * long as their descriptors are open or a process is in them, devices as long as theirs: however the program ends,
 * nothing stays behind. */
#ifndef GS_BENCH_HOST_H
#define GS_BENCH_HOST_H

#include <netinet/in.h>

struct host {
    int tun;           /* packets, one a read or write; does not block */
    int space;         /* its network namespace */
    in_addr_t address; /* in network order */
};

/* The server's place; ret_net is the number of a network of 254 addresses that nobody else uses. Returns 0 or -errno:
 * -EPERM without CAP_NET_ADMIN. */
int host_init_server(struct host *server, unsigned *ret_net);

/* The place of host `number`, 0 to 252, in a namespace of its own. Returns 0 or -errno: -EPERM without
 * CAP_NET_ADMIN or CAP_SYS_ADMIN. A failure may leave the calling thread in the new namespace. */
int host_init(struct host *host, const struct host *server, unsigned net, unsigned number);

void host_done(struct host *host);

#endif
