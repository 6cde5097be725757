/* One word holds the owner of the mutex: an address on the owner's stack, or the address of its
 * control block (gs_mutex_self). Its lowest bit means that the mutex is contended: threads are
 * queued. Then locking and unlocking go through the lock and the queue, and the mutex is handed to
 * the thread that has waited longest.
 *
 *     0 <-- lock, unlock --> owner -- lock_slow --> owner, contended -- unlock --> contended
 *                                                         ^                            |
 *                                                         `------ unlock_slow ---------'
 *                                                                (the next owner)
 *
 * Invariants, except for moments under the lock (tests/model/mutex.pml):
 *   1. The bit is set if and only if the queue is not empty.
 *   2. A thread that leaves the word at "contended" is handing the mutex over.
 *   3. No thread acquires a contended mutex: it is handed over.
 *   4. No waiting thread abandons its wait and returns while the word is "contended". So a thread
 *      that unlocks finds the mutex valid until it has released the lock; it does not touch the
 *      mutex afterwards: the next owner may unlock and free it at once. */
#include "thread/schedule/thread_extra.h"
#include "thread/schedule/wait.h"

#include <assert.h>

#define CONTENDED GS_MUTEX_CONTENDED

static void abandon(void *object, struct gs_thread *thread, bool was_queued,
                    struct claimed *claimed);

static const struct wait_kind waiting = {
    .name = "mutex",
    .ignores_cancel = true,
    .holder = HOLDER_MUTEX,
    .abandon = abandon,
    WAITS_IN(gs_mutex, waiting),
};

/* Acquire the mutex and return true, or mark it as contended. The caller holds the lock. */
static bool take_or_mark_contended(struct gs_mutex *mutex, uintptr_t owner)
{
    for (;;) {
        uintptr_t word = atomic_load_explicit(&mutex->owner, memory_order_relaxed);
        if (!word && gs_mutex_try_acquire(mutex, owner))
            return true;
        if (word & CONTENDED || (word && atomic_compare_exchange_strong_explicit(
                                             &mutex->owner, &word, word | CONTENDED,
                                             memory_order_relaxed, memory_order_relaxed)))
            return false;
    }
}

/* The queue is empty: clear the bit. If another thread is between releasing the mutex and taking
 * the lock, wait for it (invariant 4). */
static void abandon(void *object, struct gs_thread *thread, bool was_queued,
                    struct claimed *claimed)
{
    struct gs_mutex *mutex = object;
    (void)thread, (void)was_queued, (void)claimed;
    while (!mutex->waiting.first) {
        uintptr_t word = atomic_load_explicit(&mutex->owner, memory_order_relaxed);
        if (!(word & CONTENDED))
            return;
        if (word == CONTENDED) {
            spin_unlock(&mutex->lock);
            gs_spin_pause();
            spin_lock(&mutex->lock);
        } else if (atomic_compare_exchange_strong_explicit(&mutex->owner, &word, word & ~CONTENDED,
                                                           memory_order_relaxed,
                                                           memory_order_relaxed)) {
            return;
        }
    }
}

int gs_mutex_lock_slow(struct gs_mutex *mutex, uint64_t deadline_ns)
{
    IF_CHECKED(gs_checked_mutex_lock(CALL_OF("gs_mutex_lock"), mutex, deadline_ns));
    struct gs_thread *self = thread_current();
    if (gs_mutex_is_owned(mutex))
        return -EDEADLK;
    spin_lock(&mutex->lock);
    if (take_or_mark_contended(mutex, (uintptr_t)self)) {
        spin_unlock(&mutex->lock);
        return 0;
    }
    return wait_for_object(self->worker, mutex, &waiting, deadline_ns);
}

void gs_mutex_unlock_slow(struct gs_mutex *mutex)
{
    struct worker *worker = worker_current();
    struct gs_waiter *waiter;
    gs_chaos(CHAOS_UNLOCK);
    spin_lock(&mutex->lock);
    assert(atomic_load_explicit(&mutex->owner, memory_order_relaxed) == CONTENDED);
    waiter = waiters_pop_claimed(worker, &mutex->waiting, CLAIM_WOKEN);
    uintptr_t contended = mutex->waiting.first ? CONTENDED : 0;
    /* Release: pairs with the acquire in gs_mutex_try_acquire, if there is no next owner. */
    atomic_store_explicit(&mutex->owner, waiter ? (uintptr_t)waiter->thread | contended : 0,
                          memory_order_release);
    spin_unlock(&mutex->lock);
    gs_chaos(CHAOS_WAKE);
    if (waiter)
        thread_make_ready(worker, waiter->thread);
}

bool gs_mutex_is_owned(const struct gs_mutex *mutex)
{
    CHECKED_THREAD();
    return thread_contains(thread_current(),
                           atomic_load_explicit(&mutex->owner, memory_order_relaxed) & ~CONTENDED);
}

bool gs_mutex_may_unlock(const struct gs_mutex *mutex)
{
    IF_CHECKED(gs_checked_mutex_held(CALL_OF("gs_mutex_unlock"), mutex));
    return gs_mutex_is_owned(mutex);
}
