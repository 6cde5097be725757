/* Listening sockets. */
#ifndef GS_SERVE_LISTENER_H
#define GS_SERVE_LISTENER_H

#include "serve/accept/address.h"
#include "serve/operations/options.h"

/* How an address is shared by the listening sockets of several workers (SO_REUSEPORT). */
enum serve_socket_sharing {
    SERVE_ALONE,
    SERVE_FIRST, /* fails if any other socket listens there; then others can join */
    SERVE_JOIN,
};

/* Bytes that the kernel takes for a connection beyond what is in flight: enough to keep a fast
 * peer busy until the connection's next turn. Without it, each peer that does not read holds
 * megabytes. */
#define SERVE_UNSENT_MAX (32 << 10)

/* Create a non-blocking socket that listens at the address; *address gets the port if it names port
 * 0, and the identity of a Unix socket's file. Returns the descriptor or -errno. */
GS_MUST_CHECK int serve_listen(struct serve_address *address, const struct serve_options *options,
                               enum serve_socket_sharing sharing);

/* The same for another worker. `first` is the descriptor that serve_listen returned with
 * SERVE_FIRST: only one Unix socket can listen at an address, so that its descriptor is
 * duplicated, and workers compete for the connections. */
GS_MUST_CHECK int serve_listen_again(struct serve_address *address, int first,
                                     const struct serve_options *options);

/* Set the options of a socket that another process has opened, and that listens at this address.
 * Returns 0 or -errno. */
GS_MUST_CHECK int serve_listener_adopt(int fd, const struct sockaddr_storage *address,
                                       const struct serve_options *options);

#endif
