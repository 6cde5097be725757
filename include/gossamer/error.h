/* Errors: what a negative result means.
 *
 *     int fd = gs_dial("www.example.org:80", deadline_ns);
 *     if (fd < 0)
 *         fprintf(stderr, "%s\n", gs_strerror(fd));
 *
 * Functions that can fail return a negative error number: one of errno(3), or one of these, for
 * what errno(3) has no number for. A program compares results with -ETIMEDOUT or -GS_ENONAME.
 *
 * Threads: gs_strerror may be called from any kernel thread, also while no user threads run.
 */
#ifndef GOSSAMER_ERROR_H
#define GOSSAMER_ERROR_H

#include <gossamer/api.h>

GS_BEGIN_DECLS

/* Names (gs_resolve, gs_dial, gs_op_resolve). Numbers of errno(3) are below 4096. */
#define GS_ENONAME 4096     /* there is no such name or service, or the name has no address */
#define GS_ENAMESERVER 4097 /* the name server does not answer, or cannot at the moment */

/* Returns the text for a result; its sign does not matter. Numbers of errno(3) have the text of
 * strerror(3), which may depend on the locale; if the number is unknown, a later call in the same
 * kernel thread may overwrite it. */
GS_API const char *gs_strerror(int result);

GS_END_DECLS

#endif
