#include "thread/receive_ahead.h"
#include "loop/uring.h"
#include "thread/io_call.h"
#include "thread/wait.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>
#include <sys/uio.h>

/* A cancellation may fail while the kernel receives: it is repeated after so many bytes were kept,
 * or after so many rounds of the ring. */
#define CANCEL_BYTES ((size_t)64 << 10)
#define CANCEL_ROUNDS 8u
#define STOP_ROUNDS 256u

/* Copies of what arrived while no thread waited. */
struct kept {
    size_t at, n; /* the first that was not taken; the end */
    char bytes[];
};

/* Whose it is; changed under the descriptor's lock. */
enum place {
    ATTACHED,
    HANDED_OVER, /* in closed_aheads of its worker: another has closed the descriptor */
    ENDING,      /* in ending_aheads: it is freed after the last completion */
};

struct ahead {
    struct uring_call call;
    struct descriptor *descriptor;
    struct worker *worker;
    union {
        struct {
            struct kept *kept; /* follows what is in the buffer */
            struct ahead *next;
        };
        struct gs_list link; /* ENDING */
    };
    int16_t result; /* at the end: 0 or -errno */
    uint16_t n;     /* bytes in the buffer */
    uint16_t buffer;
    unsigned char place;
    bool has_buffer : 1;
    bool is_active : 1;   /* the kernel may complete it */
    bool is_canceled : 1; /* it will end */
    bool has_ended : 1;   /* result is to be reported */
    bool is_broken : 1;   /* bytes were lost for lack of memory: result is reported each time */
    bool is_over : 1;     /* gs_recv_ahead_end was called */
};
_Static_assert(BUFFER_SIZE <= UINT16_MAX && BUFFERS_MAX <= UINT16_MAX, "n and buffer have 16 bits");

/* ---- Ending ---- */

static struct gs_loop *loop_of(const struct ahead *ahead)
{
    return ahead->worker->loop;
}

static void release_buffer(struct ahead *ahead)
{
    if (ahead->has_buffer)
        gs_uring_release_buffer(loop_of(ahead), ahead->buffer);
    ahead->has_buffer = false;
}

/* If the kernel accepts no request, it is repeated later. */
static void cancel(struct ahead *ahead)
{
    int done = gs_uring_cancel_call(loop_of(ahead), &ahead->call, TAG_CALL);
    ahead->is_canceled = !done;
    ahead->is_active = done <= 0;
}

/* The kernel had not seen the request, and completes nothing: threads that wait try again. */
static void wake_after_withdrawal(struct ahead *ahead)
{
    struct descriptor *descriptor = ahead->descriptor;
    spin_lock(&descriptor->lock);
    if (ahead->place == ATTACHED)
        gs_descriptor_wake_readers(ahead->worker, descriptor, 0);
    spin_unlock(&descriptor->lock);
}

/* Returns when it has ended, or there is no room in the ring: then it will end later. */
static void stop(struct ahead *ahead)
{
    for (unsigned i = 0; ahead->is_active && i < STOP_ROUNDS; i++) {
        if (!ahead->is_canceled || i % CANCEL_ROUNDS == CANCEL_ROUNDS - 1)
            cancel(ahead);
        if (!ahead->is_active)
            wake_after_withdrawal(ahead);
        else if (gs_uring_collect_call(loop_of(ahead), &ahead->call, TAG_CALL))
            return;
    }
}

