/* What counts: semaphore, once, barrier and wait group. */
#include "thread/waiters.h"

#include <assert.h>

/* Wake all; the lock is held. */
static void wake_all(struct gs_wait_queue *queue)
{
    while (gs_waiters_wake(queue))
        ;
}

/* ---- Semaphore ---- */

int gs_semaphore_wait(struct gs_semaphore *semaphore, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {"semaphore", false};
    const struct wait wait = {&waiting, semaphore, deadline_ns, false};
    struct gs_waiter waiter;
    spin_lock(&semaphore->lock);
    if (semaphore->count) {
        semaphore->count--;
        spin_unlock(&semaphore->lock);
        return 0;
    }
    return gs_waiters_wait(&semaphore->waiting, &waiter, &semaphore->lock, &wait);
}

void gs_semaphore_post(struct gs_semaphore *semaphore)
{
    spin_lock(&semaphore->lock);
    if (!gs_waiters_wake(&semaphore->waiting))
        semaphore->count++;
    spin_unlock(&semaphore->lock);
}

/* ---- Once ---- */

enum { ONCE_NEW, ONCE_RUNNING, ONCE_DONE };

void gs_once(struct gs_once *once, void (*fn)(void *), void *argument)
{
    static const struct wait_kind waiting = {"once", false};
    const struct wait wait = {&waiting, once, GS_NEVER, true};
    struct gs_waiter waiter;
    /* Acquire: pairs with the release below, publishing what fn wrote. */
    if (LIKELY(atomic_load_explicit(&once->state, memory_order_acquire) == ONCE_DONE))
        return;
    spin_lock(&once->lock);
    int state = atomic_load_explicit(&once->state, memory_order_relaxed);
    if (state == ONCE_RUNNING) {
        (void)gs_waiters_wait(&once->waiting, &waiter, &once->lock, &wait);
        return;
    }
    if (state == ONCE_NEW)
        atomic_store_explicit(&once->state, ONCE_RUNNING, memory_order_relaxed);
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

int gs_barrier_wait(struct gs_barrier *barrier, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {"barrier", false};
    const struct wait wait = {&waiting, barrier, deadline_ns, false};
    struct gs_waiter waiter = {.thread = thread_current()};
    spin_lock(&barrier->lock);
    if (++barrier->arrived == barrier->threads) {
        barrier->arrived = 0;
        wake_all(&barrier->waiting);
        spin_unlock(&barrier->lock);
        return 1;
    }
    waiters_append(&barrier->waiting, &waiter);
    int err = gs_thread_wait(waiter.thread, &barrier->lock, &wait);
    if (LIKELY(!err))
        return 0;
    /* If the last came meanwhile, this one was not among those it woke, but has been counted. */
    spin_lock(&barrier->lock);
    bool is_over = !waiter.is_queued;
    if (!is_over) {
        waiters_remove(&barrier->waiting, &waiter);
        barrier->arrived--;
    }
    spin_unlock(&barrier->lock);
    return is_over ? 0 : err;
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
    static const struct wait_kind waiting = {"wait group", false};
    const struct wait wait = {&waiting, group, deadline_ns, false};
    struct gs_waiter waiter;
    spin_lock(&group->lock);
    if (!group->count) {
        spin_unlock(&group->lock);
        return 0;
    }
    return gs_waiters_wait(&group->waiting, &waiter, &group->lock, &wait);
}
