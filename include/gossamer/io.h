/* Input and output that blocks the user thread and not its worker.
 *
 *     ssize_t n = gs_recv(fd, bytes, sizeof bytes, 0, gs_clock_now() + 5 * GS_SECOND);
 *
 * Arguments and results are those of the system calls; errors are returned as -errno, and
 * deadline_ns is described in thread.h: -ETIMEDOUT and -ECANCELED are returned only if nothing was
 * transferred, except by gs_send_all. Calls that are interrupted by a signal are restarted.
 *
 * Threads: these functions are for user threads. Threads on any workers may use a descriptor at the
 * same time. To end another thread's wait on a socket, call shutdown: its receive returns 0, and
 * its send -EPIPE. gs_close wakes the threads that wait, with -EBADF. If a number is reused, a call
 * in progress never reaches the new file: it continues with the open file with which it began, or
 * fails with -EBADF. This includes calls that wait for the pool. A call that begins later may reach
 * the new file.
 *
 * Fairness: a thread whose calls never need to wait does not keep its worker. One that has run for
 * a millisecond lets others run at its next call here. A call with the deadline 0 never switches
 * threads.
 *
 * Closing: a call is tried at once, and waits if it would block. A descriptor is registered with
 * the kernel when it is first waited for, and stays registered. So a descriptor that was used here
 * must be closed with gs_close, or passed to gs_forget before it is closed otherwise: if its number
 * is reused, the new file would be taken for the old one. Where the workers' loops use io_uring
 * (GS_POLLER, loop.h), the kernel keeps the file of a descriptor that was waited for until the loop
 * polls next.
 *
 * Blocking mode: descriptors need not be non-blocking. They are never changed to O_NONBLOCK; those
 * created here have it. No call blocks its worker:
 *
 *     sockets                    receives and sends are made non-blocking one by one; gs_accept,
 *                                gs_connect and gs_sendfile are (P) in blocking mode
 *     pipes, FIFOs, eventfds     calls are non-blocking one by one if the kernel can (RWF_NOWAIT),
 *                                else (P)
 *     terminals and other        (P), or as pipes if the kernel can; a full terminal takes a part
 *     devices, inotify, timerfd,
 *     signalfd
 *     regular files              (F)
 *     opening a FIFO             (F)
 *
 *     (P) The thread waits until the file is ready. The call may still block, if another thread or
 *         process was faster or there is too little room. If O_NONBLOCK is set, the worker makes
 *         the call. Otherwise a kernel thread of the pool does (-EAGAIN: it cannot be created); it
 *         is interrupted after 10 ms, and the thread waits again. With the deadline 0 the worker
 *         makes the call, and is interrupted after 1 ms. A busy listener should be non-blocking. A
 *         socket that gs_accept or gs_sendfile has found non-blocking must stay so.
 *     (F) See the next paragraph.
 *
 * Reads and writes of regular files first try the page cache; all else is done by a pool of kernel
 * threads. They transfer all n bytes, or those up to the end of the file; if the deadline passes,
 * those that the page cache had. Threads that read or write at the offset of the same open file
 * take turns.
 *
 * What differs from the system calls is a table in gossamer-io(7).
 */
#ifndef GOSSAMER_IO_H
#define GOSSAMER_IO_H

#include <gossamer/error.h>
#include <gossamer/loop.h>
#include <gossamer/sync.h>
#include <gossamer/thread.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>

GS_BEGIN_DECLS

struct addrinfo;
struct iovec;
struct open_how;
struct stat;

/* ---- Waiting for descriptors ----
 *
 *     struct gs_poll polls[] = {{.fd = client, .events = GS_READ},
 *                               {.fd = server, .events = GS_READ}};
 *     int ready = gs_poll(polls, 2, deadline_ns);
 */

/* Wait until the descriptor is ready. The call may return early: try the call, and wait again. Each
 * returns 0, -ETIMEDOUT, -ECANCELED, -ENOMEM, -EBADF (a negative descriptor, or gs_close was called
 * meanwhile), or the error with which the kernel refuses to watch fd. */
GS_API GS_MUST_CHECK int gs_wait_readable(int fd, uint64_t deadline_ns);
GS_API GS_MUST_CHECK int gs_wait_writable(int fd, uint64_t deadline_ns);

/* Wait for any of several descriptors: events are GS_READ and GS_WRITE, as requested and returned.
 * A descriptor that is not open, or that gs_close closes meanwhile, is ready for all events; one
 * that is negative never is. Returns how many are ready, 0 at the deadline, -ECANCELED, -ENOMEM, or
 * the error with which the kernel refuses to watch one. */
