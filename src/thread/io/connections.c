/* Accepting and establishing connections. */
#include "thread/io/blocking_mode.h"
#include "thread/io/io_call.h"
#include "thread/schedule/off_stack.h"
#include "thread/schedule/turn.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>

/* ---- Accepting ---- */

static ssize_t try_accept(const struct io_call *call)
{
    return gs_sys_accept(call->file.fd, call->bytes, call->length, call->flags | SOCK_NONBLOCK);
}

static int accept_in_blocking_mode(const struct io_call *request, uint64_t deadline_ns)
{
    struct off_stack off = {.thread = thread_current()};
    struct io_call call = *request;
    call.bytes = off_stack_out(&off, call.bytes, call.length ? *call.length : 0);
    call.length = off_stack_out(&off, call.length, sizeof *call.length);
    int fd = off.err ? off.err : (int)gs_run_when_ready(&call, deadline_ns);
    off_stack_end(&off);
    return fd;
}

/* An accept that finds no connection is expensive (gs_sys_accept_queue): so one that no event has
 * announced asks first, and takes as many connections as there are without asking again. Others may
 * take some of them: then an accept fails, and waits. Returns 0 if the accept is to be tried, or to
 * wait for an event, or -errno. */
static int ask_for_connection(const struct opened *file, uint64_t deadline_ns)
{
    struct descriptor *listener = file->descriptor;
    unsigned known = atomic_load_explicit(&listener->acceptable, memory_order_relaxed);
    if (deadline_ns && !descriptor_may_be_ready(listener, GS_READ))
        known = 1;
    if (!known) {
        descriptor_clear(listener, GS_READ); /* before asking, as before a system call */
        known = gs_sys_accept_queue(file->fd);
        if (!known)
            return deadline_ns ? 0 : gs_descriptor_wait(file, GS_READ, 0);
        gs_descriptor_set_ready(listener, GS_READ);
        known = known < TURN_ACCEPTS ? known : TURN_ACCEPTS;
    }
    atomic_store_explicit(&listener->acceptable, (unsigned char)(known - 1), memory_order_relaxed);
    return 0;
}

int gs_accept(int fd, struct sockaddr *address, socklen_t *length, int flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct io_call call = {.try = try_accept,
                           .file = opened(fd),
                           .flags = flags,
                           .direction = GS_READ,
                           .bytes = address,
                           .length = length};
    const struct opened *file = &call.file;
    if (!file->descriptor)
        return descriptor_error(fd);
    turn_accept(deadline_ns);
    call.file.has_waited = true; /* for another's turn, or to poll */
    bool may_block = gs_opened_is_in_blocking_mode(file);
    int new_fd = opened_is_closed(file) ? -EBADF : 0;
    if (!new_fd && !may_block)
        new_fd = ask_for_connection(file, deadline_ns);
    if (new_fd)
        return new_fd;
    new_fd = may_block ? accept_in_blocking_mode(&call, deadline_ns)
                       : (int)gs_io_run(&call, deadline_ns);
    if (new_fd < 0)
        return new_fd;
    struct descriptor *descriptor = gs_descriptor(new_fd);
    if (!descriptor) {
        gs_sys_close(new_fd);
        return -ENOMEM;
    }
    enum descriptor_kind kind =
        opened_is_closed(file) ? KIND_UNKNOWN : gs_descriptor_kind(file->descriptor, fd);
    gs_descriptor_reset(descriptor, new_fd, opened_is_closed(file) ? KIND_UNKNOWN : kind);
    return new_fd;
}

/* ---- Connecting ---- */

int gs_connect_result(int fd)
{
    int result = 0;
    struct sockaddr_storage peer;
    socklen_t size = sizeof result, length = sizeof peer;
    int err = gs_sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &result, &size);
    if (err || result)
        return err ? err : -result;
    return gs_sys_getpeername(fd, (struct sockaddr *)&peer, &length);
}

static ssize_t try_connect(const struct io_call *call)
{
    return gs_sys_connect(call->file.fd, call->bytes, (socklen_t)call->n);
}

/* A call that was interrupted has started to connect, except for a Unix socket, which is called
 * again. */
static int connect_in_pool(const struct io_call *call, uint64_t deadline_ns)
{
    const struct sockaddr *address = call->bytes;
    bool is_unix = call->n >= sizeof address->sa_family && address->sa_family == AF_UNIX;
    int result;
    do
        result = (int)gs_run_interrupted(JOB_STREAM, call, POOL_PATIENCE, deadline_ns);
    while (result == -EINTR && is_unix && gs_clock_now() < deadline_ns);
    return result == -EINTR && is_unix ? -ETIMEDOUT : result;
}

static int connect_in_blocking_mode(const struct io_call *request, uint64_t deadline_ns)
{
    struct off_stack off = {.thread = thread_current()};
    struct io_call call = *request;
    call.bytes = off_stack_in(&off, call.bytes, call.n);
    int result = off.err ? off.err : connect_in_pool(&call, deadline_ns);
    off_stack_end(&off);
    return result;
}

int gs_connect(int fd, const struct sockaddr *address, socklen_t length, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct opened file = opened(fd);
    const struct io_call call = {
        .try = try_connect, .file = file, .bytes = (void *)address, .n = length};
    if (!file.descriptor)
        return descriptor_error(fd);
    int result = gs_is_in_blocking_mode(fd) ? connect_in_blocking_mode(&call, deadline_ns)
                                            : (int)try_connect(&call);
    if (result != -EINPROGRESS && result != -EINTR)
        return result;
    do {
        int err = gs_descriptor_wait(&file, GS_WRITE, deadline_ns);
        if (err)
            return err;
        file.has_waited = true;
        if (!opened_enter(&file))
            return -EBADF;
        result = gs_connect_result(fd);
        opened_leave(&file);
    } while (result == -ENOTCONN);
    if (!result)
        descriptor_set(file.descriptor, GS_WRITE);
    return result;
}
