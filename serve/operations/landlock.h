/* Landlock: the kernel restricts what the process may open, connect and signal from now on.
 *
 *     struct serve_landlock landlock;
 *     int err = serve_landlock_init(&landlock);
 *     if (err)
 *         return err;
 *     serve_landlock_allow(&landlock, "/srv/site", SERVE_MAY_READ);
 *     serve_landlock_allow_replaced(&landlock, "/var/log/site.log", SERVE_MAY_APPEND);
 *     err = serve_landlock_enforce(&landlock);
 *
 * What is open stays usable. Looking up names and their attributes is always allowed; a rule
 * belongs to a file or directory itself, however it is named later. */
#ifndef GS_SERVE_LANDLOCK_H
#define GS_SERVE_LANDLOCK_H

#include <gossamer/api.h>
#include <stdint.h>

/* What may be done with a file, or with all files below a directory. */
enum serve_access {
    SERVE_MAY_READ = 1,   /* files and directories */
    SERVE_MAY_APPEND = 2, /* create files, open them for writing, and cut them off */
    SERVE_MAY_REMOVE = 4, /* files */
};

/* The members are private, except abi. */
struct serve_landlock {
    int fd;
    unsigned abi; /* what the kernel's Landlock knows: 4: TCP, 6: abstract sockets and signals */
    uint64_t handled;
};

/* Forbid everything that the kernel's Landlock knows: files, connecting and binding TCP sockets,
 * signals to other programs, and their abstract Unix sockets. Returns 0 or -errno: -ENOSYS or
 * -EOPNOTSUPP: the kernel has no Landlock. */
GS_MUST_CHECK int serve_landlock_init(struct serve_landlock *landlock);

/* Allow access to the file or directory. Without one of that name, nothing is allowed. */
void serve_landlock_allow(struct serve_landlock *landlock, const char *path, unsigned access);
void serve_landlock_allow_fd(struct serve_landlock *landlock, int fd, unsigned access);

/* Also if it is replaced by another one later: allow access to all of the directory that it is in.
 * If it is a symbolic link, which may come to point elsewhere, that holds for its target, too. The
 * root directory is never allowed as a whole: then only what is there now. */
void serve_landlock_allow_replaced(struct serve_landlock *landlock, const char *path,
                                   unsigned access);

/* Restrict this kernel thread, and the threads and processes that it creates later. Must be called
 * after serve_landlock_init, in any case. Returns 0 or -errno. */
GS_MUST_CHECK int serve_landlock_enforce(struct serve_landlock *landlock);

#endif
