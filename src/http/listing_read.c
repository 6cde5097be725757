#include "http/below.h"
#include "http/listing.h"
#include "http/token.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER 32768 /* of names at a time, in the heap: stacks are small */

/* Where the page of a name is made: the path below the root to be opened. */
struct reading {
    const struct gs_http_listing_source *source;
    struct gs_http_listing *listing;
    size_t path_n;
    char path[PATH_MAX + NAME_MAX + 1];
};

/* Whether a request can have the name. */
static bool is_servable(const char *name, bool dotfiles)
{
    if (*name == '.' && (!dotfiles || !name[1] || (name[1] == '.' && !name[2])))
        return false;
    for (; *name; name++)
        if (*name != '%' && !gs_http_is(*name, GS_HTTP_SEGMENT))
            return false;
    return true;
}

/* Open what a request for the path would open. */
static int open_as_served(const struct reading *reading, const char *path)
{
    const struct gs_http_listing_source *source = reading->source;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS |
                                      (source->follow_symlinks ? 0 : RESOLVE_BENEATH)};
    return gs_sys_openat2(source->root_fd, path, &how);
}

/* An absolute symbolic link may lead below the root, as a load finds out. */
static int open_absolute_link(const struct reading *reading)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    int fd = gs_sys_openat2(reading->source->root_fd, reading->path, &how);
    char *path;
    if (fd < 0)
        return fd;
    int err = gs_http_path_below(reading->source->root_fd, fd, "", &path);
    gs_sys_close(fd);
    if (err)
        return err;
    fd = open_as_served(reading, path);
    free(path);
    return fd;
}

/* Get the state of what a symbolic link leads to. Returns whether it would be served. */
static bool follow(struct reading *reading, const char *name, struct stat *ret_stat)
{
    size_t n = strlen(name);
    if (reading->path_n + n >= sizeof reading->path)
        return false;
    memcpy(reading->path + reading->path_n, name, n + 1);
    int fd = open_as_served(reading, reading->path);
    if (fd == -EXDEV)
        fd = open_absolute_link(reading);
    if (fd < 0)
        return false;
    int err = gs_sys_fstat(fd, ret_stat);
    gs_sys_close(fd);
    return !err;
}

/* Whether this process may read it. Most files can be read by all, which needs no call. */
static bool may_read(const struct reading *reading, const char *name, const struct stat *stat)
{
    bool is_directory = S_ISDIR(stat->st_mode);
    mode_t all = is_directory ? S_IXUSR | S_IXGRP | S_IXOTH : S_IRUSR | S_IRGRP | S_IROTH;
    int access = is_directory ? X_OK : R_OK;
    return (stat->st_mode & all) == all ||
           !faccessat(reading->source->fd, name, access, AT_EACCESS);
}

static int add(struct reading *reading, const char *name)
{
    struct stat stat;
    if (!is_servable(name, reading->source->dotfiles) ||
        gs_sys_fstatat(reading->source->fd, name, &stat, AT_SYMLINK_NOFOLLOW))
        return 0;
    if (S_ISLNK(stat.st_mode) && !follow(reading, name, &stat))
        return 0;
    if ((!S_ISREG(stat.st_mode) && !S_ISDIR(stat.st_mode)) || !may_read(reading, name, &stat))
        return 0;
    const struct gs_http_listing_entry entry = {.name = (char *)name,
                                                .modified = stat.st_mtim.tv_sec,
                                                .size = (uint64_t)stat.st_size,
                                                .is_directory = S_ISDIR(stat.st_mode)};
    return gs_http_listing_add(reading->listing, &entry);
}

static int read_all(struct reading *reading, char *buffer)
{
    for (;;) {
        ssize_t n = getdents64(reading->source->fd, buffer, BUFFER);
        if (n <= 0)
            return n ? -errno : 0;
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *found = (const struct dirent64 *)(const void *)(buffer + at);
            int err = add(reading, found->d_name);
            if (err)
                return err;
            at += found->d_reclen;
        }
    }
}

int gs_http_listing_read(const struct gs_http_listing_source *source,
                         struct gs_http_listing *listing)
{
    size_t n = strlen(source->path);
    if (n >= PATH_MAX)
        return -ENAMETOOLONG;
    struct reading *reading = malloc(sizeof *reading + BUFFER);
    if (!reading)
        return -ENOMEM;
    reading->source = source;
    reading->listing = listing;
    reading->path_n = n;
    memcpy(reading->path, source->path, n + 1);
    int err = read_all(reading, (char *)(reading + 1));
    free(reading);
    gs_http_listing_sort(listing);
    return err;
}
