/* Input and output that blocks the user thread and not its worker.
 *
 *     ssize_t n = gs_recv(fd, bytes, sizeof bytes, 0, gs_clock_now() + 5 * GS_SECOND);
 *
 * Arguments and results are those of the system calls, errors come as -errno, and deadline_ns is as
 * told in thread.h: -ETIMEDOUT and -ECANCELED are returned only if nothing was transferred. Calls
 * interrupted by a signal go on.
 *
 * A call is tried at once, and waits if it would block; a descriptor is registered with the kernel
 * when it is first waited for, once for its life. So a descriptor that was used here must be closed
 * with gs_close, or announced to gs_forget before it is closed otherwise: else its number, given
 * anew, would be taken for the old file.
 *
 * Descriptors need not be non-blocking: sockets are asked call by call, and what cannot be asked so
 * (pipes on old kernels, terminals) is tried only when the kernel reported it ready. Descriptors are
 * never changed to O_NONBLOCK; new ones made here are.
 *
 * Where the workers' loops are on io_uring (GS_POLLER, loop.h), the kernel receives, sends and accepts
 * for threads that do not migrate: without a system call for each, and a send waits, too.
 *
 * Regular files are asked for what is in memory, and the rest is done by io_uring, where the kernel
 * has it (GOSSAMER_NO_IO_URING in the environment does without), or else by a pool of kernel threads.
 * Threads that read or write at the position of the same open file take turns.
 */
#ifndef GOSSAMER_IO_H
#define GOSSAMER_IO_H

#include <gossamer/loop.h>
#include <gossamer/thread.h>
#include <sys/socket.h>
#include <sys/types.h>

struct addrinfo;
struct iovec;
struct open_how;
struct stat;

/* ---- Waiting ---- */

/* Return 0, -ETIMEDOUT, -ECANCELED, -ENOMEM, -EBADF (closed meanwhile), or why the kernel refuses to
 * watch fd. They may return early: try, and wait again. */
GS_API GS_MUST_CHECK int gs_wait_readable(int fd, uint64_t deadline_ns);
GS_API GS_MUST_CHECK int gs_wait_writable(int fd, uint64_t deadline_ns);

/* Wait for any of several: wanted and returned are GS_READ and GS_WRITE. Returns how many are ready,
 * 0 at the deadline, or -errno. */
struct gs_poll {
    int fd;
    uint8_t wanted, ready;
};
GS_API GS_MUST_CHECK int gs_poll(struct gs_poll *polls, unsigned count, uint64_t deadline_ns);

/* ---- Sockets ---- */

GS_API GS_MUST_CHECK ssize_t gs_recv(int fd, void *bytes, size_t n, int flags,
                                     uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_send(int fd, const void *bytes, size_t n, int flags,
                                     uint64_t deadline_ns);

/* Send all of it: returns n or -errno, after which it is not known how much went out. */
GS_API GS_MUST_CHECK ssize_t gs_send_all(int fd, const void *bytes, size_t n, uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_recvmsg(int fd, struct msghdr *message, int flags,
                                        uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_sendmsg(int fd, const struct msghdr *message, int flags,
                                        uint64_t deadline_ns);

/* flags: SOCK_CLOEXEC; the new descriptor is non-blocking. A listener that others share is accepted
 * from when the kernel reports it ready. */
GS_API GS_MUST_CHECK int gs_accept(int fd, struct sockaddr *address, socklen_t *length, int flags,
                                   uint64_t deadline_ns);

/* fd: non-blocking, or the call blocks the worker. */
GS_API GS_MUST_CHECK int gs_connect(int fd, const struct sockaddr *address, socklen_t length,
                                    uint64_t deadline_ns);

/* ---- Any descriptor ---- */

GS_API GS_MUST_CHECK ssize_t gs_read(int fd, void *bytes, size_t n, uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_write(int fd, const void *bytes, size_t n, uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_readv(int fd, const struct iovec *iov, int count,
                                      uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_writev(int fd, const struct iovec *iov, int count,
                                       uint64_t deadline_ns);

/* From a file to a non-blocking socket, from *offset on, which is advanced; at most 1 MiB a call.
 * What of that is not in memory is waited for by this thread only: a kernel thread of the pool sends
 * it. With the deadline 0 it is -ETIMEDOUT. What was found in memory is taken to be there for a
 * second; a page that the kernel takes away in that time holds the worker up until it was read again. */
GS_API GS_MUST_CHECK ssize_t gs_sendfile(int out_fd, int in_fd, off_t *offset, size_t n,
                                         uint64_t deadline_ns);

/* Between two descriptors, one of them a pipe, at their own positions. */
GS_API GS_MUST_CHECK ssize_t gs_splice(int in_fd, int out_fd, size_t n, unsigned flags,
                                       uint64_t deadline_ns);

/* Those that wait for it get -EBADF. Returns as close does. */
GS_API int gs_close(int fd);
GS_API void gs_forget(int fd);

/* ---- Files ----
 * At the deadline, and when the thread is cancelled, what the kernel has begun is cancelled, and its
 * end waited for: if it was done by then, the result is returned. Reading and writing of files on a
 * disk cannot be interrupted, and neither can the pool. With the deadline 0 only what is in memory is
 * read; all else is -ETIMEDOUT. */

GS_API GS_MUST_CHECK int gs_open(int dirfd, const char *path, const struct open_how *how,
                                 uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_pread(int fd, void *bytes, size_t n, off_t offset,
                                      uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_pwrite(int fd, const void *bytes, size_t n, off_t offset,
                                       uint64_t deadline_ns);
GS_API GS_MUST_CHECK int gs_fsync(int fd, uint64_t deadline_ns);
GS_API GS_MUST_CHECK int gs_stat(int dirfd, const char *path, struct stat *ret_stat,
                                 uint64_t deadline_ns);

/* ---- Names, any other call that blocks, children, signals ----
 * The first two go through the pool: the deadline limits the wait for a kernel thread of it; what that
 * has begun is waited for. */

/* getaddrinfo. Returns 0, -ENOENT (no such name or service), -EAGAIN (the name service failed for
 * now), -ENOMEM, -EINVAL, -EIO, -ETIMEDOUT or -ECANCELED. To be freed with freeaddrinfo. */
GS_API GS_MUST_CHECK int gs_resolve(const char *node, const char *service,
                                    const struct addrinfo *hints, uint64_t deadline_ns,
                                    struct addrinfo **ret_addresses);

/* Run fn in a kernel thread of the pool. Returns 0 when it has returned, -ETIMEDOUT or -ECANCELED if
 * it was not begun, -EAGAIN (no kernel thread to be had). */
GS_API GS_MUST_CHECK int gs_run_blocking(void (*fn)(void *argument), void *argument,
                                         uint64_t deadline_ns);

/* Wait for a child's end. Returns 0, and its status as waitpid gives it, -ECHILD, or as above. */
GS_API GS_MUST_CHECK int gs_wait_child(pid_t pid, uint64_t deadline_ns, int *ret_status);

/* Wait for a signal, which is caught while this waits: one thread a signal. Returns 0, -EBUSY,
 * -EINVAL, -ETIMEDOUT or -ECANCELED. */
GS_API GS_MUST_CHECK int gs_wait_signal(int number, uint64_t deadline_ns);

#endif
