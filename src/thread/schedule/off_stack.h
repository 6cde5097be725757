/* What others use during a wait of a thread: the kernel threads of the pool, and the threads that
 * wake it. While a thread that shares its stack waits, its addresses may hold another thread's
 * frames (stack_is_shared). So nothing that others use may be there: neither the records of the
 * library nor the buffers that the caller has passed. The call uses copies on the heap instead:
 *
 *     struct off_stack off = {.thread = self};
 *     struct record local = {...}, *record = off_stack_in(&off, &local, sizeof local);
 *     bytes = off_stack_out(&off, bytes, n);
 *     int err = off.err ? off.err : wait(record, bytes);
 *     off_stack_end(&off);
 *
 * What is not on the stack of a thread that shares it is used where it is.
 *
 * What others use during each wait, and where that is; "copied" if the thread shares its stack
 * (checked/test_waiting_calls.c, stack/test_shared_calls.c):
 *
 *     wait                            |  records             |  the caller's memory
 *     --------------------------------+----------------------+----------------------------------
 *     sleep, park, join; scopes; all  |  control block       |  none
 *     of sync.h but the next two      |                      |
 *     handlers of gs_fork             |  copied: the call    |  none
 *     channel                         |  control block       |  copied: the item
 *     select                          |  copied: its events  |  copied: the cases and their items
 *     readable, writable: most calls  |  control block       |  none: the thread calls the kernel
 *     of io.h; gs_close               |                      |
 *     poll: also of gs_dial           |  copied: waiters     |  none
 *     signal                          |  copied: watcher     |  none
 *     a blocking call, by the pool:   |                      |
 *         files, blocking mode        |  copied: job         |  copied: paths, buffers, addresses
 *         gs_resolve, gs_dial         |  copied: waiter      |  copied, of any thread
 *         gs_run_blocking             |  copied: job         |  the program passes none */
#ifndef GS_THREAD_OFF_STACK_H
#define GS_THREAD_OFF_STACK_H

#include "thread/schedule/thread.h"

#include <string.h>

struct iovec;

struct off_stack {
    const struct gs_thread *thread; /* the caller */
    struct off_stack_copy *copies;
    int err; /* -ENOMEM: a copy could not be made; then originals are returned from there on */
};

/* Copy it, unless it can be used where it is. is_result: off_stack_end copies it back. */
void *gs_off_stack_copy(struct off_stack *off, const void *at, size_t size, bool is_result);
const struct iovec *gs_off_stack_copy_parts(struct off_stack *off, const struct iovec *parts,
                                            int count, bool is_result);
void gs_off_stack_end(struct off_stack *off);

/* Returns where others may read and write `size` bytes, which have the same contents as those at
 * `at`. */
static inline void *off_stack_in(struct off_stack *off, const void *at, size_t size)
{
    return LIKELY(!off->thread->shares_stack) ? (void *)at
                                              : gs_off_stack_copy(off, at, size, false);
}

/* The same, and at the end `at` gets what they have written. */
static inline void *off_stack_out(struct off_stack *off, void *at, size_t size)
{
    return LIKELY(!off->thread->shares_stack) ? at : gs_off_stack_copy(off, at, size, true);
}

static inline const char *off_stack_string(struct off_stack *off, const char *text)
{
    return LIKELY(!off->thread->shares_stack || !text)
               ? text
               : gs_off_stack_copy(off, text, strlen(text) + 1, false);
}

/* The buffers, and the array. is_read: others write to them. */
static inline const struct iovec *off_stack_parts(struct off_stack *off, const struct iovec *parts,
                                                  int count, bool is_read)
{
    return LIKELY(!off->thread->shares_stack) ? parts
                                              : gs_off_stack_copy_parts(off, parts, count, is_read);
}

/* Called when nobody uses the copies any more: copies results back, and frees them. */
static inline void off_stack_end(struct off_stack *off)
{
    if (UNLIKELY(off->copies != NULL))
        gs_off_stack_end(off);
}

#endif
