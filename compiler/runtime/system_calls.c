/* System calls that a program makes by their numbers, and that may wait: the same as by their
 * names. */
#include "compiler/runtime/transfer.h"

#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t gs_cc_readv(int fd, const struct iovec *parts, int count);
ssize_t gs_cc_writev(int fd, const struct iovec *parts, int count);
ssize_t gs_cc_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *address,
                     socklen_t length);
ssize_t gs_cc_sendmsg(int fd, const struct msghdr *message, int flags);
int gs_cc_pause(void);

/* The plugin calls it for these numbers (compiler/plugin/calls.cpp). */
long gs_cc___system_call(long number, ...);
long gs_cc___system_call(long number, ...)
{
    enum { ARGUMENTS = 6 };
    long at[ARGUMENTS];
    va_list list;
    va_start(list, number);
    for (unsigned i = 0; i < ARGUMENTS; i++)
        at[i] = va_arg(list, long);
    va_end(list);
    switch (number) {
    case SYS_read:
        return gs_cc_read((int)at[0], (void *)at[1], (size_t)at[2]);
    case SYS_write:
        return gs_cc_write((int)at[0], (const void *)at[1], (size_t)at[2]);
    case SYS_readv:
        return gs_cc_readv((int)at[0], (const struct iovec *)at[1], (int)at[2]);
    case SYS_writev:
        return gs_cc_writev((int)at[0], (const struct iovec *)at[1], (int)at[2]);
    case SYS_sendto:
        return gs_cc_sendto((int)at[0], (const void *)at[1], (size_t)at[2], (int)at[3],
                            (const struct sockaddr *)at[4], (socklen_t)at[5]);
    case SYS_sendmsg:
        return gs_cc_sendmsg((int)at[0], (const struct msghdr *)at[1], (int)at[2]);
#ifdef SYS_pause
    case SYS_pause:
        return gs_cc_pause();
#endif
    default:
        return syscall(number, at[0], at[1], at[2], at[3], at[4], at[5]);
    }
}
