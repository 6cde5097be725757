#include "thread/io/blocking_mode.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <signal.h>

/* How long a worker may be blocked by a call with the deadline 0. */
#define WORKER_PATIENCE GS_MILLISECOND

bool gs_is_in_blocking_mode(int fd)
{
    int flags = gs_sys_fcntl(fd, F_GETFL, 0);
    return flags < 0 || !(flags & O_NONBLOCK);
}

bool gs_opened_is_in_blocking_mode(const struct opened *file)
{
    struct descriptor *descriptor = file->descriptor;
    if (LIKELY(atomic_load_explicit(&descriptor->is_nonblocking, memory_order_relaxed)))
        return false;
    bool is_settled = descriptor_is_settled(descriptor);
    if (gs_is_in_blocking_mode(file->fd))
        return true;
    spin_lock(&descriptor->lock);
    if (is_settled && !opened_is_closed(file))
        atomic_store(&descriptor->is_nonblocking, true);
    spin_unlock(&descriptor->lock);
    return false;
}

/* ---- In the pool ---- */

struct pool_call {
    struct io_call call;
    uint64_t patience_ns;
    ssize_t result;
};

/* A path may be below no descriptor. */
static ssize_t make(const struct io_call *call)
{
    const struct opened *file = &call->file;
    if (!file->descriptor && file->fd >= 0)
        return descriptor_error(file->fd);
    if (file->descriptor && !gs_opened_enter(file))
        return -EBADF;
    ssize_t n = call->try(call);
    if (file->descriptor)
        gs_opened_leave(file);
    return n;
}

static void run_to_end(void *argument)
{
    struct pool_call *pool_call = argument;
    do
        pool_call->result = make(&pool_call->call);
    while (pool_call->result == -EINTR);
}

ssize_t gs_run_in_pool(enum job_kind kind, const struct io_call *call, uint64_t deadline_ns)
{
    struct pool_call pool_call = {.call = *call};
    int err = gs_run_blocking_as(kind, run_to_end, &pool_call, sizeof pool_call, deadline_ns);
    return err ? err : pool_call.result;
}

static ssize_t make_interrupted(const void *call)
{
    return make(call);
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
    pool_call->result =
        gs_call_interrupted(make_interrupted, &pool_call->call, pool_call->patience_ns);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

ssize_t gs_run_interrupted(enum job_kind kind, const struct io_call *call, uint64_t patience_ns,
                           uint64_t deadline_ns)
{
    struct pool_call pool_call = {.call = *call, .patience_ns = patience_ns};
    int err = 0;
    if (deadline_ns)
        err = gs_run_blocking_as(kind, run_interrupted, &pool_call, sizeof pool_call, deadline_ns);
    else
        pool_call.result = gs_call_interrupted(make_interrupted, call, WORKER_PATIENCE);
    /* -EAGAIN of a stream is that of the pool. */
    bool has_no_room = pool_call.result == -EAGAIN && kind == JOB_STREAM;
    return err ? err : has_no_room ? -EINTR : pool_call.result;
}

/* ---- In the thread ---- */

/* A call that was interrupted has waited long enough already. */
ssize_t gs_run_when_ready(const struct io_call *call, uint64_t deadline_ns)
{
    uint64_t pause_ns = RETRY_FIRST;
    for (;;) {
        int err = gs_opened_poll(&call->file, call->direction, deadline_ns);
        if (err)
            return err;
        bool may_block = gs_is_in_blocking_mode(call->file.fd);
        ssize_t n = may_block ? gs_run_interrupted(JOB_STREAM, call, POOL_PATIENCE, deadline_ns)
                              : make(call);
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
