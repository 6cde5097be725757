#include "serve/operations/root.h"

#include "serve/log/error_log.h"

#include <fcntl.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <sys/stat.h>

static int open_directory(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC};
    return gs_sys_openat2(AT_FDCWD, path, &how);
}

int serve_root_open(struct serve_root *root, const char *path)
{
    int fd = open_directory(path);
    *root = (struct serve_root){.path = path, .fd = fd < 0 ? -1 : fd};
    return fd < 0 ? fd : 0;
}

/* O_PATH opens also a directory in which no name may be looked up. */
static int check_access(int fd)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC};
    int opened = gs_sys_openat2(fd, ".", &how);
    if (opened < 0)
        return opened;
    gs_sys_close(opened);
    return 0;
}

int serve_root_check_access(const struct serve_root *root)
{
    return check_access(root->fd);
}

/* Said once in each process. */
static void report_other(const char *path)
{
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_reported))
        serve_warn("%s names another directory now, which --sandbox on does not allow until the "
                   "server is started again",
                   path);
}

/* dup3 replaces the directory at once: other threads see the old one or the new one. If two of them
 * have opened different directories, the last one stays until the next call. */
void serve_root_refresh(const struct serve_root *root)
{
    struct stat current, named;
    if (gs_sys_fstat(root->fd, &current) || gs_sys_fstatat(AT_FDCWD, root->path, &named, 0))
        return;
    if (current.st_dev == named.st_dev && current.st_ino == named.st_ino)
        return;
    if (root->is_fixed) {
        report_other(root->path);
        return;
    }
    int fd = open_directory(root->path);
    if (fd < 0)
        return;
    if (!check_access(fd))
        gs_sys_dup3(fd, root->fd, O_CLOEXEC);
    gs_sys_close(fd);
}

void serve_root_close(struct serve_root *root)
{
    if (root->fd >= 0)
        gs_sys_close(root->fd);
    root->fd = -1;
}
