/* System calls that return their result or -errno.
 *
 *     ssize_t n = gs_sys_recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
 *     if (n == -EAGAIN)
 *         ...
 *
 * Calls: these functions call the kernel directly. Arguments and results are the kernel's; only
 * differences are described. The functions neither read nor write errno, which is thread-local: a
 * user-level thread may return from a call on another kernel thread. Programs that override
 * functions of the C library do not override these.
 *
 * Each function returns the result of its system call, or an error of the system call as -errno.
 *
 * Threads: all functions may be called from any kernel thread and from signal handlers.
 */
#ifndef GOSSAMER_SYS_H
#define GOSSAMER_SYS_H

#include <gossamer/api.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

GS_BEGIN_DECLS

struct epoll_event;
struct io_uring_params;
struct iovec;
struct itimerspec;
struct open_how;
struct pollfd;
struct rusage;
struct stat;
struct statfs;

/* ---- Any system call, and the injection of faults ----
 *
 *     long thread_id = gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
 */

/* Make a system call with up to six arguments, without the hook of gs_sys_set_fault. */
GS_API long gs_syscall(long number, long a, long b, long c, long d, long e, long f);

/* Set a hook, which the functions below call before each system call, with its number. It returns 0
 * to make the call, or -errno to fail it without calling the kernel. NULL: no hook. Set it before
 * other threads run. */
typedef long gs_sys_fault_fn(long number, void *data);
GS_API void gs_sys_set_fault(gs_sys_fault_fn *hook, void *data);

/* Returns the name of a system call that the kernel lacks or a filter refuses, and that the library
 * and the programs therefore replace. index: from 0 on; NULL: there are no more. */
GS_API const char *gs_sys_refused(unsigned index);

/* ---- System calls that read, write and close ---- */

GS_API int gs_sys_close(int fd);
GS_API ssize_t gs_sys_read(int fd, void *bytes, size_t n);
GS_API ssize_t gs_sys_write(int fd, const void *bytes, size_t n);
GS_API ssize_t gs_sys_pread(int fd, void *bytes, size_t n, off_t offset);
GS_API ssize_t gs_sys_readv(int fd, const struct iovec *iov, int count);
GS_API ssize_t gs_sys_writev(int fd, const struct iovec *iov, int count);

/* offset: -1: the file's own position. flags: RWF_NOWAIT and others; -EOPNOTSUPP if the kernel does
 * not support them. */
GS_API ssize_t gs_sys_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
GS_API ssize_t gs_sys_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

/* Advances *offset by the number of bytes sent. */
GS_API ssize_t gs_sys_sendfile(int out_fd, int in_fd, off_t *offset, size_t n);

GS_API int gs_sys_fsync(int fd);

/* ---- System calls for sockets ---- */

GS_API int gs_sys_socket(int family, int type, int protocol);
GS_API int gs_sys_socketpair(int family, int type, int protocol, int fds[2]);
GS_API int gs_sys_bind(int fd, const struct sockaddr *address, socklen_t length);
GS_API int gs_sys_listen(int fd, int backlog);
GS_API int gs_sys_connect(int fd, const struct sockaddr *address, socklen_t length);
GS_API int gs_sys_shutdown(int fd, int how);
GS_API int gs_sys_getsockname(int fd, struct sockaddr *address, socklen_t *length);
GS_API int gs_sys_getpeername(int fd, struct sockaddr *address, socklen_t *length);
GS_API int gs_sys_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
GS_API int gs_sys_setsockopt(int fd, int level, int option, const void *value, socklen_t length);

/* As accept4. */
GS_API int gs_sys_accept(int fd, struct sockaddr *address, socklen_t *length, int flags);

/* Returns the number of connections that can be accepted at once from a listening TCP socket; 1 if
 * the kernel does not report it, as for other families. An accept that finds no connection takes
 * ten times as long as this call, because the kernel first allocates a socket and a file. */
GS_API unsigned gs_sys_accept_queue(int listener);

/* Sends never raise SIGPIPE. */
GS_API ssize_t gs_sys_recv(int fd, void *bytes, size_t n, int flags);
GS_API ssize_t gs_sys_send(int fd, const void *bytes, size_t n, int flags);
GS_API ssize_t gs_sys_recvmsg(int fd, struct msghdr *message, int flags);
GS_API ssize_t gs_sys_sendmsg(int fd, const struct msghdr *message, int flags);

/* ---- System calls for files and descriptors ---- */

GS_API int gs_sys_openat(int dirfd, const char *path, int flags, unsigned mode);

