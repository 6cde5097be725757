#include "serve/operations/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Kernels follow 40 links. */
#define LINKS_MAX 40

/* Newer than the kernel's headers may be. */
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)
#define ACCESS_IOCTL_DEV (UINT64_C(1) << 15)
#define NET_BIND_TCP (UINT64_C(1) << 0)
#define NET_CONNECT_TCP (UINT64_C(1) << 1)
#define SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0)
#define SCOPE_SIGNAL (UINT64_C(1) << 1)

/* As in struct landlock_ruleset_attr; older kernels accept zeros at its end. */
struct ruleset {
    uint64_t files, tcp, scoped;
};

/* All that the ABI knows of files. */
static uint64_t files_of(unsigned abi)
{
    uint64_t files = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
    if (abi >= 2)
        files |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3)
        files |= ACCESS_TRUNCATE;
    if (abi >= 5)
        files |= ACCESS_IOCTL_DEV;
    return files;
}

int serve_landlock_init(struct serve_landlock *landlock)
{
    long abi =
        gs_syscall(SYS_landlock_create_ruleset, 0, 0, LANDLOCK_CREATE_RULESET_VERSION, 0, 0, 0);
    if (abi < 0)
        return (int)abi;
    struct ruleset ruleset = {.files = files_of((unsigned)abi)};
    if (abi >= 4)
        ruleset.tcp = NET_BIND_TCP | NET_CONNECT_TCP;
    if (abi >= 6)
        ruleset.scoped = SCOPE_SIGNAL | SCOPE_ABSTRACT_UNIX_SOCKET;
    long fd = gs_syscall(SYS_landlock_create_ruleset, (long)&ruleset, sizeof ruleset, 0, 0, 0, 0);
    if (fd < 0)
        return (int)fd;
    *landlock =
        (struct serve_landlock){.fd = (int)fd, .abi = (unsigned)abi, .handled = ruleset.files};
    return 0;
}

/* What a rule for a file, or for a directory, may contain. */
static uint64_t rights_of(const struct serve_landlock *landlock, unsigned access, bool is_directory)
{
    uint64_t rights = 0;
    if (access & SERVE_MAY_READ)
        rights |= LANDLOCK_ACCESS_FS_READ_FILE | (is_directory ? LANDLOCK_ACCESS_FS_READ_DIR : 0);
    if (access & SERVE_MAY_APPEND)
        rights |= LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE |
                  (is_directory ? LANDLOCK_ACCESS_FS_MAKE_REG : 0);
    if (access & SERVE_MAY_REMOVE && is_directory)
        rights |= LANDLOCK_ACCESS_FS_REMOVE_FILE;
    return rights & landlock->handled;
}

void serve_landlock_allow_fd(struct serve_landlock *landlock, int fd, unsigned access)
{
    struct stat status;
    struct landlock_path_beneath_attr rule = {.parent_fd = fd};
    if (gs_sys_fstat(fd, &status))
        return;
    rule.allowed_access = rights_of(landlock, access, S_ISDIR(status.st_mode));
    if (rule.allowed_access)
        gs_syscall(SYS_landlock_add_rule, landlock->fd, LANDLOCK_RULE_PATH_BENEATH, (long)&rule, 0,
                   0, 0);
}

void serve_landlock_allow(struct serve_landlock *landlock, const char *path, unsigned access)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC};
    int fd = gs_sys_openat2(AT_FDCWD, path, &how);
    if (fd < 0)
        return;
    serve_landlock_allow_fd(landlock, fd, access);
    gs_sys_close(fd);
}

/* readlink does not look at a link with a slash behind it. */
static void cut_slashes(char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
}

/* Cut the last name off. Returns false if nothing can replace what is named: `.`, `..` and `/`. */
static bool cut_to_directory(char *path)
{
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return false;
    if (!slash)
        memcpy(path, ".", sizeof ".");
    else
        slash[slash == path] = '\0';
    return true;
}

/* Returns false if path is no link. */
static bool follow_link(char path[PATH_MAX], const char *directory)
{
    char target[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    int length = snprintf(joined, sizeof joined, "%s/%s", *target == '/' ? "" : directory, target);
    if (length >= PATH_MAX)
        return false;
    memcpy(path, joined, (size_t)length + 1);
    return true;
}

static bool is_root_directory(const char *path)
{
    struct stat status, root;
    return stat(path, &status) || stat("/", &root) ||
           (status.st_dev == root.st_dev && status.st_ino == root.st_ino);
}

void serve_landlock_allow_replaced(struct serve_landlock *landlock, const char *path,
                                   unsigned access)
{
    char name[PATH_MAX] = "", directory[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof name)
        return;
    serve_landlock_allow(landlock, path, access);
    memcpy(name, path, length + 1);
    for (int i = 0; i < LINKS_MAX; i++) {
        cut_slashes(name);
        memcpy(directory, name, sizeof directory);
        if (!cut_to_directory(directory))
            return;
        if (!is_root_directory(directory))
            serve_landlock_allow(landlock, directory, access);
        if (!follow_link(name, directory))
            return;
    }
}

int serve_landlock_enforce(struct serve_landlock *landlock)
{
    long err = gs_syscall(SYS_landlock_restrict_self, landlock->fd, 0, 0, 0, 0, 0);
    gs_sys_close(landlock->fd);
    return (int)err;
}
