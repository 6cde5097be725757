/* System calls that return their result or -errno.
 *
 *     ssize_t n = gs_sys_recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
 *     if (n == -EAGAIN)
 *         ...
 *
 * Every call goes to the kernel directly: errno is neither read nor written (it is thread-local,
 * and a user-level thread may come back on another kernel thread), and a program that overrides the
 * C library's functions does not override these. Arguments and meanings are the kernel's; the
 * comments below say only what differs.
 *
 * All calls may be made from any kernel thread and from signal handlers.
 */
#ifndef GOSSAMER_SYS_H
#define GOSSAMER_SYS_H

#include <gossamer/api.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct epoll_event;
struct io_uring_params;
struct iovec;
struct itimerspec;
struct open_how;
struct pollfd;
struct rusage;
struct stat;
struct statfs;

/* One system call with up to six arguments: its result or -errno. */
GS_API long gs_syscall(long number, long a, long b, long c, long d, long e, long f);

/* Fault injection. The hook is asked before each call with the call's number: 0 lets the call pass,
 * -errno fails it without calling the kernel. NULL: none. Set it before other threads run. */
typedef long gs_sys_fault_fn(long number, void *data);
GS_API void gs_sys_set_fault(gs_sys_fault_fn *hook, void *data);

GS_API int gs_sys_close(int fd);
GS_API ssize_t gs_sys_read(int fd, void *bytes, size_t n);
GS_API ssize_t gs_sys_write(int fd, const void *bytes, size_t n);
GS_API ssize_t gs_sys_pread(int fd, void *bytes, size_t n, off_t offset);
GS_API ssize_t gs_sys_writev(int fd, const struct iovec *iov, int count);
/* offset: -1 for the file's own position. flags: RWF_NOWAIT and the others; -EOPNOTSUPP where the
 * kernel has none. */
GS_API ssize_t gs_sys_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
GS_API ssize_t gs_sys_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
/* Advances *offset by what was sent. */
GS_API ssize_t gs_sys_sendfile(int out_fd, int in_fd, off_t *offset, size_t n);

GS_API int gs_sys_socket(int family, int type, int protocol);
GS_API int gs_sys_bind(int fd, const struct sockaddr *address, socklen_t length);
GS_API int gs_sys_listen(int fd, int backlog);
GS_API int gs_sys_accept(int fd, struct sockaddr *address, socklen_t *length, int flags);
GS_API int gs_sys_connect(int fd, const struct sockaddr *address, socklen_t length);
GS_API int gs_sys_shutdown(int fd, int how);
GS_API int gs_sys_getsockname(int fd, struct sockaddr *address, socklen_t *length);
GS_API int gs_sys_getpeername(int fd, struct sockaddr *address, socklen_t *length);
GS_API int gs_sys_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
GS_API int gs_sys_setsockopt(int fd, int level, int option, const void *value, socklen_t length);
/* send and recv never raise SIGPIPE. */
GS_API ssize_t gs_sys_recv(int fd, void *bytes, size_t n, int flags);
GS_API ssize_t gs_sys_send(int fd, const void *bytes, size_t n, int flags);
GS_API ssize_t gs_sys_recvmsg(int fd, struct msghdr *message, int flags);
GS_API ssize_t gs_sys_sendmsg(int fd, const struct msghdr *message, int flags);

GS_API int gs_sys_openat(int dirfd, const char *path, int flags, unsigned mode);
/* Before Linux 5.6, which has none, it is openat; and if it is to resolve beneath dirfd, symbolic
 * links and ".." are refused, wherever they lead. */
GS_API int gs_sys_openat2(int dirfd, const char *path, const struct open_how *how);
GS_API int gs_sys_fstat(int fd, struct stat *ret_stat);
GS_API int gs_sys_fcntl(int fd, int command, long argument);
GS_API int gs_sys_pipe2(int fds[2], int flags);
GS_API int gs_sys_dup3(int old_fd, int new_fd, int flags);
GS_API int gs_sys_ioctl(int fd, unsigned long request, void *argument);

GS_API int gs_sys_epoll_create(int flags);
GS_API int gs_sys_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
/* timeout_ns: UINT64_MAX waits without limit. */
GS_API int gs_sys_epoll_wait(int epoll_fd, struct epoll_event *events, int count,
                             uint64_t timeout_ns);
GS_API int gs_sys_eventfd(unsigned value, int flags);

/* Returns the address or -errno. */
GS_API long gs_sys_mmap(void *address, size_t n, int protection, int flags, int fd);
GS_API int gs_sys_munmap(void *address, size_t n);
GS_API int gs_sys_mprotect(void *address, size_t n, int protection);
GS_API int gs_sys_madvise(void *address, size_t n, int advice);

GS_API ssize_t gs_sys_readv(int fd, const struct iovec *iov, int count);
GS_API ssize_t gs_sys_splice(int in_fd, int out_fd, size_t n, unsigned flags);
/* timeout_ns: UINT64_MAX waits without limit. */
GS_API int gs_sys_poll(struct pollfd *polls, unsigned count, uint64_t timeout_ns);
/* descriptors: those to be read, to be written and with urgent data, as fd_set; any may be NULL. */
GS_API int gs_sys_select(int count, void *descriptors[3], uint64_t timeout_ns);

GS_API int gs_sys_io_uring_setup(unsigned entries, struct io_uring_params *params);
/* argument: a struct io_uring_getevents_arg. Returns how many entries were taken. */
GS_API int gs_sys_io_uring_enter(int fd, unsigned submit, unsigned wait, unsigned flags,
                                 void *argument);
GS_API int gs_sys_io_uring_register(int fd, unsigned operation, void *argument, unsigned count);
/* A part of what fd stands for, shared with it, to be read and written. */
GS_API long gs_sys_mmap_shared(int fd, size_t n, off_t offset);

GS_API int gs_sys_fsync(int fd);
GS_API int gs_sys_fstatat(int dirfd, const char *path, struct stat *ret_stat, int flags);
GS_API int gs_sys_pidfd_open(pid_t pid, unsigned flags);
GS_API pid_t gs_sys_wait4(pid_t pid, int *ret_status, int options);
/* kind: P_PID or P_PIDFD. ret_info: a siginfo_t. */
GS_API int gs_sys_waitid(int kind, int id, void *ret_info, int options, struct rusage *ret_usage);

GS_API int gs_sys_timerfd_create(int clock, int flags);
GS_API int gs_sys_timerfd_settime(int fd, int flags, const struct itimerspec *value);
GS_API int gs_sys_inotify_init(int flags);
GS_API int gs_sys_inotify_add_watch(int fd, const char *path, uint32_t mask);
GS_API int gs_sys_inotify_rm_watch(int fd, int watch);
GS_API int gs_sys_statfs(const char *path, struct statfs *ret_statfs);

/* What is in memory of a part of a file, in pages. -ENOSYS before Linux 6.5, -EPERM: neither the
 * caller's file, nor one that it may write. */
struct gs_cachestat_range {
    uint64_t offset, n;
};
struct gs_cachestat {
    uint64_t cached, dirty, written_back, evicted, recently_evicted;
};
GS_API int gs_sys_cachestat(int fd, const struct gs_cachestat_range *range,
                            struct gs_cachestat *ret_counts);

#endif
