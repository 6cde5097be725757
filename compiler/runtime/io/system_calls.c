/* System calls that a program makes by their numbers, and that may wait: the same as by their
 * names. A mask of signals is as large as the kernel's, of which the runtime reads no more. */
#include "compiler/runtime/io/transfer.h"
#include "compiler/runtime/threads/pool.h"

#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

ssize_t gs_cc_readv(int fd, const struct iovec *parts, int count);
ssize_t gs_cc_writev(int fd, const struct iovec *parts, int count);
ssize_t gs_cc_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *address,
                     socklen_t length);
ssize_t gs_cc_sendmsg(int fd, const struct msghdr *message, int flags);
int gs_cc_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);
ssize_t gs_cc_recvfrom(int fd, void *bytes, size_t n, int flags, struct sockaddr *address,
                       socklen_t *length);
ssize_t gs_cc_recvmsg(int fd, struct msghdr *message, int flags);
int gs_cc_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags,
                   struct timespec *time);
int gs_cc_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int gs_cc_connect(int fd, const struct sockaddr *address, socklen_t length);
int gs_cc_poll(struct pollfd *fds, nfds_t count, int wait_ms);
int gs_cc_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *wait,
                const sigset_t *mask);
int gs_cc_select(int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *wait);
int gs_cc_pselect(int count, fd_set *reads, fd_set *writes, fd_set *others,
                  const struct timespec *wait, const sigset_t *mask);
int gs_cc_epoll_pwait(int fd, struct epoll_event *events, int max, int wait_ms,
                      const sigset_t *mask);
int gs_cc_nanosleep(const struct timespec *wait, struct timespec *ret_left);
int gs_cc_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                          struct timespec *ret_left);
int gs_cc_flock(int fd, int operation);
int gs_cc_msgsnd(int queue, const void *message, size_t n, int flags);
ssize_t gs_cc_msgrcv(int queue, void *message, size_t n, long type, int flags);
int gs_cc_semtimedop(int set, struct sembuf *operations, size_t count, const struct timespec *time);
int gs_cc_pause(void);
long gs_cc___futex(long number, ...);

/* ---- Calls that the runtime has: *ret_result is set if the number is of the group ---- */

static bool transfer(long number, const long *at, long *ret_result)
{
    int fd = (int)at[0], flags = (int)at[3];
    void *bytes = (void *)at[1];
    switch (number) {
    case SYS_read:
        *ret_result = gs_cc_read(fd, bytes, (size_t)at[2]);
        return true;
    case SYS_write:
        *ret_result = gs_cc_write(fd, bytes, (size_t)at[2]);
        return true;
    case SYS_readv:
        *ret_result = gs_cc_readv(fd, bytes, (int)at[2]);
        return true;
    case SYS_writev:
        *ret_result = gs_cc_writev(fd, bytes, (int)at[2]);
        return true;
    case SYS_sendto:
        *ret_result = gs_cc_sendto(fd, bytes, (size_t)at[2], flags, (struct sockaddr *)at[4],
                                   (socklen_t)at[5]);
        return true;
    case SYS_recvfrom:
        *ret_result = gs_cc_recvfrom(fd, bytes, (size_t)at[2], flags, (struct sockaddr *)at[4],
                                     (socklen_t *)at[5]);
        return true;
    case SYS_sendmsg:
        *ret_result = gs_cc_sendmsg(fd, bytes, (int)at[2]);
        return true;
    case SYS_recvmsg:
        *ret_result = gs_cc_recvmsg(fd, bytes, (int)at[2]);
        return true;
    case SYS_sendmmsg:
        *ret_result = gs_cc_sendmmsg(fd, bytes, (unsigned)at[2], flags);
        return true;
    case SYS_recvmmsg:
        *ret_result = gs_cc_recvmmsg(fd, bytes, (unsigned)at[2], flags, (struct timespec *)at[4]);
        return true;
    default:
        return false;
    }
}

