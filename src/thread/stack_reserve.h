/* Pages in reserve. A page that the kernel allocates for a stack that comes back costs more than
 * all else of a wake-up; one that another stack of this program does not need can be moved there
 * (UFFDIO_MOVE), for half of that. Such pages are those of the worker's free stacks, beyond
 * RESERVE_FREE_KEPT. Without them, and where the kernel does not move pages, it allocates one.
 *
 *     free stack -- page taken --> emptied -- RESERVE_EMPTIED of them --> slot without memory
 */
#ifndef GS_THREAD_STACK_RESERVE_H
#define GS_THREAD_STACK_RESERVE_H

#include "thread/stack_class.h"

/* Move a page to `page`, where there must be none. Returns false if the caller has to get one. */
bool gs_reserve_take(struct worker *worker, int stack_class, char *page);

/* Give the slots back whose page was taken: called when a pass is over and when the worker ends. */
void gs_reserve_release(struct worker *worker);

/* Called in the child of a fork, and when no worker runs. */
void gs_reserve_reset(void);

/* Where the page of the stack's end begins. */
static inline char *stack_last_page(const struct gs_thread *thread)
{
    return (char *)((uintptr_t)(thread->stack_top - 1) & ~(gs_page_size - 1));
}

#endif
