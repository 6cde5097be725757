/* Stacks: one reservation of addresses, divided into slots of a few size classes. The slots of
 * the largest classes are outside: each is mapped when a thread asks for it, so that programs
 * that do not ask need no addresses for them. The lowest pages of a slot are a guard; the stack
 * above has at least the size that its class promises. The control blocks of each class are an
 * array; there is one more for threads that share stacks (shared_stack.h), which have no slots.
 * Free stacks are kept by each worker, in LIFO order. Slots are never unmapped, but their memory is
 * given back when it has not been needed for a while, or by gs_threads_trim. Where the addresses
 * are limited (RLIMIT_AS), nothing is reserved, and all slots are mapped one by one. */
#ifndef GS_THREAD_STACKS_H
#define GS_THREAD_STACKS_H

#include "base/hidden.h"
#include "thread/schedule/thread.h"

/* The kernel's page size, read when the program starts: 4 KiB; on aarch64 also 16 or 64 KiB. A
 * power of two. */
extern GS_HIDDEN size_t gs_page_size;

/* The layout of a slot of a class, for a page size. */
struct slot_layout {
    size_t stack_size; /* the minimum */
    size_t slot_size;  /* whole pages */
    size_t guard_size; /* whole pages, the lowest */
};
struct slot_layout gs_slot_layout(int stack_class, size_t page_size);
/* The offset of the end of the stack in the slot with that index. */
size_t gs_slot_stack_top_at(const struct slot_layout *layout, size_t index);

/* Reserve the addresses, once in the life of the program. Returns 0 or -ENOMEM. */
int gs_stacks_init(void);

/* Called when the worker has got its loop. */
void gs_stacks_init_worker(struct worker *worker);

/* The class for a stack size, or -EINVAL if it is too large. */
int gs_stacks_class(size_t stack_size);

/* Whether threads can share stacks: sanitizers and valgrind know the stack of each, and control
 * blocks of CLASS_SHARED are in the reservation. */
bool gs_stacks_can_be_shared(void);

/* Get a stack with its control block, of which the worker has none free; worker: the caller, or
 * NULL if it is no worker. Returns 0, -ENOMEM or -EAGAIN. */
int gs_stacks_get(struct worker *worker, int stack_class, struct gs_thread **ret_thread);
void gs_stacks_put(struct worker *worker, struct gs_thread *thread);

/* No thread could be started on the stack that was got. */
void gs_stacks_unget(struct gs_thread *thread);

/* The lowest usable byte of the stack. */
char *gs_stack_bottom(const struct gs_thread *thread);

/* Other kernel threads may read it at the same time, to cancel all threads. */
static inline bool thread_is_live(const struct gs_thread *thread)
{
    return __atomic_load_n(&thread->is_live, __ATOMIC_SEQ_CST);
}

/* Called when the worker ends: release its free stacks to the other workers. */
void gs_stacks_release(struct worker *worker);

/* Called when no worker runs: free the stacks of threads that have not ended. */
void gs_stacks_reclaim(void);

/* The lock that guards the allocation of stacks, for a fork. In the child, the stacks of all
 * threads but one are free; the caller holds the lock. */
void gs_stacks_lock(void);
void gs_stacks_unlock(void);
void gs_stacks_after_fork(struct worker *worker, struct gs_thread *only);

/* The control block in slot `index` of a class; NULL: the index is too large. */
struct gs_thread *gs_stacks_at(int stack_class, size_t index);
size_t gs_stacks_count(void);

/* The thread whose slot or control block contains the address; NULL: none. */
struct gs_thread *gs_stacks_find(const void *address);

/* The thread whose stack has overflowed, if it has: its guard contains the address, or the calling
 * worker runs it and its stack pointer is below its stack. NULL: none. May be called by signal
 * handlers. */
struct gs_thread *gs_stacks_find_overflowed(const void *address, const void *sp);

/* Whether the canary at the end of the stack, which has one, is intact. */
bool gs_stacks_is_canary_intact(const struct gs_thread *thread);

/* The same, if it has one. */
static inline bool gs_stacks_is_intact(const struct gs_thread *thread)
{
    return !thread->has_canary || gs_stacks_is_canary_intact(thread);
}

/* ---- Guards (stack_guard.c) ---- */

enum guard { GUARD_UNKNOWN, GUARD_REGIONS, GUARD_MPROTECT, GUARD_CANARY };

/* Guard `size` bytes of pages. Returns the method; a canary is in the last page only. */
enum guard gs_guard_install(void *pages, size_t size);
extern GS_HIDDEN enum guard gs_guard_mode;

#ifdef GS_CHECKED
/* The stack is to become inaccessible, or is accessible again. Returns false if too few mappings
 * would be left for the rest of the program. */
bool gs_guard_take_mappings(const struct gs_thread *thread);
void gs_guard_return_mappings(const struct gs_thread *thread);
#endif

#endif
