/* Dropping privileges. */
#ifndef GS_SERVE_PRIVILEGES_H
#define GS_SERVE_PRIVILEGES_H

#include <gossamer/api.h>
#include <stdbool.h>

/* Become this user permanently, in all of the process, with the user's groups; without a user, only
 * be in this group. group: NULL: the user's own. Returns 0, or -errno after one line on stderr. */
GS_MUST_CHECK int serve_drop_privileges(const char *user, const char *group);

/* Drop the capabilities that serving files does not need: root keeps those to read and append to
 * files of others. New ones can't be gained. has_secrets: neither core dumps nor other programs of
 * the same user see the memory. */
void serve_contain_privileges(bool has_secrets);

#endif
