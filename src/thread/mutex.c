/* The owner stands in one word, whose lowest bit says that others wait: then locking and unlocking take the way through the lock
 * and the queue, and the mutex is handed to who has waited longest. Invariant: the bit is set if and only if the queue is not
 * empty, except under the lock. */
#include "thread/waiters.h"

#include <assert.h>
#include <errno.h>

#define WAITED ((uintptr_t)1)

static const struct wait_kind waiting = {"mutex", false};

/* Acquire and release: what the former owner wrote is seen by the next. */
static inline bool change(struct gs_mutex *mutex, uintptr_t from, uintptr_t to)
{
    if (gs_runtime.is_multi)
        return atomic_compare_exchange_strong_explicit(&mutex->owner, &from, to,
                                                       memory_order_acq_rel, memory_order_relaxed);
    if (atomic_load_explicit(&mutex->owner, memory_order_relaxed) != from)
        return false;
    atomic_store_explicit(&mutex->owner, to, memory_order_relaxed);
    return true;
}

/* Under the lock: either takes the mutex, or marks it as waited for. */
static bool take_or_mark(struct gs_mutex *mutex, uintptr_t self)
{
    for (;;) {
        uintptr_t owner = atomic_load_explicit(&mutex->owner, memory_order_relaxed);
        if (!owner && change(mutex, 0, self))
            return true;
        if (owner && (owner & WAITED || change(mutex, owner, owner | WAITED)))
            return false;
    }
}

/* Under the lock, once a waiter has left the queue. */
static void unmark_if_empty(struct gs_mutex *mutex)
{
    if (!mutex->waiting.first)
        atomic_fetch_and_explicit(&mutex->owner, ~WAITED, memory_order_relaxed);
}

static int lock_slowly(struct gs_mutex *mutex, struct gs_thread *self, uint64_t deadline_ns)
{
    struct gs_waiter waiter = {.thread = self};
    const struct wait wait = {&waiting, mutex, deadline_ns, true};
    if (gs_mutex_is_mine(mutex))
        return -EDEADLK;
    spin_lock(&mutex->lock);
    if (take_or_mark(mutex, (uintptr_t)self)) {
        spin_unlock(&mutex->lock);
        return 0;
    }
    waiters_append(&mutex->waiting, &waiter);
    int err = gs_thread_wait(self, &mutex->lock, &wait);
    if (LIKELY(!err))
        return 0;
    spin_lock(&mutex->lock);
    if (waiter.is_queued)
        waiters_remove(&mutex->waiting, &waiter);
    unmark_if_empty(mutex);
    spin_unlock(&mutex->lock);
    return err;
}

int gs_mutex_lock(struct gs_mutex *mutex, uint64_t deadline_ns)
{
    struct gs_thread *self = thread_current();
    if (LIKELY(change(mutex, 0, (uintptr_t)self)))
        return 0;
    return lock_slowly(mutex, self, deadline_ns);
}

/* Hand it over, still marked if more wait. */
static void unlock_slowly(struct gs_mutex *mutex)
{
    spin_lock(&mutex->lock);
    struct gs_waiter *waiter = waiters_claim(&mutex->waiting);
    struct gs_thread *next = waiter ? waiter->thread : NULL;
    uintptr_t mark = mutex->waiting.first ? WAITED : 0;
    atomic_store_explicit(&mutex->owner, next ? (uintptr_t)next | mark : 0, memory_order_release);
    spin_unlock(&mutex->lock);
    if (next)
        thread_ready(worker_current(), next);
}

void gs_mutex_unlock(struct gs_mutex *mutex)
{
    uintptr_t self = (uintptr_t)thread_current();
    assert(gs_mutex_is_mine(mutex));
    if (UNLIKELY(!change(mutex, self, 0)))
        unlock_slowly(mutex);
}

bool gs_mutex_is_mine(const struct gs_mutex *mutex)
{
    return (atomic_load_explicit(&mutex->owner, memory_order_relaxed) & ~WAITED) ==
           (uintptr_t)thread_current();
}
