/* The invariants of thread.h, asserted by number. */
#include "thread/schedule/thread.h"

#include <assert.h>

/* 1, 6: for the calling worker. */
static void check_run_queue(const struct worker *worker)
{
    uint64_t count = 0;
    for (unsigned level = 0; level < LEVELS; level++) {
        struct runnable *item = worker->queues[level].first;
        assert(!item == !(worker->ready_mask & 1u << level));
        for (; item; item = item->next, count++) {
            if (runnable_is_message(item))
                continue;
            const struct gs_thread *thread = thread_of(item);
            assert(thread->worker == worker);
            assert(thread != worker->current);
            assert((char *)thread->sp < thread->stack_top ||
                   thread->stack_class == CLASS_USER_STACK);
            (void)thread;
        }
    }
    assert(count == count_read((_Atomic(uint64_t) *)&worker->ready));
    (void)count;
}

/* 2: for any worker. */
static void check_shared_queue(struct worker *worker)
{
    unsigned count = 0;
    spin_lock_always(&worker->shared.lock);
    for (struct runnable *item = worker->shared.first; item; item = item->next, count++) {
        const struct gs_thread *thread = thread_of(item);
        assert(!thread->deadline_index && !thread->timer.watcher.active);
        assert(!thread->worker && !thread->is_pinned);
        (void)thread;
    }
    assert(count == atomic_load(&worker->shared.count));
    spin_unlock_always(&worker->shared.lock);
}

/* 3: for any worker. */
static void check_deadlines(struct worker *worker)
{
    struct gs_heap *heap = &worker->deadlines.heap;
    spin_lock_always(&worker->deadlines.lock);
    gs_heap_check(heap);
    for (uint32_t i = 0; i < heap->count; i++) {
        const struct gs_thread *thread =
            gs_container_of(heap->nodes[GS_HEAP_ROOT + i].index, struct gs_thread, deadline_index);
        assert(thread->worker == worker && thread_is_mobile(thread));
        (void)thread;
    }
    spin_unlock_always(&worker->deadlines.lock);
}

/* 4, 5: for the calling thread. */
static void check_current(const struct worker *worker)
{
    const struct gs_thread *self = worker->current;
    assert(self && self->worker == worker);
    assert(!thread_is_waiting(self) && atomic_load(&self->claim) != CLAIM_LEAVING);
    assert(!self->deadline_index);
    (void)self;
}

void gs_threads_check(void)
{
    const struct worker *worker = worker_current();
    check_current(worker);
    check_run_queue(worker);
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        assert(gs_runtime.workers[i]->index == i);
        check_shared_queue(gs_runtime.workers[i]);
        check_deadlines(gs_runtime.workers[i]);
    }
}
