/* Threads take what was received ahead. */
#include "thread/receive_ahead_state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

struct ahead_buffer gs_ahead_take_buffer(struct ahead *ahead)
{
    const char *bytes = gs_uring_buffer(loop_of(ahead), ahead->buffer);
    const struct ahead_buffer buffer = {bytes + ahead->at, (size_t)(ahead->end - ahead->at),
                                        ahead->buffer};
    ahead->at = ahead->end;
    return buffer;
}

void gs_ahead_release_buffer(const struct ahead_buffer *buffer)
{
    gs_uring_release_buffer(worker_current()->loop, buffer->number);
}

/* Copy the bytes behind the first `used` ones of the parts. Returns how many. */
static size_t copy_out(const struct iovec *parts, int count, size_t used, const char *bytes,
                       size_t n)
{
    size_t at = 0;
    for (int i = 0; i < count && at < n; i++) {
        size_t room = parts[i].iov_len;
        size_t skipped = used < room ? used : room;
        used -= skipped;
        room -= skipped;
        size_t some = room < n - at ? room : n - at;
        if (some && bytes)
            memcpy((char *)parts[i].iov_base + skipped, bytes + at, some);
        at += some;
    }
    return at;
}

static void consume(struct ahead *ahead, size_t from_buffer, size_t from_kept)
{
    struct kept *kept = ahead->kept;
    if (from_buffer) {
        ahead->at = (uint16_t)(ahead->at + from_buffer);
        if (ahead->at == ahead->end)
            gs_uring_release_buffer(loop_of(ahead), ahead->buffer);
    }
    if (!from_kept)
        return;
    kept->at += from_kept;
    if (kept->at == kept->n) {
        free(kept);
        ahead->kept = NULL;
    }
}

static ssize_t take_error(struct ahead *ahead)
{
    int error = ahead->error;
    if (error != -ENOMEM)
        ahead->error = 0;
    return error;
}

ssize_t gs_ahead_take(struct ahead *ahead, const struct iovec *parts, int count, int flags)
{
    struct kept *kept = ahead->kept;
    const bool discards = flags & MSG_TRUNC; /* of TCP */
    size_t from_buffer = 0, from_kept = 0;
    if (!has_buffer(ahead) && !kept)
        return take_error(ahead);
    if (has_buffer(ahead)) {
        const char *bytes = gs_uring_buffer(loop_of(ahead), ahead->buffer);
        from_buffer = copy_out(parts, count, 0, discards ? NULL : bytes + ahead->at,
                               (size_t)(ahead->end - ahead->at));
    }
    if (kept)
        from_kept = copy_out(parts, count, from_buffer, discards ? NULL : kept->bytes + kept->at,
                             kept->n - kept->at);
    if (!(flags & MSG_PEEK))
        consume(ahead, from_buffer, from_kept);
    return (ssize_t)(from_buffer + from_kept);
}

static ssize_t take_for(struct ahead *ahead, const struct io_call *call)
{
    struct iovec whole = {.iov_base = call->bytes, .iov_len = call->n};
    struct msghdr *message = call->bytes;
    if (call->operation == IORING_OP_RECV)
        return gs_ahead_take(ahead, &whole, 1, call->flags);
    if (call->operation == IORING_OP_READV)
        return gs_ahead_take(ahead, call->bytes, call->count, 0);
    ssize_t n = gs_ahead_take(ahead, message->msg_iov, (int)message->msg_iovlen, call->flags);
    if (n >= 0) {
        message->msg_namelen = 0;
        message->msg_controllen = 0;
        message->msg_flags = 0;
    }
    return n;
}

ssize_t gs_ahead_run(struct descriptor *descriptor, const struct io_call *call,
                     uint64_t deadline_ns)
{
    /* Accepting, and what is not in the stream of bytes. */
    if (call->operation == IORING_OP_ACCEPT || call->flags & (MSG_OOB | MSG_ERRQUEUE))
        return -EAGAIN;
    for (;;) {
        struct ahead *ahead;
        int state = gs_ahead_look(descriptor, !deadline_ns, &ahead);
        if (state < 0 || state == AHEAD_NOTHING)
            return state < 0 ? state : -EAGAIN;
        if (state != AHEAD_COMING)
            return take_for(ahead, call);
        int err = gs_ahead_wait(descriptor, ahead, call->fd, deadline_ns);
        if (err)
            return err;
    }
}
