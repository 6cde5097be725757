#include "serve/accept/unix_socket.h"

#include <fcntl.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

static const char *path_of(const struct serve_address *address)
{
    return ((const struct sockaddr_un *)&address->storage)->sun_path;
}

static int remove_file(const struct serve_address *address)
{
    return (int)gs_syscall(SYS_unlinkat, AT_FDCWD, (long)path_of(address), 0, 0, 0, 0);
}

static int open_file(const struct serve_address *address)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC};
    return gs_sys_openat2(AT_FDCWD, path_of(address), &how);
}

int serve_unix_socket_bind(int fd, struct serve_address *address)
{
    int err = gs_bind_unix(fd, (const struct sockaddr *)&address->storage, address->length);
    if (err)
        return err;
    address->file_fd = open_file(address);
    return address->file_fd < 0 ? address->file_fd : 0;
}

void serve_unix_socket_adopt(struct serve_address *address)
{
    address->file_fd = open_file(address);
}

static bool is_still_there(const struct serve_address *address)
{
    struct stat file, named;
    return !gs_sys_fstat(address->file_fd, &file) &&
           !gs_sys_fstatat(AT_FDCWD, path_of(address), &named, AT_SYMLINK_NOFOLLOW) &&
           file.st_dev == named.st_dev && file.st_ino == named.st_ino;
}

void serve_unix_socket_remove(struct serve_address *address)
{
    if (address->file_fd < 0)
        return;
    if (is_still_there(address))
        remove_file(address);
    gs_sys_close(address->file_fd);
    address->file_fd = -1;
}
