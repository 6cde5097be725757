/* Wrappers (--wrap) for calls whose injected faults are more than an error code: a call that fails
 * although it took effect, that takes effect in part, or that is reported twice. */
#include "tests/fault/faults.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(type_, name_, ...)                                                                    \
    type_ __real_##name_(__VA_ARGS__);                                                             \
    type_ __wrap_##name_(__VA_ARGS__);                                                             \
    type_ __wrap_##name_(__VA_ARGS__)

/* The registration of each descriptor with epoll; each thread has one loop. */
#define WATCHED_MAX 1024

static _Thread_local struct watched {
    int epoll_fd; /* 0: not registered */
    struct epoll_event event;
} watched[WATCHED_MAX];

/* Only EPOLL_CTL_ADD can fail: removing or changing a registration needs no memory. */
REAL(int, gs_sys_epoll_ctl, int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    int err = operation == EPOLL_CTL_ADD ? fault_take(FAULT_EPOLL_CTL) : 0;
    if (!err)
        err = __real_gs_sys_epoll_ctl(epoll_fd, operation, fd, event);
    if (!err && fd >= 0 && fd < WATCHED_MAX)
        watched[fd] = (struct watched){operation == EPOLL_CTL_DEL ? 0 : epoll_fd, *event};
    return err;
}

/* After EAGAIN the server waits for the next edge. Registering the descriptor again reports its
 * readiness once more, as if data had arrived just after the call. */
static void rearm(int fd)
{
    if (fd >= 0 && fd < WATCHED_MAX && watched[fd].epoll_fd)
        (void)__real_gs_sys_epoll_ctl(watched[fd].epoll_fd, EPOLL_CTL_MOD, fd, &watched[fd].event);
}

/* The wait is made in slices, as the test may advance the server's clock meanwhile. */
#define SLICE_NS (2 * GS_MILLISECOND)

REAL(int, gs_sys_epoll_wait, int epoll_fd, struct epoll_event *events, int count,
     uint64_t timeout_ns)
{
    int err = fault_take(FAULT_EPOLL_WAIT);
    if (err)
        return err;
    uint64_t now_ns = gs_clock_now(),
             end_ns = timeout_ns < GS_NEVER - now_ns ? now_ns + timeout_ns : GS_NEVER;
    int n = 0;
    fault_count_waiting(1);
    do {
        uint64_t left_ns = fault_scale(end_ns == GS_NEVER ? GS_NEVER : end_ns - now_ns);
        n = __real_gs_sys_epoll_wait(epoll_fd, events, count,
                                     left_ns < SLICE_NS || left_ns == GS_NEVER ? left_ns
                                                                               : SLICE_NS);
    } while (!n && (now_ns = gs_clock_now()) < end_ns);
    fault_count_waiting(-1);
    return n;
}

REAL(uint64_t, gs_clock_now, void)
{
    return fault_clock(__real_gs_clock_now());
}

/* The test's files are new; to the server they are old enough for sendfile. */
REAL(uint64_t, gs_clock_wall, void)
{
    return __real_gs_clock_wall() + 10 * GS_SECOND;
}

/* Accepting threads wait for the next connection edge-triggered. */
REAL(int, gs_sys_accept, int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    int result = fault_take(FAULT_ACCEPT);
    if (result == -EAGAIN)
        rearm(fd);
    return result ? result : __real_gs_sys_accept(fd, address, length, flags);
}

/* Linux closes the descriptor even if it reports an error. */
REAL(int, gs_sys_close, int fd)
{
    int err = fault_take(FAULT_CLOSE);
    if (fd >= 0 && fd < WATCHED_MAX)
        watched[fd].epoll_fd = 0;
    int result = __real_gs_sys_close(fd);
    return err ? err : result;
}

REAL(ssize_t, gs_sys_recv, int fd, void *bytes, size_t n, int flags)
{
    int result = fault_take(FAULT_RECV);
    ssize_t got =
        result < 0 ? result : __real_gs_sys_recv(fd, bytes, result == FAULT_SHORT ? 1 : n, flags);
    if (result == FAULT_SHORT || result == -EAGAIN)
        rearm(fd);
    return got;
}

REAL(ssize_t, gs_sys_send, int fd, const void *bytes, size_t n, int flags)
{
    int result = fault_take(FAULT_SEND);
    if (result == -EAGAIN)
        rearm(fd);
    return result < 0 ? result
                      : __real_gs_sys_send(fd, bytes, result == FAULT_SHORT ? 1 : n, flags);
}

REAL(ssize_t, gs_sys_sendmsg, int fd, const struct msghdr *message, int flags)
{
    int result = fault_take(FAULT_SENDMSG);
    if (result == -EAGAIN)
        rearm(fd);
    if (result < 0)
        return result;
    struct iovec byte = {message->msg_iov[0].iov_base, 1};
    struct msghdr part = {.msg_iov = &byte, .msg_iovlen = 1};
    return __real_gs_sys_sendmsg(fd, result == FAULT_SHORT ? &part : message, flags);
}

REAL(ssize_t, gs_sys_sendfile, int out_fd, int in_fd, off_t *offset, size_t n)
{
    int result = fault_take(FAULT_SENDFILE);
    if (result == -EAGAIN)
        rearm(out_fd);
    if (result < 0 || result == FAULT_ENDED)
        return result < 0 ? result : 0;
    return __real_gs_sys_sendfile(out_fd, in_fd, offset, result == FAULT_SHORT ? 1 : n);
}

/* User-level threads use preadv2 to read what is in the page cache. */
REAL(ssize_t, gs_sys_preadv2, int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    int result = fault_take(FAULT_PREAD);
    if (result < 0 || result == FAULT_ENDED)
        return result < 0 ? result : 0;
    const struct iovec byte = {iov->iov_base, 1};
    if (result == FAULT_SHORT)
        return __real_gs_sys_preadv2(fd, &byte, 1, offset, flags);
    return __real_gs_sys_preadv2(fd, iov, count, offset, flags);
}

REAL(ssize_t, gs_sys_pread, int fd, void *bytes, size_t n, off_t offset)
{
    int result = fault_take(FAULT_PREAD);
    if (result < 0 || result == FAULT_ENDED)
        return result < 0 ? result : 0;
    return __real_gs_sys_pread(fd, bytes, result == FAULT_SHORT ? 1 : n, offset);
}

/* A write of eight bytes wakes a loop through an eventfd, which cannot fail. */
REAL(ssize_t, gs_sys_write, int fd, const void *bytes, size_t n)
{
    int result = n == sizeof(uint64_t) ? 0 : fault_take(FAULT_WRITE);
    return result < 0 ? result : __real_gs_sys_write(fd, bytes, result == FAULT_SHORT ? 1 : n);
}

/* A log's lines in a pipe: the kernel writes them whole or not at all. */
REAL(ssize_t, gs_sys_writev, int fd, const struct iovec *iov, int count)
{
    int result = fault_take(FAULT_WRITE);
    return result < 0 ? result : __real_gs_sys_writev(fd, iov, count);
}

REAL(void *, mmap, void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (fault_take(FAULT_MMAP)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(address, n, protection, flags, fd, offset);
}

REAL(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
     void *data)
{
    int err = fault_take(FAULT_THREAD);
    return err ? -err : __real_pthread_create(thread, attributes, run, data);
}

REAL(int, getaddrinfo, const char *node, const char *service, const struct addrinfo *hints,
     struct addrinfo **found)
{
    return fault_take(FAULT_ADDRESS) ? EAI_MEMORY : __real_getaddrinfo(node, service, hints, found);
}
