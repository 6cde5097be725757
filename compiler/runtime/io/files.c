/* Descriptors that the program makes, changes and closes: what the runtime remembers of them has to
 * be true. */
#include "compiler/runtime/io/descriptor.h"
#include "compiler/runtime/threads/pool.h"

#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/own_descriptors.h>
#include <limits.h>
#include <mqueue.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int made(int fd, enum kind kind)
{
    if (thread_self())
        gs_cc_new_descriptor(fd, kind);
    else
        gs_cc_forget_kind(fd);
    return fd;
}

static int made_both(int result, const int *fds, enum kind kind)
{
    for (int i = 0; i < 2 && !result; i++)
        made(fds[i], kind);
    return result;
}

int gs_cc_socket(int family, int type, int protocol)
{
    return made(socket(family, type, protocol), KIND_SOCKET);
}

int gs_cc_socketpair(int family, int type, int protocol, int *ret_fds)
{
    return made_both(socketpair(family, type, protocol, ret_fds), ret_fds, KIND_SOCKET);
}

int gs_cc_pipe(int *ret_fds)
{
    return made_both(pipe(ret_fds), ret_fds, KIND_PIPE);
}

int gs_cc_pipe2(int *ret_fds, int flags)
{
    return made_both(pipe2(ret_fds, flags), ret_fds, KIND_PIPE);
}

int gs_cc_dup(int fd)
{
    return made(dup(fd), KIND_UNKNOWN);
}

/* At the start of a call that is a cancellation point, and that loops may make. */
static bool must_return(struct thread *self)
{
    return self && (take_turn(self) || (self->phase == PHASE_NEW && gs_cc_test_cancel(self)));
}

/* ---- Opening: that of a FIFO waits until another one opens its other end, in the pool ---- */

struct opening {
    int folder, flags;
    mode_t mode;
    const char *stream; /* the mode of a stream; NULL: a descriptor is opened */
    int fd;
    FILE *file;
    char path[];
};

static void open_file(void *argument)
{
    struct opening *opening = argument;
    if (opening->stream)
        opening->file = fopen(opening->path, opening->stream);
    else
        opening->fd = openat(opening->folder, opening->path, opening->flags, opening->mode);
}

static bool is_fifo(int folder, const char *path, int flags)
{
    struct stat status;
    bool waits = !(flags & (O_NONBLOCK | O_PATH)) && (flags & O_ACCMODE) != O_RDWR;
    return waits && !fstatat(folder, path, &status, 0) && S_ISFIFO(status.st_mode);
}

/* Returns what was opened, to be freed; NULL: the caller must return. */
static struct opening *open_in_pool(struct thread *self, const struct opening *wanted,
                                    const char *path)
{
    struct opening *opening = NULL;
    if (self->phase == PHASE_NEW) {
        size_t size = strlen(path) + 1;
        opening = malloc(sizeof *opening + size);
        if (!opening)
            abort();
        *opening = *wanted;
        memcpy(opening->path, path, size);
    }
    return gs_cc_in_pool(open_file, opening, POOL_BOTH);
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    struct thread *self = thread_self();
    if (must_return(self))
        return -1;
    if (!self || (self->phase == PHASE_NEW && !is_fifo(folder, path, flags)))
        return made(openat(folder, path, flags, mode), KIND_UNKNOWN);
    struct opening *opening =
        open_in_pool(self, &(struct opening){.folder = folder, .flags = flags, .mode = mode}, path);
    if (!opening)
        return 0;
    int fd = opening->fd, err = errno;
    free(opening);
    errno = err;
    if (fd < 0 && gs_cc_end_in_pool(self))
        return -1;
    return made(fd, KIND_UNKNOWN);
}

/* The last argument is as of fcntl: it may be missing. */
#define OPEN(folder_, path_)                                                                       \
    do {                                                                                           \
        va_list list_;                                                                             \
        va_start(list_, flags);                                                                    \
        mode_t mode_ = va_arg(list_, mode_t);                                                      \
        va_end(list_);                                                                             \
        return open_at(folder_, path_, flags, mode_);                                              \
    } while (0)

int gs_cc_open(const char *path, int flags, ...)
{
    OPEN(AT_FDCWD, path);
}

int gs_cc_open64(const char *path, int flags, ...) ALIAS(gs_cc_open);

int gs_cc_openat(int folder, const char *path, int flags, ...)
{
    OPEN(folder, path);
}

int gs_cc_openat64(int folder, const char *path, int flags, ...) ALIAS(gs_cc_openat);

int gs_cc_eventfd(unsigned value, int flags)
{
    return made(eventfd(value, flags), KIND_POLLED);
}

int gs_cc_timerfd_create(clockid_t clock, int flags)
{
    return made(timerfd_create(clock, flags), KIND_POLLED);
}

