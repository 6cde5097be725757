/* Listening sockets that a supervisor keeps for its generations. */
#ifndef GS_SERVE_KEPT_SOCKETS_H
#define GS_SERVE_KEPT_SOCKETS_H

#include <gossamer/api.h>

struct serve_kept_socket {
    int fd;
    char *name; /* NULL: it was bound by a generation */
};

/* Initially zero. */
struct serve_kept_sockets {
    struct serve_kept_socket *items;
    unsigned count;
};

/* Returns 0 or -ENOMEM; takes fd, and closes it if it fails. */
GS_MUST_CHECK int serve_kept_sockets_add(struct serve_kept_sockets *sockets, int fd,
                                         const char *name);

void serve_kept_sockets_close(struct serve_kept_sockets *sockets);

#endif
