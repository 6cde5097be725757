/* Resumables: runnables without a stack. While one is ready, its item is in the run queue as a
 * message; while it waits for a descriptor, its waiter is in the descriptor's queue.
 *
 *     idle <--- its function returns --- running <--- popped from the run queue
 *      |                                  |   ^                      ^
 *      |                                wake  `--- returns ---.      |
 *      |                                  v                   |      |
 *      `---- wake ----> queued        notified ---------------+------'
 *
 * A resumable that is to be resumed again, or has not started, is queued without leaving the states
 * running and notified: no wake-up queues it a second time, and no atomic exchange is needed.
 */
#include "thread/schedule/resumable.h"
#include "thread/io/io_call.h"

#include <errno.h>
#include <gossamer/resumable.h>

enum state { STATE_RUNNING, STATE_NOTIFIED, STATE_IDLE };

#define RUNNABLE offsetof(struct gs_resumable, next)
_Static_assert(offsetof(struct gs_resumable, run) - RUNNABLE == offsetof(struct runnable, resume) &&
                   offsetof(struct gs_resumable, priority) - RUNNABLE ==
                       offsetof(struct runnable, priority),
               "a resumable contains a runnable");

static struct runnable *runnable_of_resumable(struct gs_resumable *resumable)
{
    return (struct runnable *)((char *)resumable + RUNNABLE);
}

/* A pointer in a waiter's `item` with the lowest bit: a resumable; without: of gs_poll. */
static void *tagged(struct gs_resumable *resumable)
{
    return (char *)resumable + 1;
}

static struct worker *worker_of(const struct gs_resumable *resumable)
{
    return gs_runtime.workers[resumable->worker];
}

static void enqueue(struct gs_resumable *resumable)
{
    struct worker *worker = worker_of(resumable);
    if (gs_worker_or_null() == worker) {
        queue_push(worker, runnable_of_resumable(resumable));
        return;
    }
    gs_runtime_enter();
    gs_worker_send(worker, runnable_of_resumable(resumable));
    gs_runtime_leave();
}

/* Acquire: pairs with the exchange in gs_resumable_wake. */
static void set_running(struct gs_resumable *resumable)
{
    bool was_running = resumable->is_again;
    resumable->is_again = false;
    if (was_running &&
        atomic_load_explicit(&resumable->state, memory_order_acquire) == STATE_RUNNING)
        return;
    atomic_exchange_explicit(&resumable->state, STATE_RUNNING, memory_order_acquire);
}

static void run(struct worker *worker, struct runnable *runnable);

/* The next one, if it may run without a round of the worker's loop; otherwise NULL. */
static struct runnable *next_resumable(struct worker *worker)
{
    if (UNLIKELY(!worker->ready_mask) || UNLIKELY(worker->countdown <= 0))
        return NULL;
    unsigned level = (unsigned)__builtin_ctz(worker->ready_mask);
    struct runnable *next = worker->queues[level].first;
    if (next->resume != run)
        return NULL;
    worker->countdown--;
    queue_pop_level(worker, level);
    return next;
}

/* The same after one that is ready again: it takes the place at the end of the queue as the first
 * is removed, so that neither the count nor the mask changes. */
static struct runnable *next_after(struct worker *worker, struct runnable *again)
{
    unsigned level = level_of(again->priority);
    struct run_queue *queue = &worker->queues[level];
    bool is_alone = !worker->ready_mask;
    if (UNLIKELY(worker->countdown <= 0) || (!is_alone && worker->ready_mask != 1u << level) ||
        (!is_alone && queue->first->resume != run)) {
        queue_push(worker, again);
        return next_resumable(worker);
    }
    worker->countdown--;
    if (is_alone)
        return again;
    struct runnable *first = queue->first;
    again->next = NULL;
    *queue->last = again;
    queue->last = &again->next;
    queue->first = first->next;
    return first;
}

/* Returns the next one. The function may end the resumable and free it: it is touched only if it
 * has not ended. */
static struct runnable *run_one(struct worker *worker, struct runnable *runnable)
{
    struct gs_resumable *resumable = (struct gs_resumable *)((char *)runnable - RUNNABLE);
    uint64_t ended = count_read(&worker->ended);
    set_running(resumable);
    resumable->resume(resumable);
    if (count_read(&worker->ended) != ended)
        return next_resumable(worker);
    if (resumable->is_again)
        return next_after(worker, runnable);
    uint8_t running = STATE_RUNNING;
    gs_chaos(CHAOS_PARK);
    if (!atomic_compare_exchange_strong(&resumable->state, &running, STATE_IDLE))
        queue_push(worker, runnable);
    return next_resumable(worker);
}

static void run(struct worker *worker, struct runnable *runnable)
{
    do
        runnable = run_one(worker, runnable);
    while (runnable);
}

