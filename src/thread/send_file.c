/* Sending files, and splicing: calls with two descriptors. */
#include "thread/blocking.h"
#include "thread/io_call.h"
#include "thread/poll.h"
#include "thread/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>

/* Bytes of one sendfile call, so that other threads get their turn. */
#define SENDFILE_MAX ((size_t)1 << 20)

/* Not an errno: the file is not in the page cache. */
#define NOT_CACHED (-4095)

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

struct sending {
    const struct io_call *call;
    ssize_t result;
};

static ssize_t send_uncached(const struct io_call *call)
{
    ssize_t n = -EBADF;
    if (!gs_opened_enter(&call->file))
        return n;
    if (gs_opened_enter(call->other)) {
        do
            n = gs_sys_sendfile(call->file.fd, call->other->fd, call->bytes, call->n);
        while (n == -EINTR);
        gs_opened_leave(call->other);
    }
    gs_opened_leave(&call->file);
    return n;
}

static void send_in_pool(void *argument)
{
    struct sending *sending = argument;
    sending->result = send_uncached(sending->call);
}

/* Run sendfile in the pool, where it may wait for the disk. Meanwhile another thread, also of this
 * worker, may have found the bit clear, and waits: no event need come if there is still room. */
static ssize_t run_uncached(const struct io_call *call, uint64_t deadline_ns)
{
    struct descriptor *descriptor = call->file.descriptor;
    struct sending sending = {.call = call};
    descriptor_clear(descriptor, GS_WRITE);
    int err = gs_run_blocking_as(JOB_FILE, send_in_pool, &sending, deadline_ns);
    if (err || sending.result != -EAGAIN) {
        spin_lock(&descriptor->lock);
        gs_descriptor_notify(worker_current(), descriptor, GS_WRITE, 0);
        spin_unlock(&descriptor->lock);
    }
    return err ? err : sending.result;
}

ssize_t gs_sendfile(int out_fd, int in_fd, off_t *offset, size_t n, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct opened in = opened(in_fd);
    struct io_call call = {.try = try_sendfile,
                           .file = opened(out_fd),
                           .other = &in,
                           .direction = GS_WRITE,
                           .bytes = offset,
                           .n = n < SENDFILE_MAX ? n : SENDFILE_MAX};
    if (!in.descriptor)
        return descriptor_error(in_fd);
    in.has_waited = true; /* perhaps, when it is used */
    for (;;) {
        ssize_t sent = gs_io_run(&call, deadline_ns);
        if (sent == NOT_CACHED)
            sent = run_uncached(&call, deadline_ns);
        if (sent != -EAGAIN)
            return sent;
        call.file.has_waited = true;
        int err = gs_opened_wait(&call.file, GS_WRITE, deadline_ns);
        if (err)
            return err;
    }
}

struct splicing {
    struct opened in, out;
    size_t n;
    unsigned flags;
};

static ssize_t try_splice(const struct splicing *splicing)
{
    ssize_t n = -EBADF;
    if (!opened_enter(&splicing->in))
        return n;
    if (opened_enter(&splicing->out)) {
        n = gs_sys_splice(splicing->in.fd, splicing->out.fd, splicing->n,
                          splicing->flags | SPLICE_F_NONBLOCK);
        opened_leave(&splicing->out);
    }
    opened_leave(&splicing->in);
    return n;
}

/* Either end may be the one that would block: check the input first. */
ssize_t gs_splice(int in_fd, int out_fd, size_t n, unsigned flags, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct splicing splicing = {opened(in_fd), opened(out_fd), n, flags};
    if (!splicing.in.descriptor || !splicing.out.descriptor)
        return descriptor_error(splicing.in.descriptor ? out_fd : in_fd);
    for (;;) {
        ssize_t done = try_splice(&splicing);
        if (done != -EAGAIN && done != -EINTR) {
            turn_spend(done, deadline_ns);
            return done;
        }
        splicing.in.has_waited = splicing.out.has_waited = true;
        int ready = gs_opened_poll(&splicing.in, GS_READ, 0);
        if (ready < 0)
            return ready;
        int err = ready ? gs_opened_wait(&splicing.out, GS_WRITE, deadline_ns)
                        : gs_opened_wait(&splicing.in, GS_READ, deadline_ns);
        if (err)
            return err;
    }
}
