#include "base/beneath.h"
#include "base/chaos.h"
#include "base/refused.h"
#include "base/sanitized.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <linux/time_types.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* Tests may set it while other kernel threads make calls. */
static _Atomic(gs_sys_fault_fn *) fault_hook;
static void *_Atomic fault_data;

void gs_sys_set_fault(gs_sys_fault_fn *hook, void *data)
{
    atomic_store_explicit(&fault_data, data, memory_order_relaxed);
    /* Release: pairs with the acquire in call, publishing the data. */
    atomic_store_explicit(&fault_hook, hook, memory_order_release);
}

#if GS_ASAN
/* The sanitizer does not intercept these system calls, so their memory is checked here. */
#include <sanitizer/asan_interface.h>

static void check_memory(const void *bytes, size_t n)
{
    const volatile char *bad = __asan_region_is_poisoned((void *)bytes, n);
    if (bad)
        (void)*bad;
}
#else
static void check_memory(const void *bytes, size_t n)
{
    (void)bytes, (void)n;
}
#endif

#define ARGUMENT_OR_ZERO(n_, a_, b_, c_, d_, e_, f_, ...)                                          \
    (long)(n_), (long)(a_), (long)(b_), (long)(c_), (long)(d_), (long)(e_), (long)(f_)
#define CALL(...) call(ARGUMENT_OR_ZERO(__VA_ARGS__, 0, 0, 0, 0, 0, 0))

static long call(long number, long a, long b, long c, long d, long e, long f)
{
    gs_sys_fault_fn *hook = atomic_load_explicit(&fault_hook, memory_order_acquire);
    if (__builtin_expect(hook != NULL, 0)) {
        long err = hook(number, atomic_load_explicit(&fault_data, memory_order_relaxed));
        if (err)
            return err;
    }
    gs_chaos(CHAOS_CALL);
    return gs_syscall(number, a, b, c, d, e, f);
}

#define CALL_NEWER(call_, ...) (gs_is_known_refused(call_) ? -ENOSYS : CALL(__VA_ARGS__))

int gs_sys_close(int fd)
{
    return (int)CALL(SYS_close, fd);
}

ssize_t gs_sys_read(int fd, void *bytes, size_t n)
{
    check_memory(bytes, n);
    return CALL(SYS_read, fd, bytes, n);
}

ssize_t gs_sys_write(int fd, const void *bytes, size_t n)
{
    check_memory(bytes, n);
    return CALL(SYS_write, fd, bytes, n);
}

ssize_t gs_sys_pread(int fd, void *bytes, size_t n, off_t offset)
{
    check_memory(bytes, n);
    return CALL(SYS_pread64, fd, bytes, n, offset);
}

ssize_t gs_sys_writev(int fd, const struct iovec *iov, int count)
{
    return CALL(SYS_writev, fd, iov, count);
}

ssize_t gs_sys_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    ssize_t n = CALL_NEWER(GS_PREADV2, SYS_preadv2, fd, iov, count, offset, 0, flags);
    if (!gs_is_refused(GS_PREADV2, n))
        return n;
    if (flags)
        return -EOPNOTSUPP;
    return offset < 0 ? CALL(SYS_readv, fd, iov, count) : CALL(SYS_preadv, fd, iov, count, offset);
}

ssize_t gs_sys_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    ssize_t n = CALL_NEWER(GS_PWRITEV2, SYS_pwritev2, fd, iov, count, offset, 0, flags);
    if (!gs_is_refused(GS_PWRITEV2, n))
        return n;
    if (flags)
        return -EOPNOTSUPP;
    return offset < 0 ? CALL(SYS_writev, fd, iov, count)
                      : CALL(SYS_pwritev, fd, iov, count, offset);
}

ssize_t gs_sys_sendfile(int out_fd, int in_fd, off_t *offset, size_t n)
{
    return CALL(SYS_sendfile, out_fd, in_fd, offset, n);
}

int gs_sys_socket(int family, int type, int protocol)
{
    return (int)CALL(SYS_socket, family, type, protocol);
}

int gs_sys_socketpair(int family, int type, int protocol, int fds[2])
{
    return (int)CALL(SYS_socketpair, family, type, protocol, fds);
}

int gs_sys_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    return (int)CALL(SYS_bind, fd, address, length);
}

int gs_sys_listen(int fd, int backlog)
{
    return (int)CALL(SYS_listen, fd, backlog);
}

int gs_sys_accept(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    return (int)CALL(SYS_accept4, fd, address, length, flags);
}

/* Of a listening socket, tcpi_unacked is the length of the queue. What follows it is not copied. An
 * emulator (qemu-user) may copy less. */
unsigned gs_sys_accept_queue(int listener)
{
    const socklen_t needed = offsetof(struct tcp_info, tcpi_sacked);
    struct tcp_info info;
    socklen_t length = needed;
    int err = gs_sys_getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &length);
    bool known = !err && length == needed && info.tcpi_state == TCP_LISTEN;
    return known ? info.tcpi_unacked : 1;
}

