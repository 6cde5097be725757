#include "thread/schedule/wait.h"

enum { ONCE_NEW, ONCE_RUNNING, ONCE_DONE };

void gs_once(struct gs_once *once, void (*fn)(void *), void *argument)
{
    CHECKED_WAIT(GS_NEVER);
    static const struct wait_kind waiting = {
        .name = "once",
        .ignores_cancel = true,
        .holder = HOLDER_ONCE,
        WAITS_IN(gs_once, waiting),
    };
    /* Acquire: pairs with the release below, publishing what fn wrote. The runner must have
     * released the lock, too: otherwise it would still touch memory that the caller may free. */
    if (LIKELY(atomic_load_explicit(&once->state, memory_order_acquire) == ONCE_DONE) &&
        LIKELY(!atomic_load_explicit(&once->lock.held, memory_order_acquire)))
        return;
    spin_lock(&once->lock);
    int state = atomic_load_explicit(&once->state, memory_order_relaxed);
    if (state == ONCE_RUNNING) {
        CHECKED(once->runner != thread_current(), "it was called by its own function");
        (void)wait_for_object(worker_current(), once, &waiting, GS_NEVER);
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
    once->runner = NULL; /* those that are woken wait for nobody */
    atomic_store_explicit(&once->state, ONCE_DONE, memory_order_release);
    gs_waiters_wake_all_and_unlock(&once->lock, &once->waiting);
}
