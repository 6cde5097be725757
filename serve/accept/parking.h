/* Connections that wait without a thread of their own: one kernel thread watches all of them, and
 * hands each on once there is something to do for it. */
#ifndef GS_SERVE_PARKING_H
#define GS_SERVE_PARKING_H

#include "serve/connection/blocking.h"

#include <gossamer/list.h>

struct serve_parked {
    struct gs_list link;
    struct serve_blocking *blocking;
    uint64_t deadline_ns;
    bool is_registered;
};

/* Called in the thread that watches: the connection is not parked any more. events: for
 * serve_blocking_ready, which must be called before the connection's next step. */
typedef void serve_unparked_fn(void *data, struct serve_parked *parked, unsigned events);

/* In the caller's storage; the members are private. */
struct serve_parking {
    struct serve_admission *admission;
    serve_unparked_fn *unparked;
    void *data;
    int epoll_fd;
    int wake_fd; /* an eventfd: the earliest deadline has become earlier, or parking ends */
    pthread_mutex_t lock;
    struct gs_list parked;
    uint64_t earliest_ns; /* no deadline is before */
    bool is_finished;
    pthread_t thread;
};

/* Start the thread. When the server drains, all are handed on. Returns 0 or -errno. */
GS_MUST_CHECK int serve_parking_start(struct serve_parking *parking,
                                      struct serve_admission *admission,
                                      serve_unparked_fn *unparked, void *data);

/* End the thread, when no connection is parked. */
void serve_parking_stop(struct serve_parking *parking);

void serve_parked_init(struct serve_parked *parked, struct serve_blocking *blocking);

/* Have a connection wait for its events and deadline; it may be handed on before this returns. Any
 * kernel thread. Returns 0, or -errno: then it is still the caller's. */
GS_MUST_CHECK int serve_park(struct serve_parking *parking, struct serve_parked *parked);

#endif
