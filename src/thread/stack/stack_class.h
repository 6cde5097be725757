/* The classes of stacks, as the files see them that allocate stacks (stacks.c), give their memory
 * back (stack_trim.c) and find threads by addresses (stack_find.c). */
#ifndef GS_THREAD_STACK_CLASS_H
#define GS_THREAD_STACK_CLASS_H

#include "thread/stack/slot_set.h"
#include "thread/stack/stacks.h"

/* The control blocks of a class are an array; so are its slots in the reservation. */
struct stack_class {
    struct slot_layout layout;
    size_t max_slots;
    char *blocks; /* the control blocks */
    char *base;   /* the first slot; NULL: outside of the reservation, or CLASS_SHARED */
    char **each;  /* the slots of a class outside */
    size_t used;  /* slots that were ever allocated; read without the lock, too */
    struct free_list free;
    struct slot_set returned; /* free slots without memory */
    uint64_t trim_period_ns;
};
extern GS_HIDDEN struct stack_class gs_stack_classes[STACK_CLASSES];

/* Guards the classes; acquired by any kernel thread. */
extern GS_HIDDEN struct gs_spin gs_stack_classes_lock;

/* Cache colouring: stacks end at different cache lines of their pages, or all of them would share
 * the same few cache sets. */
#define COLOURS 16u
#define LINE ((size_t)64)

/* A control block takes an odd number of cache lines: then all cache sets are used for the lines
 * with the same purpose, and GROUP_SIZE of them are whole pages. */
#define BLOCK_SIZE (((sizeof(struct gs_thread) + LINE - 1) / LINE | 1) * LINE)
#define GROUP_SIZE(page_size_) ((page_size_) / LINE)

/* The control block of a slot. Not for the thread sanitizer, as gs_stacks_at, whose acquire it
 * would not see. */
NOT_FOR_TSAN static inline struct gs_thread *stack_block(const struct stack_class *class,
                                                         size_t index)
{
    return (struct gs_thread *)(class->blocks + index * BLOCK_SIZE);
}

static inline struct gs_thread *free_list_pop(struct free_list *list)
{
    struct gs_thread *thread = list->first;
    list->first = thread->next_free;
    if (--list->count < list->low)
        list->low = list->count;
    return thread;
}

static inline void free_list_push(struct free_list *list, struct gs_thread *thread)
{
    thread->next_free = list->first;
    list->first = thread;
    list->count++;
}

/* The lowest address of a slot; CLASS_SHARED: NULL. */
static inline char *stack_slot(const struct stack_class *class, size_t index)
{
    if (class->each)
        return class->each[index];
    return class->base ? class->base + index * class->layout.slot_size : NULL;
}

/* Make bytes of the reservation writable. Returns 0 or -ENOMEM (stacks.c). */
int gs_stacks_open(void *at, size_t size);

/* Release `count` free stacks to other workers (stacks.c). */
void gs_stacks_release_some(struct worker *worker, int stack_class, unsigned count);

/* Called when the worker has more free stacks of the class than free_max (stack_trim.c). */
void gs_stacks_on_many_free(struct worker *worker, int stack_class);

#endif
