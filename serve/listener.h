/* Listening sockets. */
#ifndef GS_SERVE_LISTENER_H
#define GS_SERVE_LISTENER_H

#include "serve/address.h"
#include "serve/options.h"

/* How an address is shared by the listening sockets of several workers (SO_REUSEPORT). */
enum serve_sharing {
    SERVE_ALONE,
    SERVE_FIRST, /* nobody may listen there yet, another server least of all; then others can join */
    SERVE_JOIN,
};

/* What the kernel takes of a connection beyond what is on its way to the peer: enough to keep a fast
 * peer busy until our next turn. Without it, each peer that does not read holds megabytes. */
#define SERVE_UNSENT_MOST (32 << 10)

/* A non-blocking socket that listens at the address. *address gets the port that was taken if it names port 0. Returns the
 * descriptor or -errno. */
GS_MUST_CHECK int serve_listen(struct serve_address *address, const struct serve_options *options,
                               enum serve_sharing sharing);

#endif
