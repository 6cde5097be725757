/* An I/O call as data, and what its result says about the descriptor. */
#ifndef GS_THREAD_IO_CALL_H
#define GS_THREAD_IO_CALL_H

#include "thread/io/descriptors.h"

#include <sys/socket.h>

struct open_how;
struct stat;

/* The first pause before another try of a call, where no event tells when it is possible. */
#define RETRY_FIRST GS_MILLISECOND

static inline uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* An I/O call and its arguments. */
struct io_call {
    ssize_t (*try)(const struct io_call *call); /* does not wait, unless the pool makes it */
    struct opened file;
    int flags, count;
    unsigned direction;
    void *bytes; /* or struct msghdr, struct iovec, struct sockaddr, offset, path */
    size_t n;    /* bytes */
    union {
        socklen_t *length;          /* of the address that is accepted */
        off_t offset;               /* of a transfer; -1: that of the file */
        const struct opened *other; /* the file that is sent */
        const struct open_how *how;
        struct stat *stat;
    };
};

/* Whether there may be more to read or write after the call has returned n. */
static inline bool call_may_leave_more(const struct io_call *call, struct descriptor *descriptor,
                                       ssize_t n)
{
    if (n < 0 || !call->n || (size_t)n == call->n || call->direction == GS_WRITE)
        return n != -EAGAIN;
    return call->flags || atomic_load_explicit(&descriptor->is_hung_up, memory_order_relaxed) ||
           atomic_load_explicit(&descriptor->kind, memory_order_relaxed) != KIND_TCP;
}

/* `try` of a transfer of several parts. Returns -EOPNOTSUPP if the kernel cannot tell whether it
 * would wait. */
ssize_t gs_try_parts(const struct io_call *call);

/* Try the call, and wait until it is possible: then call->file.has_waited is set. */
ssize_t gs_io_run(struct io_call *call, uint64_t deadline_ns);

/* Poll the descriptor. */
bool gs_io_is_ready(int fd, unsigned direction);

/* gs_wait_readable and gs_wait_writable of an open file. */
int gs_opened_wait(const struct opened *file, unsigned direction, uint64_t deadline_ns);

/* Wait until a poll says that the file is ready. The bit, which a wait may have cleared, is set for
 * other calls then. Returns as gs_opened_wait. */
int gs_opened_poll(const struct opened *file, unsigned direction, uint64_t deadline_ns);

/* Pause before the next try. The pause after that is twice as long, but at most 64 ms. Returns 0,
 * -ETIMEDOUT, -ECANCELED or -ENOMEM. */
int gs_pause_before_retry(uint64_t *pause_ns, uint64_t deadline_ns);

/* The calls of io.h on an open file, for those that make several calls of it: they fail with -EBADF
 * once its number was closed. */
ssize_t gs_opened_recv(const struct opened *file, void *bytes, size_t n, int flags,
                       uint64_t deadline_ns);
ssize_t gs_opened_send(const struct opened *file, const void *bytes, size_t n, int flags,
                       uint64_t deadline_ns);
ssize_t gs_opened_read(const struct opened *file, void *bytes, size_t n, uint64_t deadline_ns);
ssize_t gs_opened_write(const struct opened *file, const void *bytes, size_t n,
                        uint64_t deadline_ns);

/* Returns 0 if the connection is established, -ENOTCONN while it is in progress, or the error with
 * which it has failed, which is returned once only. */
int gs_connect_result(int fd);

#endif
