/* What few threads have: names, values, scopes, thread pointers, stacks of the program's own. */
#ifndef GS_THREAD_THREAD_EXTRA_H
#define GS_THREAD_THREAD_EXTRA_H

#include "thread/schedule/thread.h"

/* All zero at first. */
struct thread_extra {
    char name[NAME_SIZE];
    void **values;
    struct gs_scope *scope; /* of which it is a member; NULL: none */
    int (*scope_fn)(void *argument);
    struct gs_thread *next_member, **previous_member; /* guarded by the scope's lock */
    struct gs_wait_queue watchers;                    /* in gs_select, for its end */
    void *tls_base; /* the thread pointer while it runs; NULL: its worker's */
    union {
        struct gs_list link; /* in user_stack_threads */
        struct thread_extra *next_free;
    };
    /* Of a thread on a stack of the program's own: */
    char *stack; /* the lowest usable byte */
    void (*on_end)(void *result);
    unsigned valgrind_stack; /* valgrind.h */
};

/* May be called by any kernel thread. Returns NULL if there is no memory. */
struct thread_extra *gs_thread_extra_new(void);
void gs_thread_extra_free(struct thread_extra *extra); /* may be NULL */

/* Returns that of the thread, which gets one if it has none; NULL: there is no memory. Another
 * thread may call it at the same time. */
struct thread_extra *gs_thread_get_extra(struct gs_thread *thread);

/* The lock that guards the allocation, for a fork. */
void gs_thread_extra_lock(void);
void gs_thread_extra_unlock(void);

/* NULL: none. Acquire: pairs with the release in gs_thread_get_extra. */
static inline struct thread_extra *thread_extra(const struct gs_thread *thread)
{
    return __atomic_load_n(&thread->extra, __ATOMIC_ACQUIRE);
}

/* What the thread has of the program's own; the memory stays mapped when the thread has ended, and
 * then may have another one's name. */
NOT_FOR_TSAN static inline const char *thread_name(const struct gs_thread *thread)
{
    const struct thread_extra *extra = *(struct thread_extra *const volatile *)&thread->extra;
    return extra ? extra->name : "";
}

/* ---- Threads on stacks of the program's own (thread.c) ---- */

struct user_stack_thread {
    struct gs_thread thread;
    struct thread_extra extra;
};

static inline struct gs_thread *thread_on_user_stack(struct gs_list *link)
{
    return &gs_container_of(link, struct user_stack_thread, extra.link)->thread;
}

/* The sizes of the stacks, by class, with some bytes of the guard (stacks.c). */
extern GS_HIDDEN size_t gs_stack_sizes[STACK_CLASSES];

/* Whether the address is on the thread's stack, or in its control block. */
NOT_FOR_TSAN static inline bool thread_contains(const struct gs_thread *thread, uintptr_t address)
{
    size_t size = thread->stack_class == CLASS_USER_STACK
                      ? (size_t)(thread->stack_top - thread->extra->stack)
                      : gs_stack_sizes[thread->stack_class];
    return (uintptr_t)thread->stack_top - 1 - address < size ||
           address - (uintptr_t)thread < sizeof *thread;
}

#endif
