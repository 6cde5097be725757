/* Accepting in a user-level thread, one for each listener.
 *
 *     acquire a slot --> accept --> accepted(fd)      until it is cancelled
 *                          | error
 *                          v
 *                        again, wait for a connection, or pause */
#ifndef GS_SERVE_ACCEPT_THREAD_H
#define GS_SERVE_ACCEPT_THREAD_H

#include "serve/accept/accept.h"
#include "serve/operations/options.h"

#include <gossamer/sync.h>

/* A new connection: its descriptor is the callee's, and so is a slot, to be posted when it ends.
 * Returns 0, or -errno: then both stay the caller's. */
typedef int serve_accept_thread_fn(void *data, const struct serve_accepted *accepted);

/* In the caller's storage. */
struct serve_accept_thread {
    int listener; /* non-blocking, the caller's */
    bool wants_address, is_tls;
    enum serve_priority priority;
    struct gs_semaphore *slots; /* while none is free, connections stay in the accept queue */
    serve_accept_thread_fn *accepted;
    void (*make_room)(void *data); /* called while a client waits for a slot; NULL: none is made */
    void *data;
    uint64_t pending; /* the caller's, to note how many wait in the end */

    struct gs_thread *thread; /* from here on private */
    uint64_t warned_ns;       /* when exhaustion was last reported */
};

/* Start the thread. Returns 0 or -errno. */
GS_MUST_CHECK int serve_accept_thread_start(struct serve_accept_thread *acceptor);

/* End the thread, and accept connections that are pending, `max` at most; until until_ns, those for
 * which there is no slot wait for one. */
void serve_accept_thread_finish(struct serve_accept_thread *acceptor, uint64_t max,
                                uint64_t until_ns);

#endif
