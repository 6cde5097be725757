/* What shared libraries call to wait for descriptors or for time: the runtime's functions. Closing
 * is the C library's: a library may do so in the child of a fork of its own, where the loops are
 * the parent's. */
#include "compiler/runtime/libraries/library_calls.h"

#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

RUNTIME(ssize_t, read, (int fd, void *bytes, size_t n), fd, bytes, n)
RUNTIME(ssize_t, write, (int fd, const void *bytes, size_t n), fd, bytes, n)
RUNTIME(ssize_t, readv, (int fd, const struct iovec *parts, int count), fd, parts, count)
RUNTIME(ssize_t, writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
RUNTIME(ssize_t, recv, (int fd, void *bytes, size_t n, int flags), fd, bytes, n, flags)
RUNTIME(ssize_t, send, (int fd, const void *bytes, size_t n, int flags), fd, bytes, n, flags)
RUNTIME(ssize_t, recvfrom,
        (int fd, void *bytes, size_t n, int flags, struct sockaddr *from, socklen_t *length), fd,
        bytes, n, flags, from, length)
RUNTIME(ssize_t, sendto,
        (int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to,
         socklen_t length),
        fd, bytes, n, flags, to, length)
RUNTIME(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), fd, message, flags)
RUNTIME(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
RUNTIME(int, accept, (int fd, struct sockaddr *from, socklen_t *length), fd, from, length)
RUNTIME(int, accept4, (int fd, struct sockaddr *from, socklen_t *length, int flags), fd, from,
        length, flags)
RUNTIME(int, connect, (int fd, const struct sockaddr *to, socklen_t length), fd, to, length)
RUNTIME(int, poll, (struct pollfd * fds, nfds_t count, int wait_ms), fds, count, wait_ms)
RUNTIME(int, ppoll,
        (struct pollfd * fds, nfds_t count, const struct timespec *time, const sigset_t *mask), fds,
        count, time, mask)
RUNTIME(int, select,
        (int count, fd_set *reading, fd_set *writing, fd_set *other, struct timeval *time), count,
        reading, writing, other, time)
RUNTIME(int, pselect,
        (int count, fd_set *reading, fd_set *writing, fd_set *other, const struct timespec *time,
         const sigset_t *mask),
        count, reading, writing, other, time, mask)
RUNTIME(int, epoll_wait, (int fd, struct epoll_event *events, int max, int wait_ms), fd, events,
        max, wait_ms)
RUNTIME(int, epoll_pwait,
        (int fd, struct epoll_event *events, int max, int wait_ms, const sigset_t *mask), fd,
        events, max, wait_ms, mask)
RUNTIME(int, epoll_pwait2,
        (int fd, struct epoll_event *events, int max, const struct timespec *time,
         const sigset_t *mask),
        fd, events, max, time, mask)
RUNTIME(int, recvmmsg,
        (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *time), fd,
        messages, count, flags, time)
RUNTIME(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags), fd, messages,
        count, flags)
RUNTIME(int, eventfd_read, (int fd, eventfd_t *ret_value), fd, ret_value)
RUNTIME(int, eventfd_write, (int fd, eventfd_t value), fd, value)
RUNTIME(unsigned, sleep, (unsigned seconds), seconds)
RUNTIME(int, usleep, (useconds_t microseconds), microseconds)
RUNTIME(int, nanosleep, (const struct timespec *time, struct timespec *ret_left), time, ret_left)
RUNTIME(int, clock_nanosleep,
        (clockid_t clock, int flags, const struct timespec *time, struct timespec *ret_left), clock,
        flags, time, ret_left)
RUNTIME(int, sched_yield, (void), )
RUNTIME(int, getaddrinfo,
        (const char *node, const char *service, const struct addrinfo *hints,
         struct addrinfo **ret_addresses),
        node, service, hints, ret_addresses)

/* With _FORTIFY_SOURCE: the size of the memory follows. */
#define FORTIFIED(result_, name_, parameters_, is_valid_, plain_, ...)                             \
    static result_ library_##name_ parameters_                                                     \
    {                                                                                              \
        if (!(is_valid_))                                                                          \
            abort();                                                                               \
        return library_##plain_(__VA_ARGS__);                                                      \
    }

FORTIFIED(ssize_t, __read_chk, (int fd, void *bytes, size_t n, size_t size), n <= size, read, fd,
          bytes, n)
FORTIFIED(ssize_t, __recv_chk, (int fd, void *bytes, size_t n, size_t size, int flags), n <= size,
          recv, fd, bytes, n, flags)
FORTIFIED(ssize_t, __recvfrom_chk,
          (int fd, void *bytes, size_t n, size_t size, int flags, struct sockaddr *from,
           socklen_t *length),
          n <= size, recvfrom, fd, bytes, n, flags, from, length)
FORTIFIED(int, __poll_chk, (struct pollfd * fds, nfds_t count, int wait_ms, size_t size),
          count <= size / sizeof *fds, poll, fds, count, wait_ms)

/* In the order of strcmp. */
static const struct gs_cc_replacement replacements[] = {
    REPLACED(__poll_chk),
    REPLACED(__read_chk),
    REPLACED(__recv_chk),
    REPLACED(__recvfrom_chk),
    REPLACED(accept),
    REPLACED(accept4),
    REPLACED(clock_nanosleep),
    REPLACED(connect),
    REPLACED(epoll_pwait),
    REPLACED(epoll_pwait2),
    REPLACED(epoll_wait),
    REPLACED(eventfd_read),
    REPLACED(eventfd_write),
    REPLACED(getaddrinfo),
    REPLACED(nanosleep),
    REPLACED(poll),
    REPLACED(ppoll),
    REPLACED(pselect),
    REPLACED(read),
    REPLACED(readv),
    REPLACED(recv),
    REPLACED(recvfrom),
    REPLACED(recvmmsg),
    REPLACED(recvmsg),
    REPLACED(sched_yield),
    REPLACED(select),
    REPLACED(send),
    REPLACED(sendmmsg),
    REPLACED(sendmsg),
    REPLACED(sendto),
    REPLACED(sleep),
    REPLACED(usleep),
    REPLACED(write),
    REPLACED(writev),
};
const struct gs_cc_replacements gs_cc_library_io = REPLACEMENTS(replacements);
