/* What counts: semaphore, once, barrier and wait group. */
#include "thread/wait.h"

#include <assert.h>

/* The lock is held. */
static void wake_all(struct gs_wait_queue *queue)
{
    struct worker *worker = worker_current();
    while (waiters_wake(worker, queue))
        ;
}

/* ---- Semaphore ---- */

int gs_semaphore_wait(struct gs_semaphore *semaphore, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {.what = "semaphore", WAITS_IN(gs_semaphore, waiting)};
    spin_lock(&semaphore->lock);
    if (semaphore->count) {
        semaphore->count--;
        spin_unlock(&semaphore->lock);
        return 0;
    }
    return wait_in(thread_current(), semaphore, &waiting, deadline_ns);
}

void gs_semaphore_post(struct gs_semaphore *semaphore)
{
    struct worker *worker = worker_current();
    spin_lock(&semaphore->lock);
    struct gs_waiter *waiter = waiters_claim(worker, &semaphore->waiting, CLAIM_WOKEN);
    semaphore->count += !waiter;
    spin_unlock(&semaphore->lock);
    if (waiter)
        thread_ready(worker, waiter->thread);
}

/* ---- Once ---- */

enum { ONCE_NEW, ONCE_RUNNING, ONCE_DONE };

void gs_once(struct gs_once *once, void (*fn)(void *), void *argument)
{
    static const struct wait_kind waiting = {
        .what = "once",
        .is_uninterrupted = true,
        .holder = HOLDER_ONCE,
        WAITS_IN(gs_once, waiting),
    };
    /* Acquire: pairs with the release below, publishing what fn wrote. */
    if (LIKELY(atomic_load_explicit(&once->state, memory_order_acquire) == ONCE_DONE))
        return;
    spin_lock(&once->lock);
    int state = atomic_load_explicit(&once->state, memory_order_relaxed);
    if (state == ONCE_RUNNING) {
        (void)wait_in(thread_current(), once, &waiting, GS_NEVER);
        return;
    }
    if (state == ONCE_NEW) {
        atomic_store_explicit(&once->state, ONCE_RUNNING, memory_order_relaxed);
        once->runner = thread_current();
    }
    spin_unlock(&once->lock);
    if (state == ONCE_DONE)
        return;
    fn(argument);
    spin_lock(&once->lock);
    atomic_store_explicit(&once->state, ONCE_DONE, memory_order_release);
    wake_all(&once->waiting);
    spin_unlock(&once->lock);
}

/* ---- Barrier ---- */

/* If the last came meanwhile, this one was not among those it woke, but has been counted. */
static void leave_barrier(void *object, struct gs_thread *thread, bool was_queued)
{
    struct gs_barrier *barrier = object;
    if (was_queued)
        barrier->arrived--;
    else
        atomic_store_explicit(&thread->claim, CLAIM_WOKEN, memory_order_relaxed);
}

int gs_barrier_wait(struct gs_barrier *barrier, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {
        .what = "barrier", .given_up = leave_barrier, WAITS_IN(gs_barrier, waiting)};
    spin_lock(&barrier->lock);
    if (barrier->arrived + 1 == barrier->threads) {
        barrier->arrived = 0;
        wake_all(&barrier->waiting);
        spin_unlock(&barrier->lock);
        return 1;
    }
    barrier->arrived++;
    return wait_in(thread_current(), barrier, &waiting, deadline_ns);
}

/* ---- Wait group ---- */

void gs_wait_group_add(struct gs_wait_group *group, uint64_t count)
{
    spin_lock(&group->lock);
    group->count += count;
    spin_unlock(&group->lock);
}

void gs_wait_group_done(struct gs_wait_group *group)
{
    spin_lock(&group->lock);
    assert(group->count);
    if (!--group->count)
        wake_all(&group->waiting);
    spin_unlock(&group->lock);
}

int gs_wait_group_wait(struct gs_wait_group *group, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {.what = "wait group",
                                             WAITS_IN(gs_wait_group, waiting)};
    spin_lock(&group->lock);
    if (!group->count) {
        spin_unlock(&group->lock);
        return 0;
    }
    return wait_in(thread_current(), group, &waiting, deadline_ns);
}
