/* The calls that wait, for user-level threads: those of gossamer/io.h. */
#include "serve/connection/blocking.h"

#include "http/page.h"
#include "serve/connection/file_op.h"
#include "serve/connection/file_send.h"
#include "serve/connection/tls.h"

#include <gossamer/io.h>
#include <gossamer/page_cache.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdlib.h>

/* Wait for bytes, and then for a turn to make a step of a handshake. One connection at a time looks
 * for its turn, so that the others are not run in vain. */
static int wait_for_handshake(struct serve_blocking *blocking, uint64_t deadline_ns)
{
    struct gs_semaphore *handshakes = &blocking->base.shard->handshakes;
    int err = gs_wait_readable(blocking->base.fd, deadline_ns);
    if (!err)
        err = gs_semaphore_wait(handshakes, deadline_ns);
    if (err)
        return err;
    while (serve_tls_must_postpone(&blocking->base, gs_threads_now()))
        gs_thread_end_turn();
    gs_semaphore_post(handshakes);
    return 0;
}

static ssize_t user_receive(struct serve_blocking *blocking, uint64_t deadline_ns)
{
    int err = blocking->base.is_tls && serve_tls_makes_handshake(&blocking->base)
                  ? wait_for_handshake(blocking, deadline_ns)
                  : 0;
    return err ? err
               : gs_recv_with(blocking->base.fd, serve_blocking_answer, blocking, deadline_ns);
}

/* ---- Sending with TLS: on the worker's stack ---- */

struct sending {
    struct serve_output *output;
    const char *bytes; /* of the file that is the output; NULL: it is not read */
    size_t n;
    int fd;
    ssize_t sent;
};

static void *send_here(void *data)
{
    struct sending *sending = data;
    sending->sent = sending->bytes ? serve_file_send_read(sending->output, sending->fd,
                                                          sending->bytes, sending->n)
                                   : serve_output_send(sending->output, sending->fd);
    return NULL;
}

static ssize_t send_encrypted(struct sending sending, uint64_t deadline_ns)
{
    for (;;) {
        gs_thread_call_on_worker_stack(send_here, &sending);
        if (sending.sent != -EAGAIN || !deadline_ns)
            return sending.sent;
        int err = gs_wait_writable(sending.fd, deadline_ns);
        if (err)
            return err;
    }
}

/* ---- Sending ---- */

/* By the pool, if it is not in memory. */
static ssize_t read_file(int fd, void *bytes, size_t n, off_t offset)
{
    return gs_pread(fd, bytes, n, offset, GS_NEVER);
}

static ssize_t copy_file(struct serve_blocking *blocking, struct serve_output *output,
                         uint64_t deadline_ns)
{
    char *bytes;
    ssize_t n = serve_file_copy(output, read_file, &bytes);
    if (n <= 0)
        return n;
    struct sending encrypted = {output, bytes, (size_t)n, .fd = blocking->base.fd};
    n = output->tls ? send_encrypted(encrypted, deadline_ns)
                    : gs_send(blocking->base.fd, bytes, (size_t)n, 0, deadline_ns);
    free(bytes);
    return n;
}

static ssize_t send_from_disk(struct serve_blocking *blocking, struct serve_output *output,
                              uint64_t deadline_ns)
{
    int err = serve_file_check(output);
    if (err || output->tls)
        return err < 0 ? err : copy_file(blocking, output, deadline_ns);
    ssize_t n = gs_sendfile(blocking->base.fd, output->fd, &output->offset, output->n, deadline_ns);
    return serve_note_sendfile(n) ? copy_file(blocking, output, deadline_ns) : n;
}

/* Not inline: the thread may be on another worker than at its last call. */
__attribute__((noinline)) static bool is_in_memory(const struct serve_output *output)
{
    static _Thread_local struct gs_page_cache known;
    const struct gs_page_cache_file file = {output->fd, &output->page->stat};
    return gs_page_cache_has_file(&known, &file, output->offset, output->n, gs_threads_now());
}

/* The file is checked when there is room, not before the wait. gs_sendfile would check once more
 * whether it is in memory. */
static ssize_t user_send_file(struct serve_blocking *blocking, struct serve_output *output,
                              uint64_t deadline_ns)
{
    int err = deadline_ns ? gs_wait_writable(blocking->base.fd, deadline_ns) : 0;
    if (err)
        return err;
    if (!is_in_memory(output))
        return send_from_disk(blocking, output, deadline_ns);
    return output->tls ? send_encrypted((struct sending){output, .fd = blocking->base.fd}, 0)
                       : serve_output_send(output, blocking->base.fd);
}

static ssize_t user_send(struct serve_blocking *blocking, struct serve_output *output,
                         uint64_t deadline_ns)
{
    const struct iovec *part = output->parts;
    const struct msghdr message = {.msg_iov = output->parts, .msg_iovlen = output->count};
    int fd = blocking->base.fd;
    if (output->is_file)
        return user_send_file(blocking, output, deadline_ns);
    if (output->tls)
        return send_encrypted((struct sending){output, .fd = fd}, deadline_ns);
    if (output->count == 1)
        return gs_send(fd, part->iov_base, part->iov_len, output->flags, deadline_ns);
    return gs_sendmsg(fd, &message, output->flags, deadline_ns);
}

static int user_wait(struct serve_blocking *blocking, unsigned events, uint64_t deadline_ns)
{
    struct gs_poll poll = {.fd = blocking->base.fd};
    poll.events = (events & POLLIN ? GS_READ : 0) | (events & POLLOUT ? GS_WRITE : 0);
    if (!events) {
        int err = gs_thread_sleep(deadline_ns);
        return err ? err : -ETIMEDOUT;
    }
    int ready = gs_poll(&poll, 1, deadline_ns);
    if (ready <= 0)
        return ready ? ready : -ETIMEDOUT;
    return (poll.revents & GS_READ ? POLLIN : 0) | (poll.revents & GS_WRITE ? POLLOUT : 0);
}

static int64_t run_file_op(const struct gs_http_file_op *op)
{
    struct open_how how = {.flags = op->flags, .resolve = op->resolve};
    int64_t result;
    if (serve_file_op_try(op, &result))
        return result;
    if (op->kind == GS_HTTP_FILE_WORK)
        return gs_run_blocking(op->work, op->data, GS_NEVER);
    if (op->kind == GS_HTTP_FILE_OPEN)
        return gs_open(op->fd, op->path, &how, GS_NEVER);
    return gs_pread(op->fd, op->bytes, op->n, (off_t)op->offset, GS_NEVER);
}

static void load(struct gs_http_load *load)
{
    struct gs_http_file_op op;
    bool is_cancelable = gs_thread_set_cancelable(false);
    while (gs_http_load_next(load, &op))
        gs_http_load_set_result(load, run_file_op(&op));
    gs_thread_set_cancelable(is_cancelable);
}

static void ignore_cancel(void)
{
    gs_thread_set_cancelable(false);
}

static uint64_t drain_until(const struct serve_blocking *blocking)
{
    return atomic_load_explicit(blocking->base.shard->drain_until_ns, memory_order_relaxed);
}

const struct serve_blocking_calls serve_user_calls = {
    .receive_and_answer = user_receive,
    .send = user_send,
    .wait = user_wait,
    .load = load,
    .now = gs_threads_now,
    .drain_until = drain_until,
    .ignore_cancel = ignore_cancel,
    .yield = gs_thread_yield,
    .call = gs_thread_call_on_worker_stack,
};
