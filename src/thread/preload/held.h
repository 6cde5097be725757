/* What the library gossamer_check tells the runtime that finds it: which kernel mutexes a user thread holds when it waits. */
#ifndef GS_THREAD_PRELOAD_HELD_H
#define GS_THREAD_PRELOAD_HELD_H

struct gs_held {
    const void *lock, *locked_by; /* the one locked last, and the place in the program that did */
};

/* The user thread is about to leave its stack, on this kernel thread. Returns how many locks it holds that were not told of
 * before. */
typedef unsigned gs_held_at_wait_fn(const void *thread, struct gs_held *ret_last);
gs_held_at_wait_fn gs_held_at_wait;
#define GS_HELD_AT_WAIT "gs_held_at_wait"

#endif
