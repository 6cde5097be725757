/* Accepting in a user-level thread, one for each listener, whatever the kernel answers. */
#ifndef GS_SERVE_ACCEPTING_H
#define GS_SERVE_ACCEPTING_H

#include "serve/options.h"

#include <gossamer/sync.h>
#include <sys/socket.h>

/* A new connection: fd, non-blocking, is the callee's, and so is a place, to be posted when it ends. address: the peer's if it was
 * asked for, or NULL. Returns 0, or -errno: then both stay the caller's. */
typedef int serve_arrived_fn(void *data, int fd, const struct sockaddr *address);

/* In the caller's storage. */
struct serve_accepting {
    int listener; /* non-blocking, the caller's */
    bool wants_address;
    enum serve_favor favor;
    unsigned worker; /* of user-level threads, to stay with, the first is 1; 0: any */
    struct gs_semaphore
        *places; /* for connections: without one, they are left in the accept queue */
    serve_arrived_fn *arrived;
    void *data;

    struct gs_thread *thread; /* from here on private */
    uint64_t said_ns;         /* when a lack of descriptors or memory was last reported */
};

/* Start the thread. Returns 0 or -errno. */
GS_MUST_CHECK int serve_accepting_start(struct serve_accepting *accepting);

/* End the thread, and take those who have connected by now. */
void serve_accepting_finish(struct serve_accepting *accepting);

#endif