static void hand_over(struct ahead *ahead)
{
    struct ahead *_Atomic *list = &ahead->worker->closed_aheads;
    ahead->place = HANDED_OVER;
    ahead->next = atomic_load_explicit(list, memory_order_relaxed);
    gs_chaos(CHAOS_PUBLISH);
    /* Release: pairs with the acquire in gs_ahead_end_closed, publishing the links. */
    while (!atomic_compare_exchange_weak_explicit(list, &ahead->next, ahead, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

/* Called by its worker, when it is no descriptor's. The descriptor is not accessed again. */
static void end(struct ahead *ahead)
{
    release_buffer(ahead);
    free(ahead->kept);
    ahead->kept = NULL;
    if (ahead->is_active)
        cancel(ahead);
    if (!ahead->is_active) {
        free(ahead);
    } else if (ahead->is_canceled) {
        ahead->place = ENDING;
        gs_list_append(&ahead->worker->ending_aheads, &ahead->link);
    } else {
        hand_over(ahead);
    }
}

void gs_ahead_close(struct descriptor *descriptor)
{
    struct ahead *ahead = descriptor->ahead;
    struct worker *worker = ahead->worker;
    atomic_store_explicit(&descriptor->first_use, FIRST_IS_FREE, memory_order_release);
    if (worker == worker_current()) {
        end(ahead);
        return;
    }
    hand_over(ahead);
    gs_loop_wake(worker->loop); /* the ring holds the file */
}

void gs_ahead_end_closed(struct worker *worker)
{
    struct ahead *ahead =
        atomic_exchange_explicit(&worker->closed_aheads, NULL, memory_order_acquire);
    while (ahead) {
        struct ahead *next = ahead->next;
        end(ahead);
        ahead = next;
    }
}

void gs_aheads_forget_closed(struct worker *worker)
{
    struct ahead *ahead =
        atomic_exchange_explicit(&worker->closed_aheads, NULL, memory_order_acquire);
    while (ahead) {
        struct ahead *next = ahead->next;
        free(ahead->kept);
        free(ahead);
        ahead = next;
    }
    struct gs_list *list = &worker->ending_aheads;
    for (struct gs_list *link = list->next, *following; link != list; link = following) {
        following = link->next;
        free(gs_container_of(link, struct ahead, link));
    }
    gs_list_init(list);
}

void gs_ahead_forget(struct descriptor *descriptor, const struct worker *worker)
{
    if (!descriptor_has_ahead(descriptor))
        return;
    struct ahead *ahead = descriptor->ahead;
    atomic_store_explicit(&descriptor->first_use, FIRST_IS_FREE, memory_order_relaxed);
    if (worker && ahead->worker != worker)
        return;
    free(ahead->kept);
    free(ahead);
}

/* ---- Completions ---- */

/* Append bytes to those that were kept. */
static bool keep(struct ahead *ahead, const void *bytes, size_t n)
{
    size_t before = ahead->kept ? ahead->kept->n : 0;
    struct kept *kept = realloc(ahead->kept, sizeof *kept + before + n);
    if (!kept)
        return false;
    if (!ahead->kept)
        kept->at = 0;
    memcpy(kept->bytes + before, bytes, n);
    kept->n = before + n;
    ahead->kept = kept;
    return true;
}

/* A single piece may be the request that the peer sends while its last answer is being completed:
 * only when there is more, receiving ends. */
static void keep_or_break(struct ahead *ahead, const void *bytes, size_t n)
{
    bool is_single = !ahead->kept && !ahead->has_buffer && !ahead->is_broken;
    if (!ahead->is_broken && !keep(ahead, bytes, n)) {
        ahead->is_broken = ahead->has_ended = true;
        ahead->result = -ENOMEM;
        is_single = false;
    }
    size_t total = ahead->kept ? ahead->kept->n : 0;
    bool is_due = !ahead->is_canceled || total / CANCEL_BYTES != (total - n) / CANCEL_BYTES;
    if (ahead->is_active && !is_single && is_due)
        cancel(ahead);
}

static void take_in(struct ahead *ahead, unsigned buffer, size_t n)
{
    struct gs_loop *loop = loop_of(ahead);
    if (ahead->descriptor->readers.first && !ahead->has_buffer && !ahead->kept &&
        !ahead->is_broken) {
        ahead->has_buffer = true;
        ahead->buffer = (uint16_t)buffer;
        ahead->n = (uint16_t)n;
        return;
    }
    keep_or_break(ahead, gs_uring_buffer(loop, buffer), n);
    gs_uring_release_buffer(loop, buffer);
}

static bool is_end(int result)
{
    return result <= 0 && result != -ENOBUFS && !gs_ring_is_interrupted(result);
}

/* The caller holds the lock. */
static void complete(struct ahead *ahead, const struct io_uring_cqe *cqe)
{
    struct descriptor *descriptor = ahead->descriptor;
    if (cqe->flags & IORING_CQE_F_BUFFER)
        take_in(ahead, gs_uring_hold_buffer(loop_of(ahead), cqe), (size_t)cqe->res);
    if (!ahead->is_active && is_end(cqe->res) && !ahead->is_broken) {
        ahead->has_ended = true;
        ahead->result = (int16_t)cqe->res;
    } else if (!ahead->is_active) {
        descriptor_set(descriptor, GS_READ); /* the socket may have more */
    }
    gs_descriptor_wake_readers(ahead->worker, descriptor, 0);
}

/* The descriptor was closed. Returns whether it is to be freed. A request that completes once more
 * may have missed its cancellation. */
static bool complete_closed(struct ahead *ahead, const struct io_uring_cqe *cqe)
{
    struct gs_loop *loop = loop_of(ahead);
    if (cqe->flags & IORING_CQE_F_BUFFER)
        gs_uring_release_buffer(loop, gs_uring_hold_buffer(loop, cqe));
    if (ahead->place != ENDING)
        return false;
    if (ahead->is_active) {
        gs_uring_cancel_call(loop, &ahead->call, TAG_CALL);
        return false;
    }
    gs_list_remove(&ahead->link);
    return true;
}

static void on_completion(struct uring_call *call, const struct io_uring_cqe *cqe)
{
    struct ahead *ahead = gs_container_of(call, struct ahead, call);
    struct descriptor *descriptor = ahead->descriptor;
    bool is_freed = false;
    ahead->is_active = cqe->flags & IORING_CQE_F_MORE;
    ahead->is_canceled &= ahead->is_active;
    if (cqe->res == -ENOBUFS)
        gs_uring_add_buffers(loop_of(ahead));
    spin_lock(&descriptor->lock);
    if (ahead->place == ATTACHED)
        complete(ahead, cqe);
    else
        is_freed = complete_closed(ahead, cqe);
    spin_unlock(&descriptor->lock);
    if (is_freed)
        free(ahead);
}

/* ---- The states ---- */

/* Find that of the calling worker. Returns 0, with NULL if there is none, or -EBUSY. Only the
 * calling worker frees it, which it does not before it switches threads or closes a descriptor. */
static int find(struct descriptor *descriptor, struct ahead **ret_ahead)
{
    int err = 0;
    *ret_ahead = NULL;
    spin_lock(&descriptor->lock);
    if (descriptor_has_ahead(descriptor)) {
        *ret_ahead = descriptor->ahead;
        err = descriptor->ahead->worker == worker_current() ? 0 : -EBUSY;
    }
    spin_unlock(&descriptor->lock);
    return err;
}

static enum ahead_state state_of(const struct ahead *ahead)
{
    if (ahead->has_buffer)
        return AHEAD_BUFFER;
    if (ahead->kept || ahead->is_broken || (ahead->has_ended && !ahead->is_active))
        return AHEAD_BYTES;
    return ahead->is_active ? AHEAD_COMING : AHEAD_NOTHING;
}

int gs_ahead_look(struct descriptor *descriptor, bool may_wait)
{
    struct ahead *ahead;
    int err = find(descriptor, &ahead);
    if (err || !ahead)
        return err ? err : AHEAD_NOTHING;
    enum ahead_state state = state_of(ahead);
    if (state != AHEAD_COMING || may_wait)
        return (int)state;
    stop(ahead);
    return (int)state_of(ahead);
}

int gs_ahead_start(struct descriptor *descriptor, int fd)
{
    struct ahead *ahead;
    int err = find(descriptor, &ahead);
    if (err || !ahead || ahead->is_over || thread_is_mobile(thread_current()))
        return err ? err : -ENOTSUP;
    err = gs_uring_start_receive(loop_of(ahead), &ahead->call, fd);
    ahead->is_active = !err;
    return err;
}

int gs_ahead_wait(struct descriptor *descriptor, int fd, uint64_t deadline_ns)
{
    spin_lock(&descriptor->lock);
    if (UNLIKELY(!descriptor_has_ahead(descriptor))) { /* it was closed */
        spin_unlock(&descriptor->lock);
        return 0;
    }
    return gs_descriptor_wait_for_wake_up(descriptor, fd, deadline_ns);
}

int gs_ahead_is_ready(struct descriptor *descriptor)
{
    int state = gs_ahead_look(descriptor, false);
    return state < 0 ? state : state >= AHEAD_BUFFER;
}

/* ---- Taking ---- */

struct ahead_buffer gs_ahead_take_buffer(struct descriptor *descriptor)
{
    struct ahead *ahead;
    struct ahead_buffer buffer = {.bytes = NULL};
    if (find(descriptor, &ahead) || !ahead || !ahead->has_buffer)
        return buffer;
    ahead->has_buffer = false;
    buffer.bytes = gs_uring_buffer(loop_of(ahead), ahead->buffer);
    buffer.n = ahead->n;
    buffer.number = ahead->buffer;
    return buffer;
}

void gs_ahead_release_buffer(const struct ahead_buffer *buffer)
{
    gs_uring_release_buffer(worker_current()->loop, buffer->number);
}

/* Have everything in one place. Returns 0, or -ENOMEM, and nothing has changed. */
static int gather(struct ahead *ahead)
{
    struct kept *kept = ahead->kept;
    if (!ahead->has_buffer)
        return 0;
    ahead->kept = NULL;
    bool is_done = keep(ahead, gs_uring_buffer(loop_of(ahead), ahead->buffer), ahead->n) &&
                   (!kept || keep(ahead, kept->bytes + kept->at, kept->n - kept->at));
    if (!is_done) {
        free(ahead->kept);
        ahead->kept = kept;
        return -ENOMEM;
    }
    free(kept);
    release_buffer(ahead);
    return 0;
}

static size_t copy_out(const struct kept *kept, const struct iovec *parts, int count, int flags)
{
    size_t at = kept->at;
    for (int i = 0; i < count && at < kept->n; i++) {
        size_t n = parts[i].iov_len < kept->n - at ? parts[i].iov_len : kept->n - at;
        if (n && !(flags & MSG_TRUNC)) /* of TCP: the bytes are discarded */
            memcpy(parts[i].iov_base, kept->bytes + at, n);
        at += n;
    }
    return at - kept->at;
}

static ssize_t take_end(struct ahead *ahead, int flags)
{
    ssize_t result = ahead->has_ended ? ahead->result : -EAGAIN;
    if (!ahead->is_broken && !(flags & MSG_PEEK))
        ahead->has_ended = false;
    return result;
}

ssize_t gs_ahead_take(struct descriptor *descriptor, const struct iovec *parts, int count,
                      int flags)
{
    struct ahead *ahead;
    int err = find(descriptor, &ahead);
    if (!err && ahead)
        err = gather(ahead);
    if (err || !ahead)
        return err ? err : -EAGAIN;
    if (!ahead->kept)
        return take_end(ahead, flags);
    size_t n = copy_out(ahead->kept, parts, count, flags);
    if (!(flags & MSG_PEEK))
        ahead->kept->at += n;
    if (ahead->kept->at == ahead->kept->n) {
        free(ahead->kept);
        ahead->kept = NULL;
    }
    return (ssize_t)n;
}

static ssize_t take_for(struct descriptor *descriptor, const struct io_call *call)
{
    struct iovec whole = {.iov_base = call->bytes, .iov_len = call->n};
    struct msghdr *message = call->bytes;
    if (call->operation == IORING_OP_RECV)
        return gs_ahead_take(descriptor, &whole, 1, call->flags);
    if (call->operation == IORING_OP_READV)
        return gs_ahead_take(descriptor, call->bytes, call->count, 0);
    ssize_t n = gs_ahead_take(descriptor, message->msg_iov, (int)message->msg_iovlen, call->flags);
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
        int state = gs_ahead_look(descriptor, false);
        if (state < 0 || state == AHEAD_NOTHING)
            return state < 0 ? state : -EAGAIN;
        if (state != AHEAD_COMING)
            return take_for(descriptor, call);
        int err = gs_ahead_wait(descriptor, call->fd, deadline_ns);
        if (err)
            return err;
    }
}

/* ---- Opting in and out ---- */

/* Make `ahead` the descriptor's. Returns 0, 1 (it is not needed) or -errno. The caller holds the
 * lock. */
static int attach(struct descriptor *descriptor, struct ahead *ahead)
{
    if (descriptor_has_ahead(descriptor))
        return descriptor->ahead->worker == ahead->worker ? 1 : -EBUSY;
    /* Acquire: pairs with the release in gs_ahead_close and in free_watch. */
    if (descriptor_is_watched(descriptor) ||
        atomic_load_explicit(&descriptor->first_use, memory_order_acquire) != FIRST_IS_FREE)
        return -ENOTSUP;
    descriptor->ahead = ahead;
    atomic_store_explicit(&descriptor->first_use, FIRST_IS_AHEAD, memory_order_relaxed);
    return 0;
}

int gs_recv_ahead(int fd)
{
    CHECKED_THREAD();
    struct gs_thread *self = thread_current();
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return descriptor_error(fd);
    if (!gs_uring_supports_calls(self->worker->loop) || thread_is_mobile(self) ||
        gs_descriptor_kind(descriptor, fd) != KIND_TCP)
        return -ENOTSUP;
    struct ahead *ahead = malloc(sizeof *ahead);
    if (!ahead)
        return -ENOMEM;
    *ahead = (struct ahead){
        .call.completed = on_completion, .descriptor = descriptor, .worker = self->worker};
    spin_lock(&descriptor->lock);
    int result = attach(descriptor, ahead);
    if (result == 1)
        descriptor->ahead->is_over = false;
    spin_unlock(&descriptor->lock);
    if (result)
        free(ahead);
    return result == 1 ? 0 : result;
}

ssize_t gs_recv_ahead_end(int fd)
{
    CHECKED_THREAD();
    struct descriptor *descriptor = gs_descriptor(fd);
    struct ahead *ahead;
    if (!descriptor)
        return descriptor_error(fd);
    for (;;) {
        int err = find(descriptor, &ahead);
        if (err || !ahead)
            return err;
        ahead->is_over = true;
        stop(ahead);
        if (!ahead->is_active)
            break;
        gs_thread_yield();
    }
    size_t kept = ahead->kept ? ahead->kept->n - ahead->kept->at : 0;
    size_t n = kept + (ahead->has_buffer ? ahead->n : 0);
    spin_lock(&descriptor->lock);
    if (!n && !ahead->has_ended && ahead->place == ATTACHED)
        gs_ahead_close(descriptor);
    spin_unlock(&descriptor->lock);
    return (ssize_t)n;
}
