/* Finding threads by addresses. */
#include "thread/stack/shared_stack.h"
#include "thread/stack/stack_class.h"

static bool is_within(const void *address, const void *from, size_t size)
{
    return (const char *)address >= (const char *)from &&
           (const char *)address < (const char *)from + size;
}

static struct gs_thread *find_outside(const void *address)
{
    struct gs_thread *thread;
    for (int c = 0; c < STACK_CLASSES; c++) {
        const struct stack_class *class = &gs_stack_classes[c];
        for (size_t i = 0; class->each && (thread = gs_stacks_at(c, i)); i++)
            if (is_within(address, class->each[i], class->layout.slot_size))
                return thread;
    }
    return NULL;
}

/* The thread whose slot contains the address; NULL: none. */
static struct gs_thread *slot_at(const char *at)
{
    for (int c = 0; c < PLAIN_CLASSES; c++) {
        const struct stack_class *class = &gs_stack_classes[c];
        size_t offset = (size_t)(at - class->base);
        if (class->base && at >= class->base && offset < class->max_slots * class->layout.slot_size)
            return gs_stacks_at(c, offset / class->layout.slot_size);
    }
    return find_outside(at);
}

static struct gs_thread *find_by_slot(const char *at)
{
    struct gs_thread *thread = slot_at(at);
    struct gs_thread *occupant =
        thread && thread->is_retired ? gs_shared_stack_occupant(thread) : NULL;
    return occupant ? occupant : thread;
}

struct gs_thread *gs_stacks_find(const void *address)
{
    const char *at = address;
    for (int c = 0; c < STACK_CLASSES; c++) {
        const struct stack_class *class = &gs_stack_classes[c];
        if (class->blocks && is_within(at, class->blocks, class->max_slots * BLOCK_SIZE))
            return gs_stacks_at(c, (size_t)(at - class->blocks) / BLOCK_SIZE);
    }
    return find_by_slot(at);
}

/* A frame so large that it reaches beyond the guard, up to this size, is found by the stack
 * pointer. */
#define FRAME_MAX ((ptrdiff_t)64 << 20)

struct gs_thread *gs_stacks_find_overflowed(const void *address, const void *sp)
{
    struct gs_thread *thread = find_by_slot(address);
    if (thread && (const char *)address < gs_stack_bottom(thread))
        return thread;
    struct worker *worker = gs_worker_or_null();
    thread = worker ? worker->current : NULL;
    if (!thread || worker->is_stack_in_use || thread->stack_class == CLASS_USER_STACK ||
        is_within(sp, worker->signal_stack, SIGNAL_STACK_SIZE))
        return NULL;
    ptrdiff_t below = gs_stack_bottom(thread) - (const char *)sp;
    return below > 0 && below <= FRAME_MAX ? thread : NULL;
}
