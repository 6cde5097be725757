/* A call in progress is on the stack of the thread that waits for it, which is queued at the
 * descriptor: so gs_close finds the thread, and its deadline and cancellation end the wait as
 * usual. The thread then cancels its call before it returns. */
#include "thread/socket_ring.h"

#include "loop/uring.h"
#include "thread/wait.h"

#include <errno.h>

struct ring_call {
    struct uring_call call;
    struct gs_thread *thread;
    struct descriptor *descriptor;
    struct gs_wait_queue *queue; /* of the descriptor's */
    unsigned purpose;
    bool is_completed;
    int result;
};

static void on_completion(struct uring_call *call, const struct io_uring_cqe *cqe)
{
    struct ring_call *ring_call = gs_container_of(call, struct ring_call, call);
    struct gs_thread *thread = ring_call->thread;
    struct descriptor *descriptor = ring_call->descriptor;
    ring_call->result = cqe->res;
    ring_call->is_completed = true;
    spin_lock(&descriptor->lock);
    bool is_claimed = thread_claim(thread, CLAIM_WOKEN);
    if (is_claimed && waiter_is_queued(&thread->waiter))
        waiters_remove(ring_call->queue, &thread->waiter);
    spin_unlock(&descriptor->lock);
    if (is_claimed)
        gs_thread_enqueue(worker_current(), thread);
}

static bool is_tcp(const struct io_call *call, struct descriptor *descriptor)
{
    return gs_descriptor_kind(descriptor, call->fd) == KIND_TCP;
}

/* Whether the operation of the ring is equivalent to the call, if that has to wait. Calls for any
 * descriptor only go by the ring for sockets. Datagrams are not sent by the ring (op_uring.c). */
static bool is_supported(const struct io_call *call, struct descriptor *descriptor)
{
    switch (call->operation) {
    case IORING_OP_RECV:
        return call->n && !call->flags;
    case IORING_OP_SEND:
        return call->n && !(call->flags & ~(MSG_MORE | MSG_NOSIGNAL)) && is_tcp(call, descriptor);
    case IORING_OP_SENDMSG:
        return !(call->flags & ~(MSG_MORE | MSG_NOSIGNAL)) && is_tcp(call, descriptor);
    case IORING_OP_READV:
    case IORING_OP_WRITEV:
        return is_tcp(call, descriptor);
    default:
        return call->operation == IORING_OP_ACCEPT;
    }
}

bool gs_socket_ring_can_run(const struct io_call *call, struct descriptor *descriptor)
{
    struct gs_thread *self = thread_current();
    return gs_uring_supports_calls(self->worker->loop) && !thread_is_mobile(self) &&
           !thread_must_cancel(self) && is_supported(call, descriptor);
}

static void fill(struct io_uring_sqe *entry, const struct io_call *call)
{
    entry->opcode = call->operation;
    entry->fd = call->fd;
    entry->addr = (uintptr_t)call->bytes;
    entry->msg_flags = (uint32_t)call->flags;
    entry->len = (uint32_t)(call->n < INT32_MAX ? call->n : INT32_MAX);
    switch (call->operation) {
    case IORING_OP_RECV:
        entry->ioprio = IORING_RECVSEND_POLL_FIRST;
        break;
    case IORING_OP_SENDMSG:
        entry->len = 1;
        break;
    case IORING_OP_READV:
    case IORING_OP_WRITEV:
        entry->len = (uint32_t)call->count;
        entry->off = UINT64_MAX;
        break;
    case IORING_OP_ACCEPT:
        entry->addr2 = (uintptr_t)call->length;
        entry->accept_flags |= SOCK_NONBLOCK;
        break;
    default:
        break;
    }
}

/* A cancellation fails while the kernel restarts the call: it is repeated after this time. */
#define RETRY_NS (10 * GS_MILLISECOND)

/* Cancel the call, and wait until the kernel has completed it. A late cancellation cannot reach the
 * next call of the same address: the kernel takes submissions in order. */
static void cancel_and_wait(struct ring_call *ring_call)
{
    static const struct wait_kind ending = {"completion of a canceled call", true};
    struct wait wait = {.kind = &ending, .ignores_cancel = true};
    struct gs_loop *loop = ring_call->thread->worker->loop;
    while (!ring_call->is_completed) {
        int done = gs_uring_cancel_call(loop, &ring_call->call, ring_call->purpose);
        if (done > 0) {
            ring_call->result = -ECANCELED;
            return;
        }
        wait.deadline_ns = gs_clock_now() + RETRY_NS;
        if (done < 0 || gs_thread_wait(ring_call->thread, NULL, &wait) == -ENOMEM)
            gs_thread_yield();
    }
}

ssize_t gs_socket_ring_run(const struct io_call *call, struct descriptor *descriptor,
                           uint64_t deadline_ns)
{
    struct gs_thread *self = thread_current();
    struct ring_call ring_call = {
        .call.completed = on_completion, .thread = self, .descriptor = descriptor};
    ring_call.queue = descriptor_queue(descriptor, call->direction);
    ring_call.purpose = call->operation == IORING_OP_ACCEPT ? TAG_ACCEPT_CALL : TAG_CALL;
    struct io_uring_sqe *entry =
        gs_uring_start_call(self->worker->loop, &ring_call.call, ring_call.purpose);
    if (!entry)
        return -EAGAIN;
    fill(entry, call);
    int err = gs_descriptor_wait_unwatched(descriptor, call->fd, call->direction, deadline_ns);
    if (!ring_call.is_completed)
        cancel_and_wait(&ring_call);
    ssize_t n = ring_call.result;
    if (gs_ring_is_interrupted(n))
        return err ? err : n == -ECANCELED ? -EAGAIN : -EINTR;
    if (call->direction == GS_READ && call_may_leave_more(call, descriptor, n))
        descriptor_set(descriptor, GS_READ);
    return n;
}
