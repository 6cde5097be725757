/* What waits for a call's result stands on the stack of the thread that waits, which is queued at the descriptor meanwhile: so whoever closes that finds it,
 * and its deadline and cancellation end the wait like any other. It then takes its call back before it goes on. */
#include "thread/ring.h"

#include "loop/uring.h"
#include "thread/wait.h"

#include <errno.h>

struct waiting {
    struct uring_call call;
    struct gs_thread *thread;
    struct descriptor *descriptor;
    struct gs_wait_queue *queue; /* of the descriptor's */
    unsigned whose;
    bool has_ended;
    int result;
};

static void ended(struct uring_call *call, int result)
{
    struct waiting *waiting = gs_container_of(call, struct waiting, call);
    struct gs_thread *thread = waiting->thread;
    struct descriptor *descriptor = waiting->descriptor;
    waiting->result = result;
    waiting->has_ended = true;
    spin_lock(&descriptor->lock);
    bool is_claimed = thread_claim(thread, CLAIM_WOKEN);
    if (is_claimed && waiter_is_queued(&thread->waiter))
        waiters_remove(waiting->queue, &thread->waiter);
    spin_unlock(&descriptor->lock);
    if (is_claimed)
        gs_thread_arrive(worker_current(), thread);
}

/* Whether the ring does just what the call does, if that must wait. Of calls for any descriptor, those on sockets. */
static bool has_same(const struct call *call, struct descriptor *descriptor)
{
    switch (call->operation) {
    case IORING_OP_RECV:
        return call->n && !call->flags;
    case IORING_OP_SEND:
        return call->n && !(call->flags & ~(MSG_MORE | MSG_NOSIGNAL));
    case IORING_OP_SENDMSG:
        return !(call->flags & ~(MSG_MORE | MSG_NOSIGNAL));
    case IORING_OP_READV:
    case IORING_OP_WRITEV:
        return gs_descriptor_kind(descriptor, call->fd) == KIND_TCP;
    default:
        return call->operation == IORING_OP_ACCEPT;
    }
}

bool gs_ring_takes(const struct call *call, struct descriptor *descriptor)
{
    struct gs_thread *self = thread_current();
    return gs_uring_takes_calls(self->worker->loop) && !thread_is_mobile(self) &&
           !thread_is_canceled(self) &&
           !atomic_load_explicit(&descriptor->owner, memory_order_relaxed) &&
           has_same(call, descriptor);
}

static void fill(struct io_uring_sqe *entry, const struct call *call)
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

/* The kernel's own errors of calls that are to begin again are told, too. */
static bool is_interrupted(ssize_t result)
{
    return result == -EINTR || result <= -512;
}

/* Until the kernel is done with it. */
static void take_back(struct waiting *waiting)
{
    static const struct wait_kind ending = {"the end of a call", true};
    const struct wait wait = {.kind = &ending, .deadline_ns = GS_NEVER, .is_uninterrupted = true};
    struct gs_loop *loop = waiting->thread->worker->loop;
    int done = 0;
    while (!waiting->has_ended &&
           (done = gs_uring_cancel_call(loop, &waiting->call, waiting->whose)) < 0)
        gs_thread_yield();
    if (done > 0)
        waiting->result = -ECANCELED;
    while (!waiting->has_ended && !done)
        (void)gs_thread_wait(waiting->thread, NULL, &wait);
}

ssize_t gs_ring_run(const struct call *call, struct descriptor *descriptor, uint64_t deadline_ns)
{
    struct gs_thread *self = thread_current();
    struct waiting waiting = {.call.ended = ended, .thread = self, .descriptor = descriptor};
    waiting.queue = descriptor_queue(descriptor, call->direction);
    waiting.whose = call->operation == IORING_OP_ACCEPT ? FOR_ACCEPTING_CALL : FOR_CALL;
    struct io_uring_sqe *entry =
        gs_uring_begin_call(self->worker->loop, &waiting.call, waiting.whose);
    if (!entry)
        return -EAGAIN;
    fill(entry, call);
    int err = gs_descriptor_queue(descriptor, call->fd, call->direction, deadline_ns);
    if (!waiting.has_ended)
        take_back(&waiting);
    ssize_t n = waiting.result;
    if (n == -ECANCELED || is_interrupted(n))
        return err ? err : n == -ECANCELED ? -EAGAIN : -EINTR;
    if (call->direction == GS_READ && call_may_find_more(call, descriptor, n))
        descriptor_set(descriptor, GS_READ);
    return n;
}
