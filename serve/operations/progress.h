/* Whether the workers make progress: none is stuck while clients wait for it. */
#ifndef GS_SERVE_PROGRESS_H
#define GS_SERVE_PROGRESS_H

#include "serve/operations/server.h"

#include <gossamer/loop.h>

/* In the caller's storage; the members are private. */
struct serve_progress {
    struct serve_server *server;
    struct gs_timer timer;
    uint64_t *seen; /* of each listener set, what its workers had counted */
};

/* Tell the service manager regularly on this loop that the server works (WATCHDOG=1), unless a
 * worker has counted nothing since the last time, while a connection is in its accept queue. If
 * that is not expected, nothing is done. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int serve_progress_start(struct serve_progress *progress, struct serve_server *server,
                                       struct gs_loop *loop);

/* Before its loop is freed; or zeroed. */
void serve_progress_stop(struct serve_progress *progress);

/* One look. Returns whether there is progress since the last one. */
bool serve_progress_look(struct serve_progress *progress);

#endif