struct gs_poll {
    int fd;
    uint8_t events, revents;
};
GS_API GS_MUST_CHECK int gs_poll(struct gs_poll *polls, unsigned count, uint64_t deadline_ns);

/* The same, but gs_interrupt ends the wait, or the next one if no thread waits. Several calls of
 * gs_interrupt before a wait count as one. interrupt: initially zero; one thread at a time waits
 * with it. gs_interrupt may be called by user threads and by callbacks of a worker's loop. Returns
 * what gs_poll returns, or -EINTR (it was interrupted, and no descriptor is ready). */
struct gs_interrupt {
    struct gs_spin lock;
    bool is_set;
    void *waiting; /* the wait that it ends; NULL: none */
};
GS_API GS_MUST_CHECK int gs_poll_interruptible(struct gs_poll *polls, unsigned count,
                                               uint64_t deadline_ns,
                                               struct gs_interrupt *interrupt);
GS_API void gs_interrupt(struct gs_interrupt *interrupt);

/* ---- Receiving and sending on sockets ----
 * gs_send, gs_send_all, gs_sendmsg and gs_sendto never raise SIGPIPE. Each returns the number of
 * bytes (for a receive, 0 at the end of the stream), -ETIMEDOUT, -ECANCELED, -ENOMEM, -EBADF (not a
 * descriptor, or gs_close was called meanwhile), or an error of recv(2) or send(2). */

/* As recv(2) and send(2). With MSG_DONTWAIT, and receives also with MSG_OOB or MSG_ERRQUEUE, they
 * do not wait, but return -EAGAIN. With MSG_WAITALL a receive from a stream returns n bytes, or
 * those that have arrived by its end, the deadline or an error, which the next receive returns; so
 * do gs_recvfrom, and gs_recvmsg without a buffer for control messages. With MSG_PEEK or MSG_TRUNC
 * it has no effect. */
