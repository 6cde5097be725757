/* Event loops on the poller that the command line asks for. */
#ifndef GS_SERVE_LOOPS_H
#define GS_SERVE_LOOPS_H

#include <gossamer/loop.h>

struct serve_server;

/* is_first: of all loops of the server, the one for which it is said if the kernel has no such poller. Returns 0 or -errno. */
GS_MUST_CHECK int serve_loop_new(const struct serve_server *server, bool is_first,
                                 struct gs_loop **ret_loop);

/* Whether its poller knows no edges. */
bool serve_loop_is_by_level(const struct gs_loop *loop);

#endif
