/* Threads that any worker may take: each worker has a queue of them, from which idle workers take
 * half. An extra worker takes threads only while the monitor wants it to.
 * (tests/model/share.pml) */
#include "thread/schedule/thread.h"

bool gs_worker_may_steal(const struct worker *worker)
{
    return worker->index <
           gs_runtime.options.workers + atomic_load(&gs_runtime.enabled_extra_workers);
}

void gs_worker_wake_idle(const struct worker *except)
{
    if (!atomic_load(&gs_runtime.idle))
        return;
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *worker = gs_runtime.workers[i];
        if (worker != except && gs_worker_may_steal(worker) && atomic_load(&worker->is_idle) &&
            atomic_exchange(&worker->is_idle, false)) {
            gs_loop_wake(worker->loop);
            return;
        }
    }
}

static void append(struct shared_queue *queue, struct runnable *item)
{
    item->next = NULL;
    *(queue->last ? &queue->last->next : &queue->first) = item;
    queue->last = item;
}

void gs_worker_share(struct worker *worker, struct gs_thread *thread)
{
    struct shared_queue *queue = worker ? &worker->shared : &gs_runtime.workers[0]->shared;
    spin_lock_always(&queue->lock);
    append(queue, &thread->run);
    bool is_first = atomic_fetch_add(&queue->count, 1) == 0;
    spin_unlock_always(&queue->lock);
    gs_chaos(CHAOS_PUBLISH);
    if (LIKELY(!worker || !worker->holds_wakeups || !is_first))
        gs_worker_wake_idle(worker);
}

bool gs_threads_hold_wakeups(bool holds)
{
    struct worker *worker = gs_worker_or_null();
    bool before = worker && worker->holds_wakeups;
    if (worker)
        worker->holds_wakeups = holds;
    return before;
}

/* Sequentially consistent with idle(), which sets is_idle and then looks at the queues. */
void gs_threads_wake_idle(void)
{
    for (unsigned i = 0; gs_runtime.is_multi && i < gs_runtime.worker_count; i++) {
        if (!atomic_load(&gs_runtime.workers[i]->shared.count))
            continue;
        gs_worker_wake_idle(NULL);
        return;
    }
}

static struct runnable *pop_many(struct shared_queue *queue, unsigned count,
                                 struct runnable **ret_last)
{
    struct runnable *first = queue->first, *last = first;
    for (unsigned i = 1; i < count; i++)
        last = last->next;
    queue->first = last->next;
    if (!queue->first)
        queue->last = NULL;
    last->next = NULL;
    atomic_fetch_sub(&queue->count, count);
    *ret_last = last;
    return first;
}

struct runnable *gs_worker_take_shared(struct worker *worker)
{
    struct runnable *item = NULL, *last;
    spin_lock_always(&worker->shared.lock);
    if (worker->shared.first)
        item = pop_many(&worker->shared, 1, &last);
    spin_unlock_always(&worker->shared.lock);
    gs_chaos(CHAOS_STEAL);
    if (item)
        thread_set_worker(thread_of(item), worker);
    return item;
}

/* Returns the first; the others move to the stealing worker's queue. */
static struct runnable *steal_from(struct worker *worker, struct worker *from)
{
    struct runnable *first = NULL, *last = NULL;
    unsigned count = 0;
    spin_lock_always(&from->shared.lock);
    if (from->shared.first) {
        count = (atomic_load(&from->shared.count) + 1) / 2;
        first = pop_many(&from->shared, count, &last);
    }
    spin_unlock_always(&from->shared.lock);
    if (!first)
        return NULL;
    gs_chaos(CHAOS_STEAL);
    count_add(&worker->steals, count);
    if (first != last) {
        struct shared_queue *queue = &worker->shared;
        spin_lock_always(&queue->lock);
        *(queue->last ? &queue->last->next : &queue->first) = first->next;
        queue->last = last;
        atomic_fetch_add(&queue->count, count - 1);
        spin_unlock_always(&queue->lock);
        gs_worker_wake_idle(worker);
    }
    thread_set_worker(thread_of(first), worker);
    return first;
}

struct runnable *gs_worker_steal(struct worker *worker)
{
    unsigned worker_count = gs_runtime.worker_count;
    for (unsigned i = 1; i < worker_count && gs_worker_may_steal(worker); i++) {
        struct worker *from = gs_runtime.workers[(worker->index + i) % worker_count];
        if (!atomic_load_explicit(&from->shared.count, memory_order_relaxed))
            continue;
        struct runnable *item = steal_from(worker, from);
        if (item)
            return item;
    }
    return NULL;
}
