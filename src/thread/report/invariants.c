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
                   thread->stack_class == CLASS_USER_STACK || !thread->stack_top);
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
        assert(!thread->deadline_index && thread->deadline_ns == GS_NEVER);
        assert(!thread->worker && !thread->is_pinned);
        (void)thread;
    }
    assert(count == atomic_load(&worker->shared.count));
    spin_unlock_always(&worker->shared.lock);
}

/* 3: for any worker. */
static void check_deadlines(const struct worker *worker, struct deadlines *deadlines,
                            bool is_mobile)
{
    spin_lock(&deadlines->lock);
    gs_timer_queue_check(&deadlines->queue);
    for (uint32_t i = 0; i < gs_timer_queue_count(&deadlines->queue); i++) {
        const struct gs_thread *thread = gs_container_of(gs_timer_queue_at(&deadlines->queue, i),
                                                         struct gs_thread, deadline_index);
        assert(thread->worker == worker && thread_is_mobile(thread) == is_mobile);
        (void)thread;
    }
    spin_unlock(&deadlines->lock);
    (void)worker, (void)is_mobile;
}

/* 4, 5: for the calling thread. */
static void check_current(const struct worker *worker)
{
    const struct gs_thread *self = worker->current;
    assert(self && self->worker == worker);
    assert(!thread_is_waiting(self) && atomic_load(&self->claim) != CLAIM_LEAVING);
    assert(!self->deadline_index || !thread_is_mobile(self));
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
        struct worker *other = gs_runtime.workers[i];
        check_deadlines(other, &other->deadlines, true);
        check_deadlines(other, &other->own_deadlines, false);
    }
}
