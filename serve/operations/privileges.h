/* Dropping root privileges. */
#ifndef GS_SERVE_PRIVILEGES_H
#define GS_SERVE_PRIVILEGES_H

#include <gossamer/api.h>

/* Become this user permanently, with the user's groups, in all of the process. Returns 0, or -errno
 * after one line on stderr. */
GS_MUST_CHECK int serve_drop_privileges(const char *user);

#endif