int gs_sys_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    return (int)CALL(SYS_connect, fd, address, length);
}

int gs_sys_shutdown(int fd, int how)
{
    return (int)CALL(SYS_shutdown, fd, how);
}

int gs_sys_getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
    return (int)CALL(SYS_getsockname, fd, address, length);
}

int gs_sys_getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
    return (int)CALL(SYS_getpeername, fd, address, length);
}

int gs_sys_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
    return (int)CALL(SYS_getsockopt, fd, level, option, value, length);
}

int gs_sys_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    return (int)CALL(SYS_setsockopt, fd, level, option, value, length);
}

ssize_t gs_sys_recv(int fd, void *bytes, size_t n, int flags)
{
    check_memory(bytes, n);
    return CALL(SYS_recvfrom, fd, bytes, n, flags);
}

ssize_t gs_sys_send(int fd, const void *bytes, size_t n, int flags)
{
    check_memory(bytes, n);
    return CALL(SYS_sendto, fd, bytes, n, flags | MSG_NOSIGNAL);
}

ssize_t gs_sys_recvmsg(int fd, struct msghdr *message, int flags)
{
    return CALL(SYS_recvmsg, fd, message, flags);
}

ssize_t gs_sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return CALL(SYS_sendmsg, fd, message, flags | MSG_NOSIGNAL);
}

int gs_sys_openat(int dirfd, const char *path, int flags, unsigned mode)
{
    return (int)CALL(SYS_openat, dirfd, path, flags, mode);
}

int gs_sys_openat2(int dirfd, const char *path, const struct open_how *how)
{
    int fd = (int)CALL_NEWER(GS_OPENAT2, SYS_openat2, dirfd, path, how, sizeof *how);
    if (!gs_is_refused(GS_OPENAT2, fd))
        return fd;
    if (how->resolve & RESOLVE_BENEATH)
        return gs_open_beneath(dirfd, path, how);
    return gs_sys_openat(dirfd, path, (int)how->flags, (unsigned)how->mode);
}

int gs_sys_fstat(int fd, struct stat *ret_stat)
{
    return (int)CALL(SYS_fstat, fd, ret_stat);
}

int gs_sys_fcntl(int fd, int command, long argument)
{
    return (int)CALL(SYS_fcntl, fd, command, argument);
}

int gs_sys_pipe2(int fds[2], int flags)
{
    return (int)CALL(SYS_pipe2, fds, flags);
}

int gs_sys_dup3(int old_fd, int new_fd, int flags)
{
    return (int)CALL(SYS_dup3, old_fd, new_fd, flags);
}

int gs_sys_ioctl(int fd, unsigned long request, void *argument)
{
    return (int)CALL(SYS_ioctl, fd, request, argument);
}

int gs_sys_epoll_create(int flags)
{
    return (int)CALL(SYS_epoll_create1, flags);
}

int gs_sys_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    return (int)CALL(SYS_epoll_ctl, epoll_fd, operation, fd, event);
}