int gs_cc_epoll_create(int size)
{
    return made(epoll_create(size), KIND_POLLED);
}

int gs_cc_epoll_create1(int flags)
{
    return made(epoll_create1(flags), KIND_POLLED);
}

int gs_cc_signalfd(int fd, const sigset_t *mask, int flags)
{
    int result = signalfd(fd, mask, flags);
    return fd < 0 ? made(result, KIND_POLLED) : result;
}

int gs_cc_inotify_init(void)
{
    return made(inotify_init(), KIND_POLLED);
}

int gs_cc_inotify_init1(int flags)
{
    return made(inotify_init1(flags), KIND_POLLED);
}

int gs_cc_memfd_create(const char *name, unsigned flags)
{
    return made(memfd_create(name, flags), KIND_PLAIN);
}

int gs_cc_creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int gs_cc_creat64(const char *path, mode_t mode) ALIAS(gs_cc_creat);

/* Of a queue of messages; its last arguments are there if flags say so. */
mqd_t gs_cc_mq_open(const char *name, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = va_arg(list, mode_t);
    struct mq_attr *attributes = va_arg(list, struct mq_attr *);
    va_end(list);
    return made(flags & O_CREAT ? mq_open(name, flags, mode, attributes) : mq_open(name, flags),
                KIND_POLLED);
}

/* ---- Descriptors of streams ---- */

static FILE *opened(FILE *file)
{
    if (file)
        made(fileno(file), KIND_UNKNOWN);
    return file;
}

/* A stream that reads and writes opens a FIFO at once. */
FILE *gs_cc_fopen(const char *path, const char *mode)
{
    struct thread *self = thread_self();
    int flags = strchr(mode, '+') ? O_RDWR : O_RDONLY;
    if (must_return(self))
        return NULL;
    if (!self || (self->phase == PHASE_NEW && !is_fifo(AT_FDCWD, path, flags)))
        return opened(fopen(path, mode));
    struct opening *opening = open_in_pool(self, &(struct opening){.stream = mode}, path);
    if (!opening)
        return NULL;
    FILE *file = opening->file;
    int err = errno;
    free(opening);
    errno = err;
    if (!file && gs_cc_end_in_pool(self))
        return NULL;
    return opened(file);
}

FILE *gs_cc_fopen64(const char *path, const char *mode) ALIAS(gs_cc_fopen);

FILE *gs_cc_popen_as_is(const char *command, const char *mode);
FILE *gs_cc_popen(const char *command, const char *mode)
{
    return opened(gs_cc_popen_as_is(command, mode));
}

static void forget(int fd)
{
    gs_cc_forget_kind(fd);
    if (thread_self())
        gs_forget(fd);
}

int gs_cc_dup2(int fd, int other)
{
    if (gs_is_own_descriptor(other))
        return result_of(EBUSY);
    if (fd != other)
        forget(other);
    return dup2(fd, other);
}

int gs_cc_dup3(int fd, int other, int flags)
{
    if (gs_is_own_descriptor(other))
        return result_of(EBUSY);
    if (fd != other)
        forget(other);
    return dup3(fd, other, flags);
}

int gs_cc_close_range(unsigned first, unsigned last, int flags)
{
    if (!(flags & (int)CLOSE_RANGE_CLOEXEC))
        for (unsigned fd = first; fd <= last && fd < GS_CC_DESCRIPTORS; fd++)
            if (gs_cc_is_known((int)fd))
                forget((int)fd);
    int err = gs_close_range_but_own(first, last, (unsigned)flags);
    return result_of(-err);
}

void gs_cc_closefrom(int first)
{
    gs_cc_close_range(first > 0 ? (unsigned)first : 0, UINT_MAX, 0);
}

static int close_at_once(int fd)
{
    if (gs_is_own_descriptor(fd))
        return result_of(EBADF);
    gs_cc_forget_kind(fd);
    if (!thread_self())
        return close(fd);
    int err = gs_close(fd);
    return result_of(-err);
}

int gs_cc_close(int fd)
{
    return must_return(thread_self()) ? -1 : close_at_once(fd);
}

int gs_cc_mq_close(mqd_t queue)
{
    return close_at_once(queue);
}

/* ---- Whether calls block ---- */

/* As the C library, whether or not the program passes an argument. */
int gs_cc_fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    int result = fcntl(fd, command, argument);
    if (command == F_SETFL)
        gs_cc_forget_modes();
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        made(result, KIND_UNKNOWN);
    return result;
}

int gs_cc_fcntl64(int fd, int command, ...) ALIAS(gs_cc_fcntl);

int gs_cc_ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    int result = ioctl(fd, request, argument);
    if (request == FIONBIO)
        gs_cc_forget_modes();
    return result;
}

int gs_cc_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    int result = setsockopt(fd, level, option, value, length);
    if (level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO))
        gs_cc_forget_modes();
    return result;
}
