#include "thread/io/blocking_mode.h"

#include "thread/io/blocking.h"
#include "thread/schedule/off_stack.h"

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

struct interrupted {
    gs_interrupted_fn *make;
    const void *argument;
    ssize_t result;
};

/* The signals that the call itself may cause have their effect, as in a worker: while a terminal's
 * are blocked, a job in the background would read an error where it should stop. */
static void run_interrupted(void *argument)
{
    static const int own[] = {SIGPIPE, SIGTTIN, SIGTTOU};
    struct interrupted *interrupted = argument;
    sigset_t unblocked, before;
    sigemptyset(&unblocked);
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
        if (!sigismember(&gs_runtime.signals, own[i]))
            sigaddset(&unblocked, own[i]);
    pthread_sigmask(SIG_UNBLOCK, &unblocked, &before);
    interrupted->result =
        gs_call_interrupted(interrupted->make, interrupted->argument, POOL_PATIENCE);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

ssize_t gs_run_interrupted(gs_interrupted_fn *make, const void *argument, size_t size,
                           uint64_t deadline_ns)
{
    if (!deadline_ns)
        return gs_call_interrupted(make, argument, WORKER_PATIENCE);
    struct off_stack off = {.thread = thread_current()};
    struct interrupted interrupted = {.make = make, .argument = off_stack_in(&off, argument, size)};
    int err = off.err;
    if (!err)
        err = gs_run_blocking_as(JOB_STREAM, run_interrupted, &interrupted, sizeof interrupted,
                                 deadline_ns);
    off_stack_end(&off);
    return err ? err : interrupted.result;
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

struct ready_call {
    struct io_call call;
    gs_interrupted_fn *make;
};

static ssize_t make_opened(const void *argument)
{
    const struct ready_call *ready = argument;
    if (!gs_opened_enter(&ready->call.file))
        return -EBADF;
    ssize_t n = ready->make(&ready->call);
    gs_opened_leave(&ready->call.file);
    return n;
}

/* -EAGAIN is that of the pool. */
static ssize_t make_in_pool(const void *argument)
{
    ssize_t n = make_opened(argument);
    return n == -EAGAIN ? -EINTR : n;
}

/* A call that was interrupted has waited long enough already. */
ssize_t gs_run_when_ready(const struct io_call *call, gs_interrupted_fn *make, uint64_t deadline_ns)
{
    const struct ready_call ready = {*call, make};
    uint64_t pause_ns = RETRY_FIRST;
    for (;;) {
        int err = wait_until_ready(&call->file, call->direction, deadline_ns);
        if (err)
            return err;
        bool may_block = gs_is_in_blocking_mode(call->file.fd);
        ssize_t n = may_block ? gs_run_interrupted(make_in_pool, &ready, sizeof ready, deadline_ns)
                              : make_opened(&ready);
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
