/* Accepting on a loop, whatever the kernel answers. */
#ifndef GS_SERVE_ACCEPTOR_H
#define GS_SERVE_ACCEPTOR_H

#include <gossamer/loop.h>
#include <sys/socket.h>

/* A new connection: fd, non-blocking, is the callee's. address: the peer's if it was asked for, or NULL. */
typedef void serve_accepted_fn(void *data, int fd, const struct sockaddr *address);

/* In the caller's storage; the members are private. */
struct serve_acceptor {
    struct gs_io io;
    struct gs_timer pause;
    serve_accepted_fn *accepted;
    void *data;
    uint64_t said_ns; /* when a lack of descriptors or memory was last reported */
    bool wants_address;
    bool held;
};

void serve_acceptor_init(struct serve_acceptor *acceptor, struct gs_loop *loop,
                         serve_accepted_fn *accepted, void *data);

/* fd: listening, non-blocking, the caller's. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_acceptor_start(struct serve_acceptor *acceptor, int fd, bool wants_address);
void serve_acceptor_stop(struct serve_acceptor *acceptor);

/* Leave new connections in the accept queue, or take them again. */
void serve_acceptor_hold(struct serve_acceptor *acceptor, bool held);

/* Accept what is in the queue now, up to `most`. Returns how many were accepted. */
unsigned serve_acceptor_take(struct serve_acceptor *acceptor, unsigned most);

#endif
