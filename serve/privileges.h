/* Giving up root. */
#ifndef GS_SERVE_PRIVILEGES_H
#define GS_SERVE_PRIVILEGES_H

#include <gossamer/api.h>

/* Become this user for good, with the user's groups, in all of the process. Returns 0, or -errno after one line on stderr. */
GS_MUST_CHECK int serve_become(const char *user);

#endif
