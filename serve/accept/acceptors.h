/* The acceptors of a worker: one for each address. */
#ifndef GS_SERVE_ACCEPTORS_H
#define GS_SERVE_ACCEPTORS_H

#include "serve/accept/acceptor.h"

struct serve_server;

struct serve_acceptors {
    struct serve_server *server;
    unsigned index; /* of the worker, and of its listener set */
    struct serve_acceptor *items;
};

struct serve_acceptors_options {
    struct gs_loop *loop;
    struct serve_slots *slots;
    serve_accepted_fn *accepted;
    void (*make_room)(void *data); /* see serve/accept/acceptor.h */
    void *data;
    bool by_completions;
};

/* Ended by serve_acceptors_done also if it fails. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_acceptors_init(struct serve_acceptors *acceptors,
                                       struct serve_server *server, unsigned index,
                                       const struct serve_acceptors_options *options);

/* All of them. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_acceptors_start(struct serve_acceptors *acceptors);
void serve_acceptors_cancel(struct serve_acceptors *acceptors);
bool serve_acceptors_are_idle(const struct serve_acceptors *acceptors);

/* Before their loop is freed. One that is all zero is accepted, here and in
 * serve_acceptors_done. */
void serve_acceptors_stop(struct serve_acceptors *acceptors);

/* The server drains: accept all that have connected, then stop, and close the listeners. */
void serve_acceptors_finish(struct serve_acceptors *acceptors);

/* After their loop was freed. */
void serve_acceptors_done(struct serve_acceptors *acceptors);

#endif
