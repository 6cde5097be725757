/* Locks and conditions, from the callbacks of event2/thread.h. Without callbacks there are none:
 * gs_ev_lock_new returns NULL then, and every function accepts NULL and does nothing. */
#ifndef GS_COMPAT_LIBEVENT_LOCK_H
#define GS_COMPAT_LIBEVENT_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/time.h>

/* Returns whether the program has set callbacks for locks, and for conditions. */
bool gs_ev_locks_are_used(void);
bool gs_ev_conds_are_used(void);

/* Returns a recursive lock, or NULL: without callbacks, or if they have failed. */
void *gs_ev_lock_new(void);
void gs_ev_lock_free(void *lock);
void gs_ev_lock_always(void *lock);
void gs_ev_unlock_always(void *lock);
/* Returns whether the lock was free, or was this thread's already. */
bool gs_ev_try_lock(void *lock);
/* Returns whether this thread holds the lock; always true without lock debugging. For assertions.
 */
bool gs_ev_lock_is_held(void *lock);

static inline void gs_ev_lock(void *lock)
{
    if (lock)
        gs_ev_lock_always(lock);
}

static inline void gs_ev_unlock(void *lock)
{
    if (lock)
        gs_ev_unlock_always(lock);
}

/* Returns NULL without callbacks, or if they have failed. */
void *gs_ev_cond_new(void);
void gs_ev_cond_free(void *cond);
/* With the lock held. wait returns 0, 1 after the timeout (NULL: none), or -1. */
void gs_ev_cond_signal(void *cond, bool wakes_all);
int gs_ev_cond_wait(void *cond, void *lock, const struct timeval *timeout);

/* Returns a number of this thread; 1 without a callback. */
unsigned long gs_ev_thread_id(void);

/* Free what the checks of locks have allocated. */
void gs_ev_locks_shutdown(void);

#endif
