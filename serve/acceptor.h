/* Accepting on a loop, whatever the kernel answers.
 *
 * When the listener is reported ready, connections are taken one by one, each with its place. By completions the kernel accepts by
 * itself, ahead of us, as long as there are places for more than could come meanwhile. */
#ifndef GS_SERVE_ACCEPTOR_H
#define GS_SERVE_ACCEPTOR_H

#include "serve/places.h"

#include <sys/socket.h>

/* A new connection: fd, non-blocking, is the callee's, and so is a place, to be left when it ends. address: the peer's if it was asked for, or NULL. */
typedef void serve_accepted_fn(void *data, int fd, const struct sockaddr *address);

/* In the caller's storage; the members are private. */
struct serve_acceptor {
    struct gs_io io;   /* reports that the listener is ready */
    struct gs_op each; /* or accepts */
    struct gs_timer pause;
    struct serve_places *places;
    struct serve_waiter waiter;
    serve_accepted_fn *accepted;
    void *data;
    uint64_t said_ns; /* when a lack of descriptors or memory was last reported */
    bool wants_address;
    bool is_ceasing, is_over;
    unsigned most;       /* in one turn of the loop; may be set before the start, and so may */
    bool by_completions; /* use them; the acceptor stays until serve_acceptor_is_quiet */
};

/* places: borrowed. While none is free, new connections stay in the accept queue. */
void serve_acceptor_init(struct serve_acceptor *acceptor, struct gs_loop *loop,
                         struct serve_places *places, serve_accepted_fn *accepted, void *data);

/* fd: listening, non-blocking, the caller's. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_acceptor_start(struct serve_acceptor *acceptor, int fd, bool wants_address);
void serve_acceptor_stop(struct serve_acceptor *acceptor);

/* By completions: have the kernel end its accepting. Within an iteration or two it has told of all whom it had accepted, and is quiet;
 * then serve_acceptor_take and serve_acceptor_stop may follow. Whom it tells of after the latter is closed. */
void serve_acceptor_cease(struct serve_acceptor *acceptor);
bool serve_acceptor_is_quiet(const struct serve_acceptor *acceptor);

/* Accept what is in the queue now, up to `most`. Returns how many were accepted. */
unsigned serve_acceptor_take(struct serve_acceptor *acceptor, unsigned most);

/* ---- What an error of accept means, in every architecture ---- */

/* Go on after it: the connection is gone, or the network had something to tell about it. Otherwise the kernel lacks something,
 * and trying at once again would spin. */
bool serve_accept_concerns_one(int err);
#define SERVE_ACCEPT_PAUSE_NS (100 * GS_MILLISECOND)

/* Say so, now and then; *said_ns begins with 0. */
void serve_accept_complain(uint64_t *said_ns, int err, uint64_t now_ns);

#endif
