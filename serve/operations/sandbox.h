/* Containment of the server: what it needs no more, once it is about to serve, it can do no more.
 *
 * Landlock restricts which files can be opened, a filter which system calls can be made, and both
 * hold for all threads and processes of the server. docs/design/sandboxes.md tells what is left. */
#ifndef GS_SERVE_SANDBOX_H
#define GS_SERVE_SANDBOX_H

#include <gossamer/api.h>

struct serve_server;

/* Called when everything is open, privileges are dropped, and the process has one thread. What is
 * not available is reported as info, or with --sandbox on as an error. Returns 0, or -errno after
 * one line on stderr. */
GS_MUST_CHECK int serve_sandbox_enter(struct serve_server *server);

#endif
