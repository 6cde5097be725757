/* Event loops on the poller that the command line asks for, and what architectures do on them. */
#ifndef GS_SERVE_LOOPS_H
#define GS_SERVE_LOOPS_H

#include "serve/connection/connection.h"

#include <gossamer/loop.h>

struct serve_server;

/* is_first: of all loops of the server, the one that reports if the kernel has no such poller.
 * Returns 0 or -errno. */
GS_MUST_CHECK int serve_loop_new(struct serve_server *server, bool is_first,
                                 struct gs_loop **ret_loop);

/* Note the poller for the metrics, and report it if it is not the one that was asked for. */
void serve_report_poller(struct serve_server *server, const char *poller);

/* Whether its poller has no edge-triggered mode. */
bool serve_loop_is_level_triggered(const struct gs_loop *loop);

/* Whether this poller's loops, and threads that wait on them, carry out requests to the kernel
 * instead of being told what is ready. */
bool serve_poller_has_completions(const char *poller);

/* Load a file in the loop's thread, which may block on the disk, or shut down the sending side, if
 * the connection wants that. Returns false if it does not. */
bool serve_load_or_shut_down(struct gs_loop *loop, struct serve_connection *connection);

/* Have the timer expire at the connection's deadline, or, if the kernel has no memory for it, when
 * that may be tried again; expiring earlier does no harm. Returns 0 or -ENOMEM. */
static inline int serve_watch_deadline(struct gs_timer *timer,
                                       const struct serve_connection *connection, bool send_nomem,
                                       uint64_t now_ns)
{
    uint64_t deadline_ns = gs_http_conn_deadline(&connection->http);
    if (send_nomem && deadline_ns > now_ns + SERVE_NOMEM_PAUSE_NS)
        deadline_ns = now_ns + SERVE_NOMEM_PAUSE_NS;
    if (deadline_ns == GS_NEVER || (timer->watcher.active && timer->deadline_ns <= deadline_ns))
        return 0;
    return gs_timer_start(timer, deadline_ns);
}

#endif
