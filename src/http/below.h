/* The place of an open file below a directory. */
#ifndef GS_HTTP_BELOW_H
#define GS_HTTP_BELOW_H

#include <gossamer/api.h>

/* Get a path that leads from the directory to the file, without symbolic links and "..", as of now:
 * to open it, use RESOLVE_BENEATH. `rest` is appended, after a slash if it is not empty. The caller
 * frees the path. Returns 0, -EXDEV if the file is not below the directory or that is unknown, or
 * -ENOMEM. */
GS_MUST_CHECK int gs_http_path_below(int root_fd, int fd, const char *rest, char **ret_path);

#endif
