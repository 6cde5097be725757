/* Sets of networks, as words: "192.0.2.0/24", "2001:db8::/32", an address alone, or "unix", which
 * is every Unix socket.
 *
 * An address of IPv4 that is mapped into IPv6 is the same as that address. */
#ifndef GS_SERVE_NETWORKS_H
#define GS_SERVE_NETWORKS_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* An address without its port; bytes beyond those of the family are zero. */
struct serve_host {
    uint8_t family; /* AF_INET, AF_INET6, AF_UNIX; AF_UNSPEC: it is not known */
    unsigned char bytes[16];
};

struct serve_network {
    struct serve_host host;
    unsigned bits; /* that an address has in common with it */
};

struct serve_networks {
    struct serve_network *items;
    size_t count;
};

/* Of a socket's address. */
struct serve_host serve_host_of(const struct sockaddr *address);

/* Parse an address of n bytes of text; it may have a port, and an IPv6 address brackets. Returns 0
 * or -EINVAL. */
GS_MUST_CHECK int serve_host_parse(const char *text, size_t n, struct serve_host *ret_host);

/* Add the network that the word names. Returns 0, -ENOMEM, or -EINVAL if it names none. */
GS_MUST_CHECK int serve_networks_add(struct serve_networks *networks, const char *word);

bool serve_networks_have(const struct serve_networks *networks, const struct serve_host *host);

void serve_networks_done(struct serve_networks *networks);

#endif
