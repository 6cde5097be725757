/* One word says whether the mutex is held, and by whom: an address on the owner's stack, which costs nothing to find out, or its
 * descriptor. The lowest bit says that others wait: then locking and unlocking take the way through the lock and the queue, and the
 * mutex is handed to who has waited longest.
 *
 *     0 <--lock, unlock--> owner --lock_slowly--> owner, waited --unlock--> waited --unlock_slowly--> next owner
 *
 * Invariants, but for moments under the lock:
 *   1. The bit is set if and only if the queue is not empty.
 *   2. Who leaves the word at "waited" hands the mutex on, unless the last waiter has given up before.
 *   3. Nobody takes a mutex that is waited for: it is given. */
#include "thread/wait.h"

#define WAITED GS_MUTEX_WAITED

static void given_up(void *object, struct gs_thread *thread, bool was_queued);

static const struct wait_kind waiting = {
    .what = "mutex",
    .is_uninterrupted = true,
    .holder = HOLDER_MUTEX,
    .given_up = given_up,
    WAITS_IN(gs_mutex, waiting),
};

/* Under the lock: either takes the mutex, or marks it as waited for. */
static bool take_or_mark(struct gs_mutex *mutex, uintptr_t owner)
{
    for (;;) {
        uintptr_t word = atomic_load_explicit(&mutex->owner, memory_order_relaxed);
        if (!word && gs_mutex_take(mutex, owner))
            return true;
        if (word & WAITED || (word && atomic_compare_exchange_strong_explicit(
                                          &mutex->owner, &word, word | WAITED, memory_order_relaxed,
                                          memory_order_relaxed)))
            return false;
    }
}

static void given_up(void *object, struct gs_thread *thread, bool was_queued)
{
    struct gs_mutex *mutex = object;
    (void)thread, (void)was_queued;
    if (!mutex->waiting.first)
        atomic_fetch_and_explicit(&mutex->owner, ~WAITED, memory_order_relaxed);
}

int gs_mutex_lock_slowly(struct gs_mutex *mutex, uint64_t deadline_ns)
{
    struct gs_thread *self = thread_current();
    if (gs_mutex_is_mine(mutex))
        return -EDEADLK;
    spin_lock(&mutex->lock);
    if (take_or_mark(mutex, (uintptr_t)self)) {
        spin_unlock(&mutex->lock);
        return 0;
    }
    return wait_in(self, mutex, &waiting, deadline_ns);
}

void gs_mutex_unlock_slowly(struct gs_mutex *mutex)
{
    struct worker *worker = worker_current();
    struct gs_waiter *waiter = NULL;
    spin_lock(&mutex->lock);
    /* Acquire: it may be another former owner's than this one's. Pairs with the release in gs_mutex_release. */
    if (atomic_load_explicit(&mutex->owner, memory_order_acquire) == WAITED) {
        waiter = waiters_claim(worker, &mutex->waiting, CLAIM_WOKEN);
        uintptr_t mark = mutex->waiting.first ? WAITED : 0;
        atomic_store_explicit(&mutex->owner, waiter ? (uintptr_t)waiter->thread | mark : 0,
                              memory_order_release);
    }
    spin_unlock(&mutex->lock);
    if (waiter)
        thread_ready(worker, waiter->thread);
}

static bool is_of(uintptr_t owner, const struct gs_thread *thread)
{
    return owner >= (uintptr_t)thread->stack && owner < (uintptr_t)(thread + 1);
}

bool gs_mutex_is_mine(const struct gs_mutex *mutex)
{
    return is_of(atomic_load_explicit(&mutex->owner, memory_order_relaxed) & ~WAITED,
                 thread_current());
}