static bool wait_for_descriptors(long number, const long *at, long *ret_result)
{
    const struct {
        const sigset_t *set;
    } *mask;
    switch (number) {
    case SYS_accept:
    case SYS_accept4:
        *ret_result = gs_cc_accept4((int)at[0], (struct sockaddr *)at[1], (socklen_t *)at[2],
                                    number == SYS_accept ? 0 : (int)at[3]);
        return true;
    case SYS_connect:
        *ret_result = gs_cc_connect((int)at[0], (const struct sockaddr *)at[1], (socklen_t)at[2]);
        return true;
#ifdef SYS_poll
    case SYS_poll:
        *ret_result = gs_cc_poll((struct pollfd *)at[0], (nfds_t)at[1], (int)at[2]);
        return true;
    case SYS_select:
        *ret_result = gs_cc_select((int)at[0], (fd_set *)at[1], (fd_set *)at[2], (fd_set *)at[3],
                                   (struct timeval *)at[4]);
        return true;
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        *ret_result =
            gs_cc_epoll_pwait((int)at[0], (struct epoll_event *)at[1], (int)at[2], (int)at[3],
                              number == SYS_epoll_pwait ? (const sigset_t *)at[4] : NULL);
        return true;
    case SYS_ppoll:
        *ret_result = gs_cc_ppoll((struct pollfd *)at[0], (nfds_t)at[1],
                                  (const struct timespec *)at[2], (const sigset_t *)at[3]);
        return true;
    case SYS_pselect6:
        mask = (const void *)at[5];
        *ret_result = gs_cc_pselect((int)at[0], (fd_set *)at[1], (fd_set *)at[2], (fd_set *)at[3],
                                    (const struct timespec *)at[4], mask ? mask->set : NULL);
        return true;
    default:
        return false;
    }
}

static long sleep_by_clock(const long *at)
{
    int err = gs_cc_clock_nanosleep((clockid_t)at[0], (int)at[1], (const struct timespec *)at[2],
                                    (struct timespec *)at[3]);
    if (!err || gs_cc_state.suspending)
        return 0;
    return result_of(err);
}

static bool wait_for_messages(long number, const long *at, long *ret_result)
{
    void *data = (void *)at[1];
    const struct timespec *time = number == SYS_semop ? NULL : (const struct timespec *)at[3];
    switch (number) {
    case SYS_msgsnd:
        *ret_result = gs_cc_msgsnd((int)at[0], data, (size_t)at[2], (int)at[3]);
        return true;
    case SYS_msgrcv:
        *ret_result = gs_cc_msgrcv((int)at[0], data, (size_t)at[2], at[3], (int)at[4]);
        return true;
    case SYS_semop:
    case SYS_semtimedop:
        *ret_result = gs_cc_semtimedop((int)at[0], data, (size_t)at[2], time);
        return true;
    default:
        return false;
    }
}

static long make(long number, const long *at)
{
    long result;
    if (transfer(number, at, &result) || wait_for_descriptors(number, at, &result) ||
        wait_for_messages(number, at, &result))
        return result;
    switch (number) {
    case SYS_futex:
        return gs_cc___futex(number, at[0], at[1], at[2], at[3], at[4], at[5]);
    case SYS_nanosleep:
        return gs_cc_nanosleep((const struct timespec *)at[0], (struct timespec *)at[1]);
    case SYS_clock_nanosleep:
        return sleep_by_clock(at);
    case SYS_flock:
        return gs_cc_flock((int)at[0], (int)at[1]);
    case SYS_sched_yield:
        return gs_cc_sched_yield();
#ifdef SYS_pause
    case SYS_pause:
        return gs_cc_pause();
#endif
    case SYS_wait4:
        if (!((int)at[2] & WNOHANG))
            return gs_cc_call_in_pool(POOL_BOTH, number, at);
        break;
    case SYS_waitid:
        if (!((int)at[3] & WNOHANG))
            return gs_cc_call_in_pool(POOL_BOTH, number, at);
        break;
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_sendfile:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
    case SYS_io_getevents:
        return gs_cc_call_in_pool(POOL_BOTH, number, at);
    default:
        break;
    }
    return syscall(number, at[0], at[1], at[2], at[3], at[4], at[5]);
}

/* The plugin calls it for these numbers, and for those that it does not know
 * (compiler/plugin/decide/calls.cpp). */
long gs_cc___system_call(long number, ...);
long gs_cc___system_call(long number, ...)
{
    long at[CALL_ARGUMENTS];
    va_list list;
    va_start(list, number);
    for (unsigned i = 0; i < CALL_ARGUMENTS; i++)
        at[i] = va_arg(list, long);
    va_end(list);
    if (!thread_self())
        return syscall(number, at[0], at[1], at[2], at[3], at[4], at[5]);
    return make(number, at);
}
