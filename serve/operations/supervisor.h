/* The supervisor: the process that was started with --supervise. It serves nothing itself, but
 * starts the server as another process, a generation, and keeps its listeners, so that the next
 * generation takes them and no client notices the change.
 *
 *     SIGHUP   --> start a generation --> ready: the one before drains
 *     SIGUSR2  --> the same, of the program as it is now on disk, which then replaces this one, too
 *                      `-> it fails: the one before goes on serving
 *     a generation crashes --> another is started, after 1 s, or up to 30 s if that goes on
 *     SIGTERM  --> all generations drain --> end
 *
 * It reads no configuration: the options and the certificates are the generation's business, and
 * so are its addresses. What a generation listens at, it tells the supervisor when it is ready
 * (generation.h). */
#ifndef GS_SERVE_SUPERVISOR_H
#define GS_SERVE_SUPERVISOR_H

#include "serve/operations/options.h"

/* The environment before the options were parsed, for the generations: copied, the strings are
 * borrowed. Returns NULL if there is no memory. */
char **serve_supervisor_environment(void);

/* Supervise until the server has ended. Returns the exit status of the program. */
GS_MUST_CHECK int serve_supervise(const struct serve_options *options, char **environment);

/* Whether the process supervised before it executed this program. */
bool serve_supervisor_is_resumed(void);
GS_MUST_CHECK int serve_supervisor_resume(char **environment);

#endif
