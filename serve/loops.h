/* Event loops on the poller that the command line asks for. */
#ifndef GS_SERVE_LOOPS_H
#define GS_SERVE_LOOPS_H

#include "serve/connection.h"

#include <gossamer/loop.h>

struct serve_server;

/* is_first: of all loops of the server, the one for which it is said if the kernel has no such poller. Returns 0 or -errno. */
GS_MUST_CHECK int serve_loop_new(const struct serve_server *server, bool is_first,
                                 struct gs_loop **ret_loop);

/* Say so if this is not the poller that was asked for. */
void serve_say_poller(const struct serve_server *server, const char *poller);

/* Whether its poller knows no edges. */
bool serve_loop_is_by_level(const struct gs_loop *loop);

/* Have the timer go off when the connection's deadline comes, or, if the kernel lacks memory for it, when that may be tried again;
 * that it goes off earlier does no harm. Returns 0 or -ENOMEM. */
static inline int serve_watch_deadline(struct gs_timer *timer,
                                       const struct serve_connection *connection, bool lacks,
                                       uint64_t now_ns)
{
    uint64_t deadline_ns = gs_http_conn_deadline(&connection->http);
    if (lacks && deadline_ns > now_ns + SERVE_LACK_PAUSE_NS)
        deadline_ns = now_ns + SERVE_LACK_PAUSE_NS;
    if (deadline_ns == GS_NEVER || (timer->watcher.active && timer->deadline_ns <= deadline_ns))
        return 0;
    return gs_timer_start(timer, deadline_ns);
}

#endif
