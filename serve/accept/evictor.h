/* Workers that are event loops close connections for each other: the worker that lacks a slot looks
 * at its own connections first; if none of them may be closed, it asks the next worker, which asks
 * the one after it. So one connection is closed.
 *
 *     serve_evictors_init(&evictors, count, evict);
 *     serve_evictor_init(&worker->evictor, &evictors, index, loop, worker);
 *     serve_evictor_publish(&worker->evictor);        once the worker can't be freed any more
 *     serve_evictor_make_room(&worker->evictor);      in the loop's thread, as .make_room */
#ifndef GS_SERVE_EVICTOR_H
#define GS_SERVE_EVICTOR_H

#include "serve/connection/connection.h"

#include <gossamer/loop.h>

/* Close a connection of the worker's, in its thread. Returns false if none may be closed. */
typedef bool serve_evict_fn(void *data);

/* Of all workers. */
struct serve_evictors {
    unsigned count;
    serve_evict_fn *evict;
    _Atomic(struct serve_evictor *) *items; /* NULL: not published */
};

/* Ended by serve_evictors_done also if it fails. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_evictors_init(struct serve_evictors *evictors, unsigned count,
                                      serve_evict_fn *evict);
void serve_evictors_done(struct serve_evictors *evictors);

/* In the caller's storage; the members are private. */
struct serve_evictor {
    struct gs_async async;
    atomic_uint left; /* how many workers to ask if this one closes none */
    struct serve_evictors *evictors;
    unsigned index;
    void *data;
};

/* data: of serve_evict_fn. */
void serve_evictor_init(struct serve_evictor *evictor, struct serve_evictors *evictors,
                        unsigned index, struct gs_loop *loop, void *data);
void serve_evictor_publish(struct serve_evictor *evictor);

/* In the worker's thread. */
void serve_evictor_make_room(struct serve_evictor *evictor);

/* The same, in any kernel thread. */
void serve_evictor_ask(struct serve_evictor *evictor);

#endif
