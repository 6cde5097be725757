/* Shared stacks. A thread that promises that nobody else uses its stack while it waits
 * (gs_thread_attributes.stack_is_shared) has no stack of its own, but runs on one of a few that its
 * worker has. Which one is decided when it runs first: its addresses are the thread's for its life,
 * and so are those of the variables on it.
 *
 * When the thread waits, nothing happens. When another thread of the same stack is to run, what the
 * occupant has on the stack is copied to a block of memory, and what the other one had there is
 * copied back: by the thread that is left for it or, if both have the same stack, on the worker's
 * own. The occupant gets gs_thread_resume_shared as its resume function, which says so. So a switch
 * to a thread that occupies its stack, or has its own, costs nothing more. (docs/design/threads.md)
 *
 *     new -- first run --> occupies its stack <-- resumed / another one resumed --> evicted
 *
 * Invariants:
 *   1. All threads of a stack are their worker's: only that evicts and resumes them, and not on
 *      that stack. Until it runs first, any worker may take the thread; then it stays.
 *   2. An occupant has left its stack, unless it is the running thread.
 *   3. A thread that is new or evicted has gs_thread_resume_shared as its resume function. If it is
 *      evicted, `saved` is what was on its stack: in a block of the worker's (saved_block.h) that
 *      ends where its contents end.
 *   4. A stack is a slot like any other. The control block in there, of no thread, is the holder.
 *
 * Source: copying stacks of libco and libaco, which have no scheduler. */
#ifndef GS_THREAD_SHARED_STACK_H
#define GS_THREAD_SHARED_STACK_H

#include "thread/stack/saved_block.h"
#include "thread/stack/stacks.h"

/* Of each worker, at most. So many threads need not be evicted; more stacks would not all be in the
 * processor's caches. */
#define SHARED_STACKS 128u
extern GS_HIDDEN unsigned gs_shared_stacks_max; /* tests lower it */
#define SHARED_STACK_SIZE ((size_t)56 << 10)

struct shared_stack {
    struct gs_thread *holder;
    struct gs_thread *occupant; /* NULL: none */
    bool is_vacant;             /* it is among the `vacant` */
};

struct shared_stacks {
    struct shared_stack each[SHARED_STACKS];
    unsigned count, next; /* allocated so far; where new threads go next */
    /* Those that had no occupant when they were added: the last one is taken first. */
    unsigned vacant_count;
    uint8_t vacant[SHARED_STACKS];
    struct saved_blocks saved;
    _Atomic(uint64_t) evictions, evicted_bytes, misfits;
};

/* Whether a thread with these attributes, of which stack_size may be the run's, and this function
 * shares its stack. */
bool gs_stack_is_shared(const struct gs_thread_attributes *attributes, size_t stack_size,
                        gs_thread_fn *fn);

/* Called before the first of them is spawned: each worker gets a stack. Returns 0 or -ENOMEM. */
int gs_shared_stacks_prepare(void);

/* Called for a new thread that shares its stack. */
void gs_shared_stack_init_thread(struct gs_thread *thread, gs_thread_fn *fn);

/* Called by a thread that ends, while it is still on its stack. */
void gs_shared_stack_leave(struct worker *worker, const struct gs_thread *thread);

/* Make the thread, whose resume function is gs_thread_resume_shared, the occupant of its stack:
 * then the caller switches to it. Returns false if the caller is on that stack, or there is no
 * memory. */
bool gs_shared_stack_enter(struct worker *worker, struct gs_thread *thread);

/* The worker ends: its stacks can be anybody's. */
void gs_shared_stacks_release(struct worker *worker);

/* Give back memory that was not needed since the last call; is_all: all that is not in use. */
void gs_shared_stacks_trim(struct worker *worker, bool is_all);

/* In the child of a fork, whose only thread is `only`. */
void gs_shared_stacks_after_fork(struct worker *worker, const struct gs_thread *only);

/* The thread that occupies the stack whose holder this is; NULL: none, or it is no holder. */
struct gs_thread *gs_shared_stack_occupant(const struct gs_thread *holder);

/* ---- For reports ---- */

/* Whether what the thread has on its stack is elsewhere. The answer may be out of date. */
NOT_FOR_TSAN static inline bool thread_is_evicted(const struct gs_thread *thread)
{
    return thread->stack_class == CLASS_SHARED && *(char *const volatile *)&thread->saved;
}

/* Whether the thread's stack may not be used now, since it waits (protected_stack.c). */
#ifdef GS_CHECKED
bool gs_stack_is_protected(const struct gs_thread *thread);
#else
static inline bool gs_stack_is_protected(const struct gs_thread *thread)
{
    (void)thread;
    return false;
}
#endif

/* What the thread has on its stack can be read until it is unlocked. Returns the lock, NULL: none
 * is needed. */
#ifdef GS_CHECKED
struct gs_spin *gs_stack_reading_lock(const struct gs_thread *thread);
void gs_stack_reading_unlock(struct gs_spin *lock, const struct gs_thread *thread);
#else
static inline struct gs_spin *gs_stack_reading_lock(const struct gs_thread *thread)
{
    (void)thread;
    return NULL;
}

static inline void gs_stack_reading_unlock(struct gs_spin *lock, const struct gs_thread *thread)
{
    (void)lock;
    (void)thread;
}
#endif

/* Where the word at this address of the thread's stack can be read now: there, or where it is
 * saved. NULL: nowhere. It is another thread's if the thread is resumed meanwhile. */
const void *gs_stack_readable(const struct gs_thread *thread, uintptr_t address);

/* Call fn(argument) while what the thread has on its stack is where it belongs. No worker can
 * resume the thread meanwhile. Returns false if that is impossible: the caller is on that stack. */
bool gs_stack_with(struct gs_thread *thread, void (*fn)(void *argument), void *argument);

void gs_shared_stacks_add_stats(const struct worker *worker, struct gs_threads_stats *stats);

#endif
