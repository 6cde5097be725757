/* The path is opened component by component, each relative to the descriptor of its parent
 * directory. So it cannot lead out of dirfd, even if directories are renamed meanwhile. */
#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* Copy the next component of *path to name, and advance *path. Returns the length of the component,
 * 0 at the end of the path, or -errno. */
static int next_name(const char **path, char name[NAME_MAX + 1])
{
    *path += strspn(*path, "/");
    size_t n = strcspn(*path, "/");
    if (n > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, *path, n);
    name[n] = 0;
    *path += n;
    return strcmp(name, "..") ? (int)n : -EXDEV;
}

static bool is_link(int fd, const char *name)
{
    struct stat stat;
    return !gs_sys_fstatat(fd, name, &stat, AT_SYMLINK_NOFOLLOW) && S_ISLNK(stat.st_mode);
}

static int open_part(int fd, const char *name, int flags, unsigned mode)
{
    int next = gs_sys_openat(fd, name, flags | O_NOFOLLOW, mode);
    bool is_refused = next == -ELOOP || (next == -ENOTDIR && is_link(fd, name));
    return is_refused ? -EXDEV : next;
}

int gs_open_beneath(int dirfd, const char *path, const struct open_how *how)
{
    char name[NAME_MAX + 1];
    if (*path == '/')
        return -EXDEV;
    if (!*path)
        return -ENOENT;
    for (int fd = dirfd;;) {
        int n = next_name(&path, name);
        bool is_last = !path[strspn(path, "/")];
        bool is_directory = *path == '/';
        int last_flags = (int)how->flags | (is_directory ? O_DIRECTORY : 0);
        int flags = is_last ? last_flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
        int next = n < 0 ? n : open_part(fd, n ? name : ".", flags, (unsigned)how->mode);
        if (fd != dirfd)
            gs_sys_close(fd);
        if (next < 0 || is_last)
            return next;
        fd = next;
    }
}
