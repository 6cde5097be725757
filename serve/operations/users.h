/* The users who may request pages (basic authentication), from a file of htpasswd. */
#ifndef GS_SERVE_USERS_H
#define GS_SERVE_USERS_H

#include "http/users.h"

#include <gossamer/api.h>

/* Read the file, as the user who starts the server. Returns 0, or -errno after one line on stderr.
 */
GS_MUST_CHECK int serve_users_open(const char *file, struct gs_http_users **ret_users);

#endif
