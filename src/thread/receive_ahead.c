#include "thread/receive_ahead_state.h"
#include "thread/wait.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>

/* A cancellation is repeated after so many bytes were kept. */
#define CANCEL_BYTES ((size_t)64 << 10)

static enum ahead_state state_of(const struct ahead *ahead)
{
    if (has_buffer(ahead))
        return AHEAD_BUFFER;
    if (has_something(ahead))
        return AHEAD_BYTES;
    return ahead->is_active ? AHEAD_COMING : AHEAD_NOTHING;
}

/* ---- Ending ---- */

/* If the kernel accepts no request, is_canceled stays false. */
static void cancel(struct ahead *ahead)
{
    int done = gs_uring_cancel_call(loop_of(ahead), &ahead->call, TAG_CALL);
    ahead->is_canceled = !done;
    ahead->is_active = done <= 0;
}

static void drop_guard(struct ahead *ahead)
{
    if (ahead->is_guarded)
        ahead->is_guarded = gs_uring_cancel_guard(loop_of(ahead), &ahead->call) < 0;
}

static void hand_over(struct ahead *ahead)
{
    struct ahead *_Atomic *list = &ahead->worker->closed_aheads;
    ahead->next = atomic_load_explicit(list, memory_order_relaxed);
    gs_chaos(CHAOS_PUBLISH);
    /* Release: pairs with the acquire in take_closed, publishing the links. */
    while (!atomic_compare_exchange_weak_explicit(list, &ahead->next, ahead, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

static struct ahead *take_closed(struct worker *worker)
{
    return atomic_exchange_explicit(&worker->closed_aheads, NULL, memory_order_acquire);
}

static void drop_held(struct ahead *ahead)
{
    if (has_buffer(ahead))
        gs_uring_release_buffer(loop_of(ahead), ahead->buffer);
    ahead->at = ahead->end;
    free(ahead->kept);
    ahead->kept = NULL;
}

/* Called by its worker, when it is no descriptor's. */
static void end(struct ahead *ahead)
{
    drop_held(ahead);
    if (ahead->is_active)
        cancel(ahead);
    drop_guard(ahead);
    if (!ahead->is_active && !ahead->is_guarded) {
        free(ahead);
    } else if (ahead->is_canceled && !ahead->is_guarded) {
        ahead->is_ending = true;
        gs_list_append(&ahead->worker->ending_aheads, &ahead->link);
    } else {
        hand_over(ahead); /* the worker tries again */
    }
}

void gs_ahead_close(struct descriptor *descriptor)
{
    struct ahead *ahead = descriptor->ahead;
    struct gs_loop *loop = loop_of(ahead);
    /* Release: pairs with the acquire in new_watch and attach. */
    atomic_store_explicit(&descriptor->first_use, FIRST_IS_FREE, memory_order_release);
    if (ahead->worker == worker_current()) {
        end(ahead);
        return;
    }
    hand_over(ahead);
    gs_loop_wake(loop); /* the ring holds the file */
}

void gs_ahead_end_closed(struct worker *worker)
{
    for (struct ahead *ahead = take_closed(worker), *next; ahead; ahead = next) {
        next = ahead->next;
        end(ahead);
    }
}

void gs_aheads_forget_closed(struct worker *worker)
{
    for (struct ahead *ahead = take_closed(worker), *next; ahead; ahead = next) {
        next = ahead->next;
        free(ahead->kept);
        free(ahead);
    }
    struct gs_list *list = &worker->ending_aheads;
    for (struct gs_list *link = list->next, *next; link != list; link = next) {
        next = link->next;
        free(gs_container_of(link, struct ahead, link));
    }
    gs_list_init(list);
}

void gs_ahead_forget(struct descriptor *descriptor, const struct worker *survivor)
{
    if (!descriptor_has_ahead(descriptor))
        return;
    struct ahead *ahead = descriptor->ahead;
    atomic_store_explicit(&descriptor->first_use, FIRST_IS_FREE, memory_order_relaxed);
    if (!survivor || ahead->worker == survivor)
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
 * only when there is more, receiving ends. Bytes that follow lost ones are lost, too. */
static void keep_or_lose(struct ahead *ahead, const void *bytes, size_t n)
{
    bool is_single = !has_something(ahead);
    if (!ahead->error && !keep(ahead, bytes, n)) {
        ahead->error = -ENOMEM;
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
    if (n && ahead->descriptor->readers.first && !has_something(ahead)) {
        ahead->buffer = buffer & (BUFFERS_MAX - 1);
        ahead->at = 0;
        ahead->end = (uint16_t)n;
        return;
    }
    if (n)
        keep_or_lose(ahead, gs_uring_buffer(loop, buffer), n);
    gs_uring_release_buffer(loop, buffer);
}

/* Whether the error is the socket's, which reports it once, rather than the request's. */
static bool is_of_socket(int result)
{
    switch (result) {
    case -EACCES:
    case -EAGAIN:
    case -EBADF:
    case -EFAULT:
    case -EINVAL: /* Linux 5.19 has no multishot receive */
    case -ENOBUFS:
    case -ENOMEM:
    case -ENOTCONN:
    case -EOPNOTSUPP:
    case -EPERM:
        return false;
    default:
        return result < 0 && !gs_ring_is_interrupted(result);
    }
}

/* The kernel receives no longer. Unless the error was the socket's, threads try the socket, which
 * also reports the end of the stream. If it failed by itself, it would fail again. */
static void note_end(struct ahead *ahead, int result)
{
    if (is_of_socket(result)) {
        if (!ahead->error)
            ahead->error = (int16_t)result;
    } else if (result < 0 && result != -ENOBUFS && !gs_ring_is_interrupted(result)) {
        ahead->is_over = true;
    }
}

/* The descriptor has it. The caller holds the lock. */
static void complete(struct ahead *ahead, const struct io_uring_cqe *cqe)
{
    if (cqe->flags & IORING_CQE_F_BUFFER)
        take_in(ahead, gs_uring_hold_buffer(loop_of(ahead), cqe), (size_t)cqe->res);
    if (!ahead->is_active)
        note_end(ahead, cqe->res);
    descriptor_set(ahead->descriptor, GS_READ);
    gs_descriptor_wake_readers(ahead->worker, ahead->descriptor, 0);
}

/* The descriptor was closed. A request that completes once more may have missed its
 * cancellation. */
static void complete_closed(struct ahead *ahead, const struct io_uring_cqe *cqe)
{
    struct gs_loop *loop = loop_of(ahead);
    if (cqe->flags & IORING_CQE_F_BUFFER)
        gs_uring_release_buffer(loop, gs_uring_hold_buffer(loop, cqe));
    if (!ahead->is_ending)
        return;
    if (ahead->is_active) {
        gs_uring_cancel_call(loop, &ahead->call, TAG_CALL);
        return;
    }
    gs_list_remove(&ahead->link);
    free(ahead);
}

static void on_completion(struct uring_call *call, const struct io_uring_cqe *cqe)
{
    struct ahead *ahead = gs_container_of(call, struct ahead, call);
    struct descriptor *descriptor = ahead->descriptor;
    ahead->is_active = cqe->flags & IORING_CQE_F_MORE;
    ahead->is_canceled &= ahead->is_active;
    if (!ahead->is_active)
        drop_guard(ahead);
    if (cqe->res == -ENOBUFS)
        gs_uring_add_buffers(loop_of(ahead));
    spin_lock(&descriptor->lock);
    bool is_attached = descriptor_has_ahead(descriptor) && descriptor->ahead == ahead;
    if (LIKELY(is_attached))
        complete(ahead, cqe);
    spin_unlock(&descriptor->lock);
    if (UNLIKELY(!is_attached))
        complete_closed(ahead, cqe);
}

static void collect(struct ahead *ahead)
{
    (void)!gs_uring_collect_call(loop_of(ahead), &ahead->call, TAG_CALL);
}

/* ---- Receiving ---- */

int gs_ahead_look(struct descriptor *descriptor, bool must_know, struct ahead **ret_ahead)
{
    struct ahead *ahead = NULL;
    spin_lock(&descriptor->lock);
    if (descriptor_has_ahead(descriptor))
        ahead = descriptor->ahead;
    bool is_others = ahead && ahead->worker != worker_current();
    spin_unlock(&descriptor->lock);
    if (is_others)
        return -EBUSY;
    *ret_ahead = ahead;
    if (!ahead)
        return AHEAD_NOTHING;
    if (must_know && state_of(ahead) == AHEAD_COMING)
        collect(ahead);
    return (int)state_of(ahead);
}

int gs_ahead_start(struct ahead *ahead, int fd)
{
    if (ahead->is_over || thread_is_mobile(thread_current()))
        return -ENOTSUP;
    drop_guard(ahead);
    if (ahead->is_guarded)
        return -ENOMEM;
    int err = gs_uring_start_receive(loop_of(ahead), &ahead->call, fd);
    if (err)
        return err;
    ahead->is_active = true;
    ahead->is_guarded = !gs_uring_start_guard(loop_of(ahead), &ahead->call, fd);
    if (!ahead->is_guarded) {
        cancel(ahead);
        ahead->is_over = true;
    }
    if (gs_runtime.is_multi)
        collect(ahead);
    return (int)state_of(ahead);
}

int gs_ahead_wait(struct descriptor *descriptor, const struct ahead *ahead, int fd,
                  uint64_t deadline_ns)
{
    spin_lock(&descriptor->lock);
    if (UNLIKELY(!descriptor_has_ahead(descriptor) || descriptor->ahead != ahead)) {
        spin_unlock(&descriptor->lock); /* it was closed */
        return 0;
    }
    return gs_descriptor_wait_for_wake_up(descriptor, fd, deadline_ns);
}

int gs_ahead_is_ready(struct descriptor *descriptor)
{
    struct ahead *ahead;
    int state = gs_ahead_look(descriptor, true, &ahead);
    return state < 0 ? state : state >= AHEAD_BUFFER;
}

/* ---- Opting in and out ---- */

/* Make `ahead` the descriptor's. Returns 0, 1 (it has one) or -errno. The caller holds the lock. */
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

static void wake_readers(struct descriptor *descriptor)
{
    spin_lock(&descriptor->lock);
    gs_descriptor_wake_readers(worker_current(), descriptor, 0);
    spin_unlock(&descriptor->lock);
}

/* Forget it, unless it has been closed meanwhile. */
static void detach(struct descriptor *descriptor, const struct ahead *ahead)
{
    spin_lock(&descriptor->lock);
    if (descriptor_has_ahead(descriptor) && descriptor->ahead == ahead)
        gs_ahead_close(descriptor);
    spin_unlock(&descriptor->lock);
}

ssize_t gs_recv_ahead_end(int fd)
{
    CHECKED_THREAD();
    struct descriptor *descriptor = gs_descriptor(fd);
    struct ahead *ahead;
    if (!descriptor)
        return descriptor_error(fd);
    for (;;) {
        int state = gs_ahead_look(descriptor, false, &ahead);
        if (state < 0 || !ahead)
            return state < 0 ? state : 0;
        ahead->is_over = true;
        if (!ahead->is_active)
            break;
        cancel(ahead);
        if (ahead->is_active)
            collect(ahead);
        else
            wake_readers(descriptor);
        if (ahead->is_active) /* the completion queue is full, or the cancellation has missed it */
            gs_thread_yield();
    }
    size_t kept = ahead->kept ? ahead->kept->n - ahead->kept->at : 0;
    size_t n = kept + (size_t)(ahead->end - ahead->at);
    if (!has_something(ahead))
        detach(descriptor, ahead);
    return (ssize_t)n;
}
