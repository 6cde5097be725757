#include "serve/operations/privileges.h"

#include "serve/operations/options.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(const char *what, const char *name, int err)
{
    fprintf(stderr, "%s: can't become %s %s: %s\n", serve_command.name, what, name, strerror(-err));
    return err;
}

static int become_group(const char *user, gid_t id)
{
    return (user ? initgroups(user, id) : setgroups(1, &id)) || setgid(id) ? -errno : 0;
}

int serve_drop_privileges(const char *user, const char *group)
{
    struct passwd *owner = user ? getpwnam(user) : NULL;
    struct group *members = group ? getgrnam(group) : NULL;
    if (user && !owner)
        return serve_options_refuse("--user %s: there is no such user", user);
    if (group && !members)
        return serve_options_refuse("--group %s: there is no such group", group);
    if (!owner && !members)
        return 0;
    int err = become_group(user, members ? members->gr_gid : owner->pw_gid);
    if (err)
        return fail(user ? "user" : "group", user ? user : group, err);
    if (owner && setuid(owner->pw_uid))
        return fail("user", user, -errno);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return 0;
}

/* Without the ambient ones, which systemd gives, an executed program would have none. */
void serve_contain_privileges(bool has_secrets)
{
    static const unsigned kept = 1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (unsigned i = 0; !prctl(PR_CAPBSET_DROP, i, 0, 0, 0); i++)
        ;
    if (!geteuid() && !gs_syscall(SYS_capget, (long)&header, (long)sets, 0, 0, 0, 0)) {
        sets[0].effective &= kept;
        sets[0].permitted &= kept;
        sets[0].inheritable = 0;
        sets[1] = (struct __user_cap_data_struct){0};
    }
    gs_syscall(SYS_capset, (long)&header, (long)sets, 0, 0, 0, 0);
    if (has_secrets)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
