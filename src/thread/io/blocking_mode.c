#include "thread/io/blocking_mode.h"

#include "thread/io/blocking.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <signal.h>

/* How long a worker may be blocked by a call with the deadline 0, and a kernel thread of the pool
 * by another one. */
#define WORKER_PATIENCE GS_MILLISECOND
#define POOL_PATIENCE (10 * GS_MILLISECOND)

bool gs_is_in_blocking_mode(int fd)
{
    int flags = gs_sys_fcntl(fd, F_GETFL, 0);
    return flags >= 0 && !(flags & O_NONBLOCK);
}

bool gs_opened_is_in_blocking_mode(const struct opened *file)
{
    atomic_bool *is_nonblocking = &file->descriptor->is_nonblocking;
    if (LIKELY(atomic_load_explicit(is_nonblocking, memory_order_relaxed)))
        return false;
    bool is_blocking = gs_is_in_blocking_mode(file->fd);
    atomic_store(is_nonblocking, !is_blocking);
    if (UNLIKELY(opened_is_closed(file))) /* it may be another file's */
        atomic_store(is_nonblocking, false);
    return is_blocking;
}

/* ---- In the pool ---- */

struct pool_call {
    struct io_call call;
    ssize_t result;
};

static ssize_t make(const struct io_call *call)
{
    if (!gs_opened_enter(&call->file))
        return -EBADF;
    ssize_t n = call->try(call);
    gs_opened_leave(&call->file);
    return n;
}

/* -EAGAIN is that of the pool. */
static ssize_t make_in_pool(const void *call)
{
    ssize_t n = make(call);
    return n == -EAGAIN ? -EINTR : n;
}

/* The signals that the call itself may cause have their effect, as in a worker: while a terminal's
 * are blocked, a job in the background would read an error where it should stop. */
static void run_interrupted(void *argument)
{
    static const int own[] = {SIGPIPE, SIGTTIN, SIGTTOU};
    struct pool_call *pool_call = argument;
    sigset_t unblocked, before;
    sigemptyset(&unblocked);
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
        if (!sigismember(&gs_runtime.signals, own[i]))
            sigaddset(&unblocked, own[i]);
    pthread_sigmask(SIG_UNBLOCK, &unblocked, &before);
    pool_call->result = gs_call_interrupted(make_in_pool, &pool_call->call, POOL_PATIENCE);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

ssize_t gs_run_interrupted(const struct io_call *call, uint64_t deadline_ns)
{
    struct pool_call pool_call = {.call = *call};
    if (!deadline_ns)
        return gs_call_interrupted(make_in_pool, call, WORKER_PATIENCE);
    int err = gs_run_blocking_as(JOB_STREAM, run_interrupted, &pool_call, sizeof pool_call,
                                 deadline_ns);
    return err ? err : pool_call.result;
}

/* ---- In the thread ---- */

/* Wait until a poll says that the file is ready. The bit, which a wait may have cleared, must be
 * set for other calls then. */
static int wait_until_ready(const struct opened *file, unsigned direction, uint64_t deadline_ns)
{
    while (!gs_io_is_ready(file->fd, direction)) {
        int err = gs_descriptor_wait(file, direction, deadline_ns);
        if (err)
            return err;
        if (opened_is_closed(file))
            return -EBADF;
    }
    gs_descriptor_set_ready(file->descriptor, direction);
    return opened_is_closed(file) ? -EBADF : 0;
}

/* A call that was interrupted has waited long enough already. */
ssize_t gs_run_when_ready(const struct io_call *call, uint64_t deadline_ns)
{
    uint64_t pause_ns = RETRY_FIRST;
    for (;;) {
        int err = wait_until_ready(&call->file, call->direction, deadline_ns);
        if (err)
            return err;
        bool may_block = gs_is_in_blocking_mode(call->file.fd);
        ssize_t n = may_block ? gs_run_interrupted(call, deadline_ns) : make(call);
        if ((n != -EINTR && n != -EAGAIN) || (may_block && n == -EAGAIN))
            return n;
        if (n == -EAGAIN)
            err = gs_pause_before_retry(&pause_ns, deadline_ns);
        else if (gs_clock_now() >= deadline_ns)
            err = -ETIMEDOUT;
        if (err)
            return err;
    }
}
