/* Accepting on a loop, at one listener: by readiness (acceptor.c), or by completions
 * (acceptor_ring.c), where the kernel accepts ahead of us as long as there are slots for more
 * connections than could come meanwhile.
 *
 *     acquire a slot --> accept --> accepted(fd)      until the accept queue is empty
 *        | none free      | error
 *        v                v
 *     make room,       again, or a pause if descriptors or memory are exhausted
 *     or wait for one */
#ifndef GS_SERVE_ACCEPTOR_H
#define GS_SERVE_ACCEPTOR_H

#include "serve/accept/accept.h"
#include "serve/accept/slots.h"

/* A new connection: its descriptor is the callee's, and so is a slot, to be released when it
 * ends. */
typedef void serve_accepted_fn(void *data, const struct serve_accepted *accepted);

/* In the caller's storage; the members are private. */
struct serve_acceptor {
    struct gs_io io;        /* reports that the listener is ready */
    struct gs_op multishot; /* or accepts */
    struct gs_timer pause;
    struct serve_slots *slots;
    struct serve_slot_waiter waiter;
    serve_accepted_fn *accepted;
    void (*make_room)(void *data); /* NULL: connections are not closed for others */
    void *data;
    uint64_t warned_ns; /* when exhaustion was last reported */
    bool wants_address;
    bool is_tls; /* of its connections; may be set before the start */
    bool is_canceled, is_stopped;
    bool waits_for_slot; /* and tries again after the pause */
    int extra_below;     /* while descriptors are less than this, no free slot is needed */
    unsigned max_batch;  /* in one iteration of the loop; may be set before the start, and so may */
    bool by_completions; /* then the acceptor must stay until serve_acceptor_is_idle */
};

/* slots: borrowed. While none is free, new connections stay in the accept queue. */
void serve_acceptor_init(struct serve_acceptor *acceptor, struct gs_loop *loop,
                         struct serve_slots *slots, serve_accepted_fn *accepted, void *data);

/* fd: listening, non-blocking, the caller's. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_acceptor_start(struct serve_acceptor *acceptor, int fd, bool wants_address);
void serve_acceptor_stop(struct serve_acceptor *acceptor);

/* By completions: have the kernel cease to accept. Within an iteration or two all connections that
 * it had accepted have been handed over, and the acceptor is idle; then serve_acceptor_take and
 * serve_acceptor_stop may follow. What it hands over after the stop is closed. */
void serve_acceptor_cancel(struct serve_acceptor *acceptor);
bool serve_acceptor_is_idle(const struct serve_acceptor *acceptor);

/* Accept what is in the queue now, up to `max`. Returns how many were accepted. */
unsigned serve_acceptor_take(struct serve_acceptor *acceptor, unsigned max);

/* The same when the server drains, also without free slots; then up to half of the descriptors that
 * the process may have. */
void serve_acceptor_take_all(struct serve_acceptor *acceptor, unsigned max);

/* ---- Between acceptor.c and acceptor_ring.c ---- */

/* Accept by whatever means fits now; if that fails, after a pause. */
void serve_acceptor_resume(struct serve_acceptor *acceptor);
void serve_acceptor_pause(struct serve_acceptor *acceptor);

void serve_acceptor_init_ring(struct serve_acceptor *acceptor, struct gs_loop *loop);

/* Whether the kernel may accept ahead. */
bool serve_acceptor_may_accept_ahead(const struct serve_acceptor *acceptor);
GS_MUST_CHECK int serve_acceptor_start_ring(struct serve_acceptor *acceptor);

#endif
