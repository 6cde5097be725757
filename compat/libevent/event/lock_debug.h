/* Locks around those of the program, which check how they are used: who holds them, how often, and
 * that only the holder releases them. A misuse is an error within the library: it ends the program.
 */
#ifndef GS_COMPAT_LIBEVENT_LOCK_DEBUG_H
#define GS_COMPAT_LIBEVENT_LOCK_DEBUG_H

#include <event2/thread.h>
#include <stdbool.h>

/* The checked locks use those of `locks`, which may have none: then they only count. */
void gs_ev_lock_debug_wrap(const struct evthread_lock_callbacks *locks,
                           const struct evthread_condition_callbacks *conditions,
                           struct evthread_lock_callbacks *ret_locks,
                           struct evthread_condition_callbacks *ret_conditions);

/* Returns whether this thread holds a checked lock. */
bool gs_ev_lock_debug_is_held(void *lock);

#endif
