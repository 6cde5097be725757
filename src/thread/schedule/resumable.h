/* Resumables, as the rest of the runtime sees them: waiters without a thread. */
#ifndef GS_THREAD_RESUMABLE_H
#define GS_THREAD_RESUMABLE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the `item` of a waiter without a thread is a resumable rather than a gs_poll. */
static inline bool waits_resumable(const void *item)
{
    return (uintptr_t)item & 1;
}

/* Wake the resumable. The caller has removed the waiter from its queue. */
void gs_resumable_notify(void *item);

#endif
