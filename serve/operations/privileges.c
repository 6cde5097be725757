#include "serve/operations/privileges.h"

#include "serve/operations/options.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int serve_drop_privileges(const char *user)
{
    struct passwd *entry = getpwnam(user);
    if (!entry)
        return serve_options_refuse("--user %s: there is no such user", user);
    if (initgroups(user, entry->pw_gid) || setgid(entry->pw_gid) || setuid(entry->pw_uid)) {
        int err = -errno;
        fprintf(stderr, "%s: can't become user %s: %s\n", serve_command.name, user, strerror(-err));
        return err;
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return 0;
}