GS_API GS_MUST_CHECK ssize_t gs_recv(int fd, void *bytes, size_t n, int flags,
                                     uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_send(int fd, const void *bytes, size_t n, int flags,
                                     uint64_t deadline_ns);

/* Receive, and call fn with the bytes. Use this in servers with many connections: a waiting thread
 * needs no buffer of its own, and its stack stays small. The call waits for bytes, receives them
 * into a buffer of the worker, and calls fn on the worker's stack, before any other thread runs.
 *
 *     while ((n = gs_recv_with(fd, on_received, &connection, deadline_ns)) > 0)
 *         ... send what on_received has prepared;
 *
 * fd: a stream socket. fn is called once, with the n bytes that were received (at most 65536),
 * which are valid during the call; n is 0 at the end of the stream. It must not wait: its calls of
 * this library have the deadline 0. Returns what fn returns, which should not be negative, or an
 * error, as gs_recv does; then fn was not called. */
typedef ssize_t gs_received_fn(void *data, const void *bytes, size_t n);
GS_API GS_MUST_CHECK ssize_t gs_recv_with(int fd, gs_received_fn *fn, void *data,
                                          uint64_t deadline_ns);

/* Send all n bytes. Returns n, or an error, as gs_send does, after which it is unknown how much was
 * sent. */
GS_API GS_MUST_CHECK ssize_t gs_send_all(int fd, const void *bytes, size_t n, uint64_t deadline_ns);

/* As recvmsg(2) and sendmsg(2). */
GS_API GS_MUST_CHECK ssize_t gs_recvmsg(int fd, struct msghdr *message, int flags,
                                        uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_sendmsg(int fd, const struct msghdr *message, int flags,
                                        uint64_t deadline_ns);

/* The calls of recvfrom(2) and sendto(2), for datagrams. address and length may be NULL in
 * gs_recvfrom. If the receiver is a Unix socket with a full queue, the datagram is tried again
 * after pauses of at most 64 ms, unless the sending socket is connected: then the thread waits for
 * an event. */
GS_API GS_MUST_CHECK ssize_t gs_recvfrom(int fd, void *bytes, size_t n, int flags,
                                         struct sockaddr *address, socklen_t *length,
                                         uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_sendto(int fd, const void *bytes, size_t n, int flags,
                                       const struct sockaddr *address, socklen_t length,
                                       uint64_t deadline_ns);

/* ---- Accepting and establishing connections ---- */

/* As accept4(2). flags: SOCK_CLOEXEC; the new descriptor is non-blocking. After 16 connections
 * others run, unless deadline_ns is 0.
 * Returns the new descriptor, -ETIMEDOUT, -ECANCELED, -ENOMEM, -EBADF (not a descriptor, or
 * gs_close was called meanwhile), or an error of accept(2). */
GS_API GS_MUST_CHECK int gs_accept(int fd, struct sockaddr *address, socklen_t *length, int flags,
                                   uint64_t deadline_ns);

/* Wait until the connection is established. After an error the socket cannot be used any more:
 * close it.
 * Returns 0, -ETIMEDOUT, -ECANCELED, -ENOMEM, -EBADF (not a descriptor, or gs_close was called
 * meanwhile), or an error of connect(2). */
GS_API GS_MUST_CHECK int gs_connect(int fd, const struct sockaddr *address, socklen_t length,
                                    uint64_t deadline_ns);

/* ---- Reading and writing with any descriptor ----
 * As read(2), write(2), readv(2) and writev(2), for any descriptor. gs_write and
 * gs_writev raise SIGPIPE, as the system calls do, unless the program ignores it. Each returns the
 * number of bytes (for a read, 0 at the end of the file), -ETIMEDOUT, -ECANCELED, -ENOMEM, -EBADF
 * (not a descriptor, or gs_close was called meanwhile), -EAGAIN (a kernel thread of the pool cannot
 * be created), or an error of read(2) or write(2).
 *
 *     ssize_t n = gs_read(STDIN_FILENO, line, sizeof line, GS_NEVER);
 */

GS_API GS_MUST_CHECK ssize_t gs_read(int fd, void *bytes, size_t n, uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_write(int fd, const void *bytes, size_t n, uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_readv(int fd, const struct iovec *iov, int count,
                                      uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_writev(int fd, const struct iovec *iov, int count,
                                       uint64_t deadline_ns);

/* ---- Sending files ----
 * SIGPIPE is raised, as by the system call, unless the program ignores it. Returns the number of
 * bytes (0 at the end of the input), -ETIMEDOUT, -ECANCELED, -ENOMEM, -EBADF (not a descriptor, or
 * gs_close was called meanwhile), -EAGAIN (a kernel thread of the pool cannot be created), or an
 * error of sendfile(2).
 *
 *     off_t offset = 0;
 *     while ((n = gs_sendfile(fd, file, &offset, size - (size_t)offset, deadline_ns)) > 0)
 *         ;
 */

/* Send from a file to a socket, from *offset on, which is advanced; at most 1 MiB a call. offset:
 * NULL: the file, which must be a regular one, is sent from its own offset. If the range is not in
 * the page cache, a kernel thread of the pool sends it; with the deadline 0, -ETIMEDOUT is
 * returned. A range that was found in the cache is assumed to stay there
 * for a second; a page that is evicted in that time blocks the worker until it was read again. */
GS_API GS_MUST_CHECK ssize_t gs_sendfile(int out_fd, int in_fd, off_t *offset, size_t n,
                                         uint64_t deadline_ns);

/* ---- Closing descriptors ----
 * Both may also be called by any kernel thread while no user threads run, for instance on what
 * gs_listen has returned before gs_threads_run.
 */

/* Close fd; threads that wait for it get -EBADF. While a call in another worker or in the pool may
 * still look the number up, the number stays in use, without a file. In this case an error of
 * close(2) is not reported. Returns 0, or an error of close(2). */
GS_API int gs_close(int fd);

/* Do everything that gs_close does before it closes fd. Call this before close(2), or before
 * dup2(2) replaces the file. If a call on fd has started in the pool, the thread waits for it. */
GS_API void gs_forget(int fd);

/* ---- Files: calls that may wait for a disk ----
 * As openat2(2), pread(2), pwrite(2), fsync(2) and fstatat(2). At the deadline, and when
 * the thread is canceled, a call that has started is waited for, since disk I/O cannot be
 * interrupted, and its result is returned; but an open that waits for the other end of a FIFO is
 * interrupted, within a second. Meanwhile it occupies a kernel thread of the pool: where both ends
 * are opened by user threads, max_pool_threads must be at least the number of such opens.
 *
 * With the deadline 0 reads succeed only from the page cache; everything else returns -ETIMEDOUT.
 * The path of gs_stat must not be empty: call fstat(2), which seldom waits, for a file that is
 * open. Each returns the result of the system call, or -ETIMEDOUT, -ECANCELED, -ENOMEM, -EAGAIN (a
 * kernel thread of the pool cannot be created), or an error of openat2(2), pread(2), pwrite(2),
 * fsync(2) or stat(2).
 *
 *     const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};    <fcntl.h>, <linux/openat2.h>
 *     int fd = gs_open(AT_FDCWD, "index.html", &how, deadline_ns);
 *     ssize_t n = gs_pread(fd, bytes, sizeof bytes, 0, deadline_ns);
 */

GS_API GS_MUST_CHECK int gs_open(int dirfd, const char *path, const struct open_how *how,
                                 uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_pread(int fd, void *bytes, size_t n, off_t offset,
                                      uint64_t deadline_ns);
GS_API GS_MUST_CHECK ssize_t gs_pwrite(int fd, const void *bytes, size_t n, off_t offset,
                                       uint64_t deadline_ns);
GS_API GS_MUST_CHECK int gs_fsync(int fd, uint64_t deadline_ns);
GS_API GS_MUST_CHECK int gs_stat(int dirfd, const char *path, struct stat *ret_stat,
                                 uint64_t deadline_ns);

/* ---- Name resolution, and other calls that block ----
 * They use the pool of kernel threads, which has some for each kind of call (max_pool_threads in
 * thread.h). They are created when they are needed, and end when they have been idle for ten
 * seconds.
 */

/* Look a name up, as getaddrinfo(3). The caller frees the result with freeaddrinfo.
 *
 * A numeric address with the number of a port is returned at once. If the library was built with
 * c-ares, and getaddrinfo would only ask name servers, the event loop of the thread's worker asks
 * them: no kernel thread waits, and any number of look-ups can be in progress. /etc/resolv.conf is
 * read again within a second after a change.
 *
 * getaddrinfo itself is called for names that /etc/hosts has, if /etc/hosts is longer than 64 KiB,
 * for localhost, and where nsswitch.conf has other sources than "files" and "dns", or resolv.conf
 * has options that c-ares does not know (gossamer-io(7) lists all of this). It is called by kernel
 * threads of the pool: names of /etc/hosts have some of their own, and so do others: at most 64 of
 * each, or max_pool_threads. A name whose server does not answer thus delays neither blocking calls
 * nor names of this machine.
 *
 * Threads that look up the same name, service and hints at the same time share one look-up.
 *
 * At the deadline, and when the thread is canceled, a look-up that no other thread waits for is
 * abandoned, even if it has started. If it is one of getaddrinfo, a kernel thread that no longer
 * belongs to the pool completes it and discards the result. There are at most 64 such kernel
 * threads. Beyond that, abandoned look-ups occupy the pool until they end, and the run ends only
 * after them.
 *
 * Returns 0, -GS_ENONAME (no such name or service, or the name has no address), -GS_ENAMESERVER
 * (the name server does not answer, refuses, has failed, or its answer is malformed; or there is no
 * file descriptor for asking it), -ENOMEM, -EAGAIN (a kernel thread of the pool cannot be created),
 * -EINVAL (the hints are invalid), -EIO (any other failure), -ETIMEDOUT or -ECANCELED. */
GS_API GS_MUST_CHECK int gs_resolve(const char *node, const char *service,
                                    const struct addrinfo *hints, uint64_t deadline_ns,
                                    struct addrinfo **ret_addresses);

/* Run fn in a kernel thread of the pool. The deadline limits the wait for a kernel thread; once fn
 * has started, it is waited for. What fn uses must not be on the caller's stack if that is shared
 * (gs_thread_attributes.stack_is_shared). Returns 0 when fn has returned; if it was not started
 * -ETIMEDOUT, -ECANCELED, -ENOMEM or -EAGAIN (a kernel thread cannot be created). */
GS_API GS_MUST_CHECK int gs_run_blocking(void (*fn)(void *argument), void *argument,
                                         uint64_t deadline_ns);

/* ---- Waiting for child processes and signals ---- */

/* Wait until a child, of posix_spawn(3), fork(2) or gs_fork, has ended, and get its status as from
 * waitpid(2). After -ETIMEDOUT and -ECANCELED the child still runs, and must still be waited for.
 * Returns 0, -ETIMEDOUT, -ECANCELED, -ENOMEM, -EMFILE, -ENFILE, -EINVAL (the process id is not
 * positive), or -ECHILD (no such child). */
GS_API GS_MUST_CHECK int gs_wait_child(pid_t pid, uint64_t deadline_ns, int *ret_status);

/* Wait for a signal, which is caught during this call. Returns 0, -EINVAL (no such signal, or it
 * cannot be caught), -ENOMEM, -ETIMEDOUT or -ECANCELED. */
GS_API GS_MUST_CHECK int gs_wait_signal(int number, uint64_t deadline_ns);

/* Wait for one of several signals, which must be blocked in all kernel threads (sync.h, gs_select):
 * so none is lost between two calls. Returns the number of the one that was taken, -ENOMEM,
 * -EMFILE, -ENFILE, -ETIMEDOUT or -ECANCELED. */
GS_API GS_MUST_CHECK int gs_wait_signals(const sigset_t *signals, uint64_t deadline_ns);

GS_END_DECLS

#endif
