/* Request targets (RFC 9112, 3.2) and the paths in them.
 *
 *     struct gs_http_target target;
 *     char path[256];
 *     unsigned flags;
 *     if (gs_http_target_split(GS_HTTP_TEXT("/a/%62/../c.html?x"), &target))
 *         length = gs_http_path_normalise(target.path, path, sizeof path, &flags);
 *     "a/c.html", 8 bytes, no flags
 */
#ifndef GS_HTTP_TARGET_H
#define GS_HTTP_TARGET_H

#include "http/text.h"

#include <gossamer/api.h>
#include <sys/types.h>

enum gs_http_target_form {
    GS_HTTP_TARGET_ORIGIN,    /* /path?query                              */
    GS_HTTP_TARGET_ABSOLUTE,  /* http://authority/path?query, or https:// */
    GS_HTTP_TARGET_ASTERISK,  /* *                                        */
    GS_HTTP_TARGET_AUTHORITY, /* host:port, for CONNECT                   */
};

/* Parts that the form does not have are absent. The query excludes its '?'. The path of an absolute
 * form without one is "/". */
struct gs_http_target {
    enum gs_http_target_form form;
    bool is_secure; /* an absolute form with https */
    struct gs_http_text authority, path, query;
};

/* Split a target into its parts, which point into it. The caller has checked that it consists of
 * GS_HTTP_TARGET characters and UTF-8. Returns false if it has none of the four forms, or an
 * authority that is not a valid host. */
GS_MUST_CHECK bool gs_http_target_split(struct gs_http_text target,
                                        struct gs_http_target *ret_target);

enum {
    GS_HTTP_PATH_DIRECTORY = 1, /* is the root, or ended with a slash or a dot segment */
    GS_HTTP_PATH_HIDDEN = 2,    /* a name, except an initial .well-known, begins with a dot */
};

/* Convert the path of a target to a path below the root, for openat(): escapes are decoded, once;
 * repeated slashes are merged; "." and ".." are resolved, also if they were escaped; there is no
 * slash at either end; it is terminated by NUL. "" is the root. It is never longer than the given
 * path.
 *
 * out has room for size bytes, which must suffice for the path before ".." is resolved, and the
 * NUL. Returns the length; -ENAMETOOLONG if out is too small; -EINVAL for a path without a leading
 * slash or above the root, a malformed escape, an escaped slash, a backslash (an ordinary byte of a
 * name here, but a separator for other programs that may see the path), or a control character. On
 * failure the contents of out are undefined. */
GS_MUST_CHECK ssize_t gs_http_path_normalise(struct gs_http_text path, char *out, size_t size,
                                             unsigned *ret_flags);

#endif
