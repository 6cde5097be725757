/* Listening sockets that another process has opened and passed on: a service manager
 * (sd_listen_fds(3)), or the supervisor, to the next generation of the server.
 *
 *     struct serve_inherited inherited;
 *     int err = serve_inherited_take(&inherited, &problem);
 *     ... serve_inherited_claim(&inherited, &address, owner), for each address
 *     serve_inherited_done(&inherited);
 *
 * LISTEN_FDS is how many there are, from descriptor 3 on; LISTEN_PID is the process that they are
 * meant for; LISTEN_FDNAMES are their names, separated by colons. */
#ifndef GS_SERVE_INHERITED_H
#define GS_SERVE_INHERITED_H

#include "serve/accept/address.h"

/* The name of a socket that an earlier generation has bound. */
#define SERVE_BOUND_NAME "gossamer-bound"

#define SERVE_INHERITED_FIRST 3
#define SERVE_INHERITED_MAX 8192

/* What a socket belongs to that no address has claimed. */
#define SERVE_UNCLAIMED (-1)

struct serve_inherited_socket {
    int fd;
    int owner; /* as serve_inherited_claim was told, or SERVE_UNCLAIMED */
    struct serve_address address;
    bool is_bound; /* by an earlier generation: it serves an address that the options name */
};

struct serve_inherited {
    struct serve_inherited_socket *items;
    unsigned count;
};

/* Take the sockets that the environment describes, and remove the description. They become
 * close-on-exec and non-blocking. There are none if the description is missing or meant for another
 * process. Returns 0; or -errno and what is wrong, as a sentence; then none is taken. */
GS_MUST_CHECK int serve_inherited_take(struct serve_inherited *ret_inherited,
                                       const char **ret_problem);

/* Close those that are left; zeroed, too. */
void serve_inherited_done(struct serve_inherited *inherited);

/* Have the owner, 0 or more, get all sockets of the first unclaimed address that is the given one,
 * whose port may be 0: any port. Returns how many there are; if any, *address is theirs. */
unsigned serve_inherited_claim(struct serve_inherited *inherited, struct serve_address *address,
                               int owner);

/* The n-th socket of an owner, which has more than n. */
int serve_inherited_socket(const struct serve_inherited *inherited, int owner, unsigned n);

#endif