/* Rounded up, which only matters with the thread sanitizer; -1: no limit. */
static int milliseconds(uint64_t timeout_ns)
{
    if (timeout_ns == UINT64_MAX)
        return -1;
    uint64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* Defined by the runtime of `gossamer cc` for programs with the thread sanitizer, which defers
 * signals during system calls that it does not know of. */
extern const char gs_cc_tells_tsan __attribute__((weak));

int gs_sys_epoll_wait(int epoll_fd, struct epoll_event *events, int count, uint64_t timeout_ns)
{
    if (__builtin_expect(&gs_cc_tells_tsan != NULL, 0)) {
        int n = epoll_wait(epoll_fd, events, count, milliseconds(timeout_ns));
        return n < 0 ? -errno : n;
    }
    struct __kernel_timespec timeout = {
        .tv_sec = (long long)(timeout_ns / 1000000000),
        .tv_nsec = (long long)(timeout_ns % 1000000000),
    };
    int n = (int)CALL_NEWER(GS_EPOLL_PWAIT2, SYS_epoll_pwait2, epoll_fd, events, count,
                            timeout_ns == UINT64_MAX ? NULL : &timeout, NULL, 8);
    if (!gs_is_refused(GS_EPOLL_PWAIT2, n))
        return n;
    if (timeout_ns != UINT64_MAX && timeout_ns % 1000000) {
        struct pollfd set = {.fd = epoll_fd, .events = POLLIN};
        n = gs_sys_poll(&set, 1, timeout_ns);
        if (n <= 0)
            return n;
        timeout_ns = 0;
    }
    return (int)CALL(SYS_epoll_pwait, epoll_fd, events, count, milliseconds(timeout_ns), NULL, 8);
}

int gs_sys_eventfd(unsigned value, int flags)
{
    return (int)CALL(SYS_eventfd2, value, flags);
}

long gs_sys_mmap(void *address, size_t n, int protection, int flags, int fd)
{
    return CALL(SYS_mmap, address, n, protection, flags, fd);
}

int gs_sys_munmap(void *address, size_t n)
{
    return (int)CALL(SYS_munmap, address, n);
}

int gs_sys_mprotect(void *address, size_t n, int protection)
{
    return (int)CALL(SYS_mprotect, address, n, protection);
}

int gs_sys_madvise(void *address, size_t n, int advice)
{
    return (int)CALL(SYS_madvise, address, n, advice);
}

ssize_t gs_sys_process_madvise(int pidfd, const struct iovec *ranges, unsigned count, int advice)
{
    return CALL(SYS_process_madvise, pidfd, ranges, count, advice, 0);
}

ssize_t gs_sys_readv(int fd, const struct iovec *iov, int count)
{
    return CALL(SYS_readv, fd, iov, count);
}

int gs_sys_poll(struct pollfd *polls, unsigned count, uint64_t timeout_ns)
{
    struct __kernel_timespec timeout = {
        .tv_sec = (long long)(timeout_ns / 1000000000),
        .tv_nsec = (long long)(timeout_ns % 1000000000),
    };
    return (int)CALL(SYS_ppoll, polls, count, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL, 8);
}

int gs_sys_select(int count, void *descriptors[3], uint64_t timeout_ns)
{
    struct __kernel_timespec timeout = {
        .tv_sec = (long long)(timeout_ns / 1000000000),
        .tv_nsec = (long long)(timeout_ns % 1000000000),
    };
    return (int)CALL(SYS_pselect6, count, descriptors[0], descriptors[1], descriptors[2],
                     timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
}

int gs_sys_io_uring_setup(unsigned entries, struct io_uring_params *params)
{
    return (int)CALL(SYS_io_uring_setup, entries, params);
}

int gs_sys_io_uring_enter(int fd, unsigned submit, unsigned wait, unsigned flags, void *argument)
{
    return (int)CALL(SYS_io_uring_enter, fd, submit, wait, flags, argument,
                     sizeof(struct io_uring_getevents_arg));
}

int gs_sys_io_uring_register(int fd, unsigned operation, void *argument, unsigned count)
{
    return (int)CALL(SYS_io_uring_register, fd, operation, argument, count);
}

long gs_sys_mmap_shared(int fd, size_t n, off_t offset)
{
    return CALL(SYS_mmap, NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
}

int gs_sys_fsync(int fd)
{
    return (int)CALL(SYS_fsync, fd);
}

int gs_sys_fstatat(int dirfd, const char *path, struct stat *ret_stat, int flags)
{
    return (int)CALL(SYS_newfstatat, dirfd, path, ret_stat, flags);
}

int gs_sys_pidfd_open(pid_t pid, unsigned flags)
{
    return (int)CALL(SYS_pidfd_open, pid, flags);
}

pid_t gs_sys_wait4(pid_t pid, int *ret_status, int options)
{
    return (pid_t)CALL(SYS_wait4, pid, ret_status, options, NULL);
}

int gs_sys_waitid(int kind, int id, void *ret_info, int options, struct rusage *ret_usage)
{
    return (int)CALL(SYS_waitid, kind, id, ret_info, options, ret_usage);
}

/* The kernel's set of signals has 64 bits, the C library's begins with them. */
#define SIGNAL_SET_SIZE 8

int gs_sys_take_signal(const void *signals)
{
    static const struct timespec at_once;
    return (int)CALL(SYS_rt_sigtimedwait, signals, NULL, &at_once, SIGNAL_SET_SIZE);
}

int gs_sys_signalfd(const void *signals, int flags)
{
    return (int)CALL(SYS_signalfd4, -1, signals, SIGNAL_SET_SIZE, flags);
}

int gs_sys_timerfd_create(int clock, int flags)
{
    return (int)CALL(SYS_timerfd_create, clock, flags);
}

int gs_sys_timerfd_settime(int fd, int flags, const struct itimerspec *value)
{
    return (int)CALL(SYS_timerfd_settime, fd, flags, value, NULL);
}

int gs_sys_inotify_init(int flags)
{
    return (int)CALL(SYS_inotify_init1, flags);
}

int gs_sys_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    return (int)CALL(SYS_inotify_add_watch, fd, path, mask);
}

int gs_sys_inotify_rm_watch(int fd, int watch)
{
    return (int)CALL(SYS_inotify_rm_watch, fd, watch);
}

int gs_sys_statfs(const char *path, struct statfs *ret_statfs)
{
    return (int)CALL(SYS_statfs, path, ret_statfs);
}

int gs_sys_cachestat(int fd, const struct gs_cachestat_range *range,
                     struct gs_cachestat *ret_counts)
{
    return (int)CALL(SYS_cachestat, fd, range, ret_counts, 0);
}
