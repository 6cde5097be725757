/* Stacks: one reservation of addresses, cut into slots of a few sizes. The lowest page of a slot is a guard; on its top page
 * stands the descriptor of the thread, with the stack right below. Finished stacks are kept, by worker, last finished first
 * used. Slots are never given back: of the memory, gs_threads_trim gives back what it can. */
#ifndef GS_THREAD_STACKS_H
#define GS_THREAD_STACKS_H

#include "thread/state.h"

#define PAGE_SIZE ((size_t)4096)

/* Reserve, once for the life of the program. Returns 0 or -ENOMEM. */
int gs_stacks_init(void);

/* The class for a stack size, or -EINVAL: too large. */
int gs_stacks_class(size_t stack_size);

/* A descriptor on a stack of its own; worker: NULL in kernel threads that are none. Returns 0, -ENOMEM or -EAGAIN. */
int gs_stacks_get(struct worker *worker, int stack_class, struct gs_thread **ret_thread);
void gs_stacks_put(struct worker *worker, struct gs_thread *thread);

/* Others may ask meanwhile, to cancel all threads. */
static inline bool thread_is_live(const struct gs_thread *thread)
{
    return __atomic_load_n(&thread->is_live, __ATOMIC_SEQ_CST);
}

/* The worker ends: what it keeps is for others. */
void gs_stacks_release(struct worker *worker);

/* No worker runs any more: the stacks of threads that were given up are free. */
void gs_stacks_reclaim(void);

/* For a fork: guards all that is here. In the child, all but one thread's stack are free; the lock is held. */
void gs_stacks_lock(void);
void gs_stacks_unlock(void);
void gs_stacks_forked(struct worker *worker, struct gs_thread *only);

/* The descriptor in slot `index` of a class; NULL past the last one. */
struct gs_thread *gs_stacks_at(int stack_class, size_t index);
size_t gs_stacks_count(void);

/* The thread whose slot holds the address; NULL: it is in none. */
struct gs_thread *gs_stacks_holding(const void *address);

/* The thread whose guard holds the address; NULL: no guard. Signal handlers. */
struct gs_thread *gs_stacks_guarded(const void *address);

/* Whether what was written at the stack's end is still there, where there is no other guard. */
bool gs_stacks_is_sound(const struct gs_thread *thread);

/* ---- guard.c ---- */

enum guard { GUARD_UNKNOWN, GUARD_REGIONS, GUARD_MPROTECT, GUARD_CANARY };

/* Guard the page. Returns how. */
enum guard gs_guard_install(void *page);
extern enum guard gs_guard_mode;

#endif
