/* The classes of stacks, as the files see them that allocate stacks (stacks.c), give their memory
 * back (stack_trim.c) and find threads by addresses (stack_find.c). */
#ifndef GS_THREAD_STACK_CLASS_H
#define GS_THREAD_STACK_CLASS_H

#include "thread/stack/slot_set.h"
#include "thread/stack/stacks.h"

/* The slots of a class in the reservation are contiguous. */
struct stack_class {
    struct slot_layout layout;
    size_t max_slots;
    char *base;   /* of the first slot; NULL: outside of the reservation, or no stacks */
    char *blocks; /* CLASS_SHARED: an array of control blocks; NULL: they are in the slots */
    struct gs_thread **each; /* of a class outside: the control blocks */
    size_t used;             /* slots that were ever allocated; read without the lock, too */
    size_t writable;         /* slots of the reservation whose pages may be touched */
    size_t writable_blocks;
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

/* In an array, control blocks are adjacent. Each takes an odd number of cache lines: then all cache
 * sets are used for the lines with the same purpose, and GROUP_SIZE of them are whole pages. */
#define BLOCK_SIZE (((sizeof(struct gs_thread) + LINE - 1) / LINE | 1) * LINE)
#define GROUP_SIZE(page_size_) ((page_size_) / LINE)

/* The control block above the stack of a slot (stacks.c). */
struct gs_thread *gs_stacks_block_in(const struct stack_class *class, char *slot, size_t index);

/* The control block of a slot. Not for the thread sanitizer, as gs_stacks_at, whose acquire it
 * would not see. */
NOT_FOR_TSAN static inline struct gs_thread *stack_block(const struct stack_class *class,
                                                         size_t index)
{
    if (class->blocks)
        return (struct gs_thread *)(class->blocks + index * BLOCK_SIZE);
    return class->each
               ? class->each[index]
               : gs_stacks_block_in(class, class->base + index * class->layout.slot_size, index);
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

/* The lowest address of a slot (stacks.c). */
char *gs_stacks_slot(const struct stack_class *class, size_t index);

/* Release `count` free stacks to other workers (stacks.c). */
void gs_stacks_release_some(struct worker *worker, int stack_class, unsigned count);

/* Called when the worker has more free stacks of the class than free_max (stack_trim.c). */
void gs_stacks_on_many_free(struct worker *worker, int stack_class);

#endif
