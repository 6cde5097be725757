/* Where to listen, as words: "127.0.0.1:8080", "[::1]:8080", "*:8080", "name:8080", "8080",
 * "unix:/run/gossamer.socket"; each may have "https://" before it, for TLS, or "http://". */
#ifndef GS_SERVE_ADDRESS_H
#define GS_SERVE_ADDRESS_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct serve_address {
    struct sockaddr_storage storage;
    socklen_t length;
    bool is_tls;
    int file_fd; /* the file of a Unix socket (serve/accept/unix_socket.h); -1: it is not bound */

    int owner;          /* of its inherited sockets (serve/accept/inherited.h) */
    unsigned inherited; /* how many there are; 0: it has its own */
    bool is_activated;  /* they are a service manager's */
    unsigned repeated;  /* how often it has been in the list of addresses before */
};

/* "[::]:80" and "*:80" are every address of IPv6 or of IPv4, and so is "80" of IPv4. Returns 0, or
 * -EINVAL and what is wrong, as a phrase. */
GS_MUST_CHECK int serve_address_parse(const char *word, struct serve_address *ret_address,
                                      const char **ret_problem);

/* Returns its port; 0: it has none. */
uint16_t serve_address_port(const struct serve_address *address);

/* The longest is "unix:" and the path of a socket. */
#define SERVE_ADDRESS_TEXT 128

/* The host alone, "unix:" for a Unix socket; or the host and port, an IPv6 host in brackets, or
 * "unix:" and the path. */
void serve_address_host(const struct sockaddr *address, char out[SERVE_ADDRESS_TEXT]);
void serve_address_format(const struct sockaddr *address, char out[SERVE_ADDRESS_TEXT]);

#endif
