/* The interface between the library gossamer_check and the runtime, which looks it up: the
 * pthread mutexes that a user thread holds when it waits. */
#ifndef GS_THREAD_PRELOAD_LOCK_TRACKER_H
#define GS_THREAD_PRELOAD_LOCK_TRACKER_H

struct gs_held_lock {
    /* the most recent one, and where it was locked: the return address of that call */
    const void *lock, *lock_site;
};

/* The user thread is about to leave its stack, on this kernel thread. Returns how many locks it
 * holds that were not returned before. */
typedef unsigned gs_held_locks_at_wait_fn(const void *thread, struct gs_held_lock *ret_last);
gs_held_locks_at_wait_fn gs_held_locks_at_wait;
#define GS_HELD_LOCKS_AT_WAIT "gs_held_locks_at_wait"

#endif
