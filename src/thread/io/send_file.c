/* Sending files: a call with two descriptors. */
#include "thread/io/blocking.h"
#include "thread/io/blocking_mode.h"
#include "thread/io/files.h"
#include "thread/schedule/off_stack.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <unistd.h>

/* Bytes of one sendfile call, so that other threads get their turn. */
#define SENDFILE_MAX ((size_t)1 << 20)

/* Not an errno: the file is not in the page cache; the socket has no room, while -EAGAIN is that of
 * the pool. */
#define NOT_CACHED (-4095)
#define NO_ROOM (-4094)

static ssize_t send_cached(const struct io_call *call)
{
    const off_t *offset = call->bytes;
    struct worker *worker = worker_current();
    int file = call->other->fd;
    if (!gs_page_cache_has(&worker->page_cache, file, *offset, call->n, *worker->now_ns))
        return NOT_CACHED;
    return gs_sys_sendfile(call->file.fd, file, call->bytes, call->n);
}

static ssize_t try_sendfile(const struct io_call *call)
{
    if (!opened_enter(call->other))
        return -EBADF;
    ssize_t n = send_cached(call);
    opened_leave(call->other);
    return n;
}

/* The call, without what is on a stack that is shared. */
static struct io_call leave_stack(struct off_stack *off, const struct io_call *call)
{
    struct io_call copy = *call;
    copy.other = off_stack_in(off, call->other, sizeof *call->other);
    copy.bytes = off_stack_out(off, call->bytes, sizeof(off_t));
    return copy;
}

static ssize_t send_in_pool(const struct io_call *call)
{
    if (!gs_opened_enter(call->other))
        return -EBADF;
    ssize_t n = gs_sys_sendfile(call->file.fd, call->other->fd, call->bytes, call->n);
    gs_opened_leave(call->other);
    return n;
}

static ssize_t send_uncached(const struct io_call *call)
{
    ssize_t n = send_in_pool(call);
    return n == -EAGAIN ? NO_ROOM : n;
}

/* Run sendfile in the pool, where it may wait for the disk. Meanwhile another thread, also of this
 * worker, may have found the bit clear, and waits: no event need come if there is still room. */
static ssize_t run_uncached(const struct io_call *request, uint64_t deadline_ns)
{
    struct descriptor *descriptor = request->file.descriptor;
    struct off_stack off = {.thread = thread_current()};
    struct io_call call = leave_stack(&off, request);
    call.try = send_uncached;
    descriptor_clear(descriptor, GS_WRITE);
    ssize_t n = off.err ? off.err : gs_run_in_pool(JOB_FILE, &call, deadline_ns);
    off_stack_end(&off);
    spin_lock(&descriptor->lock);
    gs_descriptor_notify(worker_current(), descriptor, GS_WRITE, 0);
    spin_unlock(&descriptor->lock);
    return n;
}

static ssize_t send_in_blocking_mode(const struct io_call *request, uint64_t deadline_ns)
{
    struct off_stack off = {.thread = thread_current()};
    struct io_call call = leave_stack(&off, request);
    call.try = send_in_pool;
    ssize_t n = off.err ? off.err : gs_run_when_ready(&call, deadline_ns);
    off_stack_end(&off);
    return n;
}

static ssize_t send_file(const struct io_call *request, uint64_t deadline_ns)
{
    struct io_call call = *request;
    const struct opened *out = &call.file;
    if (!out->descriptor)
        return descriptor_error(out->fd);
    if (gs_opened_is_in_blocking_mode(out) &&
        gs_descriptor_kind(out->descriptor, out->fd) != KIND_REGULAR)
        return send_in_blocking_mode(&call, deadline_ns);
    for (;;) {
        ssize_t sent = gs_io_run(&call, deadline_ns);
        if (sent == NOT_CACHED)
            sent = run_uncached(&call, deadline_ns);
        if (sent != NO_ROOM)
            return sent;
        call.file.has_waited = true;
        int err = gs_opened_wait(&call.file, GS_WRITE, deadline_ns);
        if (err)
            return err;
    }
}

/* Without an offset, that of the open file counts, which threads use in turn. */
static ssize_t send_at_file_offset(const struct io_call *call, uint64_t deadline_ns)
{
    const struct opened *in = call->other;
    if (gs_descriptor_kind(in->descriptor, in->fd) != KIND_REGULAR)
        return -EINVAL;
    struct gs_mutex *position = gs_file_position(in);
    ssize_t n = gs_mutex_lock(position, deadline_ns);
    if (n)
        return n;
    off_t offset = -1;
    if (gs_opened_enter(in)) {
        offset = lseek(in->fd, 0, SEEK_CUR);
        gs_opened_leave(in);
    }
    struct io_call sending = *call;
    sending.bytes = &offset;
    sending.file.has_waited = true; /* perhaps, for the position */
    n = offset < 0 ? -EBADF : send_file(&sending, deadline_ns);
    if (n > 0 && gs_opened_enter(in)) {
        (void)lseek(in->fd, offset, SEEK_SET);
        gs_opened_leave(in);
    }
    gs_mutex_unlock(position);
    return n;
}

ssize_t gs_sendfile(int out_fd, int in_fd, off_t *offset, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct opened in = opened(in_fd);
    const struct io_call call = {.try = try_sendfile,
                                 .file = opened(out_fd),
                                 .other = &in,
                                 .direction = GS_WRITE,
                                 .bytes = offset,
                                 .n = n < SENDFILE_MAX ? n : SENDFILE_MAX};
    if (!in.descriptor)
        return descriptor_error(in_fd);
    in.has_waited = true; /* perhaps, when it is used */
    return offset ? send_file(&call, deadline_ns) : send_at_file_offset(&call, deadline_ns);
}
