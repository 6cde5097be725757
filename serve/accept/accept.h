/* An accepted connection, and what an error of accept means: what all architectures share. */
#ifndef GS_SERVE_ACCEPT_H
#define GS_SERVE_ACCEPT_H

#include <gossamer/clock.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct serve_accepted {
    int fd; /* non-blocking */
    bool is_tls;
    bool has_address;
    struct sockaddr_storage address; /* the peer's, if it is logged */
};

/* Close a connection that was accepted, but can't be served. */
void serve_refuse_accepted(int fd);

/* What to do after accept has failed. */
enum serve_accept_action {
    SERVE_ACCEPT_AGAIN, /* at once: the error is about one connection, or the network's */
    SERVE_ACCEPT_WAIT,  /* for a connection */
    SERVE_ACCEPT_PAUSE, /* for SERVE_ACCEPT_PAUSE_NS: descriptors or memory are exhausted */
};

#define SERVE_ACCEPT_PAUSE_NS (100 * GS_MILLISECOND)

/* err: -errno of accept; -ETIMEDOUT is like -EAGAIN. A pause is reported on stderr, at most every
 * 10 s; *warned_ns is when it last was, at first 0. */
enum serve_accept_action serve_accept_failed(int err, uint64_t *warned_ns, uint64_t now_ns);

/* Whether a connection waits in the accept queue of a listener now. */
bool serve_is_connection_pending(int listener);

/* Returns how many connections wait in the accept queue of a listener now, or the most that may
 * wait where the kernel does not tell (Unix sockets). When the server drains, so many are accepted,
 * but not those that come later. */
uint64_t serve_accept_queue_length(int listener, uint64_t backlog);

/* Report on stderr, at most every 10 s, that connections wait because of err, which is -errno.
 * *warned_ns is when this was last reported, at first 0. */
void serve_warn_waiting(const char *problem, int err, uint64_t *warned_ns, uint64_t now_ns);

#endif
