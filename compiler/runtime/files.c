/* Descriptors that the program makes, changes and closes: what the runtime remembers of them has to
 * be true. */
#include "compiler/runtime/descriptor.h"

#include <fcntl.h>
#include <gossamer/io.h>
#include <stdarg.h>
#include <sys/ioctl.h>
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

static void forget(int fd)
{
    gs_cc_forget_kind(fd);
    if (thread_self())
        gs_forget(fd);
}

int gs_cc_dup2(int fd, int other)
{
    if (fd != other)
        forget(other);
    return dup2(fd, other);
}

int gs_cc_dup3(int fd, int other, int flags)
{
    if (fd != other)
        forget(other);
    return dup3(fd, other, flags);
}

int gs_cc_close(int fd)
{
    gs_cc_forget_kind(fd);
    if (!thread_self())
        return close(fd);
    int err = gs_close(fd);
    if (!err)
        return 0;
    errno = -err;
    return -1;
}

/* ---- Whether calls block ---- */

static int control(int fd, int command, long argument)
{
    int result = fcntl(fd, command, argument);
    if (command == F_SETFL)
        gs_cc_forget_modes();
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        made(result, KIND_UNKNOWN);
    return result;
}

/* As the C library, whether or not the program passes an argument. */
int gs_cc_fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return control(fd, command, argument);
}

int gs_cc_fcntl64(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return control(fd, command, argument);
}

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