/* Before Linux 5.6, which lacks openat2, and where a sandbox refuses it, this is openat. With
 * RESOLVE_BENEATH, all symbolic links and ".." components are then refused. */
GS_API int gs_sys_openat2(int dirfd, const char *path, const struct open_how *how);

GS_API int gs_sys_fstat(int fd, struct stat *ret_stat);
GS_API int gs_sys_fstatat(int dirfd, const char *path, struct stat *ret_stat, int flags);
GS_API int gs_sys_statfs(const char *path, struct statfs *ret_statfs);
GS_API int gs_sys_fcntl(int fd, int command, long argument);
GS_API int gs_sys_pipe2(int fds[2], int flags);
GS_API int gs_sys_dup3(int old_fd, int new_fd, int flags);
GS_API int gs_sys_ioctl(int fd, unsigned long request, void *argument);

/* How much of a range of a file is in the page cache, in pages. Returns 0, -ENOSYS (before Linux
 * 6.5), -EPERM (the caller neither owns the file nor may write it), or another error of the system
 * call. */
struct gs_cachestat_range {
    uint64_t offset, n;
};
struct gs_cachestat {
    uint64_t cached, dirty, written_back, evicted, recently_evicted;
};
GS_API int gs_sys_cachestat(int fd, const struct gs_cachestat_range *range,
                            struct gs_cachestat *ret_counts);

/* ---- System calls that wait for descriptors ---- */

/* As epoll_create1. */
GS_API int gs_sys_epoll_create(int flags);

GS_API int gs_sys_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
GS_API int gs_sys_eventfd(unsigned value, int flags);

/* timeout_ns: UINT64_MAX: wait without limit. */
GS_API int gs_sys_epoll_wait(int epoll_fd, struct epoll_event *events, int count,
                             uint64_t timeout_ns);
GS_API int gs_sys_poll(struct pollfd *polls, unsigned count, uint64_t timeout_ns);

/* descriptors: the fd_sets to watch for reading, writing and urgent data; any may be NULL. */
GS_API int gs_sys_select(int count, void *descriptors[3], uint64_t timeout_ns);

/* ---- System calls for io_uring ---- */

GS_API int gs_sys_io_uring_setup(unsigned entries, struct io_uring_params *params);

/* argument: a struct io_uring_getevents_arg. Returns the number of entries submitted, or an error
 * of the system call. */
GS_API int gs_sys_io_uring_enter(int fd, unsigned submit, unsigned wait, unsigned flags,
                                 void *argument);

GS_API int gs_sys_io_uring_register(int fd, unsigned operation, void *argument, unsigned count);

/* ---- System calls for memory ---- */

/* Returns the address, or an error of the system call as -errno. */
GS_API long gs_sys_mmap(void *address, size_t n, int protection, int flags, int fd);

/* Map a part of fd, shared, readable and writable. Returns the address, or an error of the system
 * call as -errno. */
GS_API long gs_sys_mmap_shared(int fd, size_t n, off_t offset);

GS_API int gs_sys_munmap(void *address, size_t n);
GS_API int gs_sys_mprotect(void *address, size_t n, int protection);
GS_API int gs_sys_madvise(void *address, size_t n, int advice);

/* In the process of a pidfd, which may be PIDFD_SELF (-10000, Linux 6.14). Returns for how many
 * bytes it was done, or -errno. */
GS_API ssize_t gs_sys_process_madvise(int pidfd, const struct iovec *ranges, unsigned count,
                                      int advice);

/* ---- System calls for processes, timers and changes of files ---- */

GS_API int gs_sys_pidfd_open(pid_t pid, unsigned flags);
GS_API pid_t gs_sys_wait4(pid_t pid, int *ret_status, int options);

/* kind: P_PID or P_PIDFD. ret_info: a siginfo_t. */
GS_API int gs_sys_waitid(int kind, int id, void *ret_info, int options, struct rusage *ret_usage);

/* Take one of the signals that are pending, without waiting. signals: a sigset_t. Returns its
 * number, or -EAGAIN (none is pending). */
GS_API int gs_sys_take_signal(const void *signals);

/* As signalfd for a new descriptor. signals: a sigset_t. */
GS_API int gs_sys_signalfd(const void *signals, int flags);

GS_API int gs_sys_timerfd_create(int clock, int flags);
GS_API int gs_sys_timerfd_settime(int fd, int flags, const struct itimerspec *value);
GS_API int gs_sys_inotify_init(int flags);
GS_API int gs_sys_inotify_add_watch(int fd, const char *path, uint32_t mask);
GS_API int gs_sys_inotify_rm_watch(int fd, int watch);

GS_END_DECLS

#endif