void gs_resumable_init(struct gs_resumable *resumable, gs_resume_fn *resume)
{
    *resumable =
        (struct gs_resumable){.run = (void *)run, .resume = resume, .fd = -1, .is_again = true};
    atomic_init(&resumable->state, STATE_RUNNING);
}

int gs_resumable_start(struct gs_resumable *resumable, unsigned worker)
{
    struct worker *self = worker_current();
    if (worker > gs_runtime.options.workers || worker > UINT16_MAX + 1u)
        return -EINVAL;
    resumable->worker = (uint16_t)(worker ? worker - 1 : self->index);
    count_add(&self->spawned, 1);
    if (worker_of(resumable) == self)
        queue_push(self, runnable_of_resumable(resumable));
    else
        enqueue(resumable);
    return 0;
}

void gs_resumable_end(struct gs_resumable *resumable)
{
    struct worker *worker = worker_of(resumable);
    gs_resumable_set_external(resumable, false);
    count_add(&worker->ended, 1);
}

void gs_resumable_wake(struct gs_resumable *resumable)
{
    gs_chaos(CHAOS_WAKE);
    if (atomic_exchange(&resumable->state, STATE_NOTIFIED) == STATE_IDLE)
        enqueue(resumable);
}

void gs_resumable_again(struct gs_resumable *resumable)
{
    resumable->is_again = true;
}

void gs_resumable_notify(void *item)
{
    struct gs_resumable *resumable = (struct gs_resumable *)((char *)item - 1);
    gs_resumable_wake(resumable);
}

void gs_resumable_set_external(struct gs_resumable *resumable, bool is_external)
{
    struct worker *worker = worker_of(resumable);
    if (resumable->is_external == is_external)
        return;
    resumable->is_external = is_external;
    count_add(&worker->external, is_external ? 1 : UINT64_MAX);
}

/* ---- Descriptors ---- */

static unsigned direction_of(const struct gs_resumable *resumable)
{
    return resumable->is_writing ? GS_WRITE : GS_READ;
}

/* As gs_descriptor_wait: the waiter is queued first, and the bit is read again afterwards. */
static int queue_at(struct descriptor *descriptor, struct gs_resumable *resumable)
{
    unsigned direction = direction_of(resumable);
    struct gs_wait_queue *queue = descriptor_queue(descriptor, direction);
    struct gs_waiter *waiter = &resumable->waiter;
    *waiter = (struct gs_waiter){.item = tagged(resumable)};
    waiters_append(queue, waiter);
    if (!gs_runtime.is_multi || !(atomic_fetch_or(&descriptor->maybe_ready, 0) & direction))
        return 0;
    waiters_remove(queue, waiter);
    return 1;
}

int gs_resumable_watch(struct gs_resumable *resumable, int fd, unsigned direction)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return descriptor_error(fd);
    spin_lock(&descriptor->lock);
    int result = gs_descriptor_watch(descriptor, fd);
    if (!result && descriptor_may_be_ready(descriptor, direction)) {
        descriptor_clear(descriptor, direction);
        result = 1;
    } else if (!result) {
        resumable->is_writing = direction == GS_WRITE;
        result = queue_at(descriptor, resumable);
    }
    spin_unlock(&descriptor->lock);
    if (!result) {
        resumable->fd = fd;
        gs_resumable_set_external(resumable, true);
    }
    return result;
}

void gs_resumable_unwatch(struct gs_resumable *resumable)
{
    if (resumable->fd < 0)
        return;
    struct descriptor *descriptor = gs_descriptor(resumable->fd);
    struct gs_waiter *waiter = &resumable->waiter;
    resumable->fd = -1;
    if (!descriptor)
        return;
    spin_lock(&descriptor->lock);
    if (waiter_is_queued(waiter))
        waiters_remove(descriptor_queue(descriptor, direction_of(resumable)), waiter);
    spin_unlock(&descriptor->lock);
}

bool gs_resumable_may_call(int fd, unsigned direction)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return true;
    if (!descriptor_may_be_ready(descriptor, direction))
        return !descriptor_is_watched(descriptor) ||
               atomic_load_explicit(&descriptor->kind, memory_order_relaxed) != KIND_TCP;
    descriptor_clear(descriptor, direction);
    return true;
}

void gs_resumable_called(int fd, unsigned direction, ssize_t n, size_t size)
{
    struct descriptor *descriptor = gs_descriptor(fd);
    const struct io_call call = {.direction = direction, .n = size};
    if (descriptor && call_may_leave_more(&call, descriptor, n))
        gs_descriptor_set_ready(descriptor, direction);
}

/* ---- The calling worker ---- */

struct gs_loop *gs_threads_loop(void)
{
    return worker_current()->loop;
}

unsigned gs_threads_worker(void)
{
    struct worker *worker = gs_worker_or_null();
    return worker ? worker->index + 1 : 0;
}

unsigned gs_threads_workers(void)
{
    return gs_runtime.options.workers;
}
