#include "thread/stacks.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/mman.h>

/* Slots of a size stand next to each other. */
struct stack_class {
    size_t slot_size, most; /* slots */
    char *base;
    size_t used;     /* slots that were handed out at some time */
    size_t writable; /* slots whose pages may be touched */
    struct gs_thread *free;
};

static struct stack_class classes[STACK_CLASSES] = {
    {.slot_size = (size_t)16 << 10, .most = (size_t)4 << 20},
    {.slot_size = (size_t)64 << 10, .most = (size_t)4 << 20},
    {.slot_size = (size_t)256 << 10, .most = (size_t)1 << 19},
    {.slot_size = (size_t)1 << 20, .most = (size_t)1 << 16},
};
static char *reservation, *reservation_end;
static struct gs_spin lock; /* guards all of this; taken by any kernel thread */

/* Bytes made writable at a time: the kernel extends one mapping. */
#define WRITABLE_STEP ((size_t)16 << 20)
/* Finished stacks that a worker keeps for itself before it leaves half of them to others. */
#define KEPT_MOST 256u
#define TAKEN_AT_ONCE 32u
/* Descriptors begin at different cache lines of their pages: else all of them would share the same few sets of the cache. */
#define COLOURS 16u
#define LINE ((size_t)64)

static int reserve(size_t divisor)
{
    size_t total = 0;
    for (int c = 0; c < STACK_CLASSES; c++)
        total += classes[c].slot_size * (classes[c].most / divisor);
    long base = gs_sys_mmap(NULL, total, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1);
    if (base < 0)
        return (int)base;
    reservation = (char *)base;
    reservation_end = reservation + total;
    char *at = reservation;
    for (int c = 0; c < STACK_CLASSES; c++) {
        classes[c].most /= divisor;
        classes[c].base = at;
        at += classes[c].slot_size * classes[c].most;
    }
    /* A huge page would be given to a stack of which one page is used. */
    (void)gs_sys_madvise(reservation, total, MADV_NOHUGEPAGE);
    /* A debugger's core would hold all of it. */
    (void)gs_sys_madvise(reservation, total, MADV_DONTDUMP);
    return 0;
}

int gs_stacks_init(void)
{
    if (reservation)
        return 0;
    for (size_t divisor = 1; divisor <= 1024; divisor *= 4)
        if (!reserve(divisor))
            return 0;
    return -ENOMEM;
}

int gs_stacks_class(size_t stack_size)
{
    for (int c = 0; c < STACK_CLASSES; c++)
        if (stack_size <= classes[c].slot_size)
            return c;
    return -EINVAL;
}

static struct gs_thread *descriptor(const struct stack_class *class, size_t index)
{
    char *end = class->base + (index + 1) * class->slot_size;
    size_t size = (sizeof(struct gs_thread) + LINE - 1) & ~(LINE - 1);
    return (struct gs_thread *)(end - index % COLOURS * LINE - size);
}

/* Make the next slot usable. The lock is held. */
static int carve(struct stack_class *class, struct gs_thread **ret_thread)
{
    if (class->used == class->most)
        return -EAGAIN;
    char *slot = class->base + class->used * class->slot_size;
    if (class->used == class->writable) {
        size_t count = WRITABLE_STEP / class->slot_size;
        if (count > class->most - class->used)
            count = class->most - class->used;
        int err = gs_sys_mprotect(slot, count * class->slot_size, PROT_READ | PROT_WRITE);
        if (err)
            return -ENOMEM;
        (void)gs_sys_madvise(slot, count * class->slot_size, MADV_DODUMP);
        class->writable += count;
    }
    bool has_canary = gs_guard_install(slot) == GUARD_CANARY;
    struct gs_thread *thread = descriptor(class, class->used);
    thread->stack = slot + PAGE_SIZE;
    thread->stack_top = (char *)thread;
    thread->stack_class = (uint8_t)(class - classes);
    thread->has_canary = has_canary;
    class->used++;
    *ret_thread = thread;
    return 0;
}

static struct gs_thread *pop(struct gs_thread **list)
{
    struct gs_thread *thread = *list;
    *list = thread->next_free;
    return thread;
}

static void push(struct gs_thread **list, struct gs_thread *thread)
{
    thread->next_free = *list;
    *list = thread;
}

int gs_stacks_get(struct worker *worker, int stack_class, struct gs_thread **ret_thread)
{
    struct stack_class *class = &classes[stack_class];
    int err = 0;
    if (LIKELY(worker && worker->free_stacks[stack_class])) {
        worker->free_count[stack_class]--;
        *ret_thread = pop(&worker->free_stacks[stack_class]);
        return 0;
    }
    spin_lock_always(&lock);
    if (class->free)
        *ret_thread = pop(&class->free);
    else
        err = carve(class, ret_thread);
    for (unsigned i = 1; worker && class->free && i < TAKEN_AT_ONCE; i++) {
        push(&worker->free_stacks[stack_class], pop(&class->free));
        worker->free_count[stack_class]++;
    }
    spin_unlock_always(&lock);
    return err;
}

/* Leave `count` to others. */
static void give(struct worker *worker, int stack_class, unsigned count)
{
    spin_lock_always(&lock);
    worker->free_count[stack_class] -= count;
    while (count--)
        push(&classes[stack_class].free, pop(&worker->free_stacks[stack_class]));
    spin_unlock_always(&lock);
}

void gs_stacks_put(struct worker *worker, struct gs_thread *thread)
{
    int stack_class = thread->stack_class;
    __atomic_store_n(&thread->is_live, false, __ATOMIC_RELAXED);
    push(&worker->free_stacks[stack_class], thread);
    if (UNLIKELY(++worker->free_count[stack_class] > KEPT_MOST) && gs_runtime.is_multi)
        give(worker, stack_class, KEPT_MOST / 2);
}

void gs_stacks_release(struct worker *worker)
{
    for (int c = 0; c < STACK_CLASSES; c++)
        give(worker, c, worker->free_count[c]);
}

void gs_stacks_reclaim(void)
{
    for (int c = 0; c < STACK_CLASSES; c++) {
        for (size_t i = 0; i < classes[c].used; i++) {
            struct gs_thread *thread = descriptor(&classes[c], i);
            if (!thread->is_live)
                continue;
            fiber_done(&thread->fiber);
            thread->is_live = false;
            push(&classes[c].free, thread);
        }
    }
}

void gs_stacks_lock(void)
{
    spin_lock_always(&lock);
}

void gs_stacks_unlock(void)
{
    spin_unlock_always(&lock);
}

void gs_stacks_forked(struct worker *worker, struct gs_thread *only)
{
    for (int c = 0; c < STACK_CLASSES; c++) {
        worker->free_stacks[c] = classes[c].free = NULL;
        worker->free_count[c] = 0;
        for (size_t i = classes[c].used; i--;) {
            struct gs_thread *thread = descriptor(&classes[c], i);
            if (thread == only)
                continue;
            if (thread->is_live)
                fiber_done(&thread->fiber);
            thread->is_live = false;
            push(&classes[c].free, thread);
        }
    }
}

NOT_FOR_TSAN struct gs_thread *gs_stacks_at(int stack_class, size_t index)
{
    const struct stack_class *class = &classes[stack_class];
    return index < class->used ? descriptor(class, index) : NULL;
}

size_t gs_stacks_count(void)
{
    size_t count = 0;
    for (int c = 0; c < STACK_CLASSES; c++)
        count += classes[c].used;
    return count;
}

struct gs_thread *gs_stacks_holding(const void *address)
{
    const char *at = address;
    if (at < reservation || at >= reservation_end)
        return NULL;
    const struct stack_class *class = &classes[STACK_CLASSES - 1];
    while (at < class->base)
        class --;
    return gs_stacks_at((int)(class - classes), (size_t)(at - class->base) / class->slot_size);
}

struct gs_thread *gs_stacks_guarded(const void *address)
{
    struct gs_thread *thread = gs_stacks_holding(address);
    return thread && (const char *)address < thread->stack ? thread : NULL;
}

void gs_threads_trim(void)
{
    struct worker *worker = worker_current();
    for (int c = 0; c < STACK_CLASSES; c++)
        give(worker, c, worker->free_count[c]);
    spin_lock_always(&lock);
    for (int c = 0; c < STACK_CLASSES; c++) {
        for (struct gs_thread *thread = classes[c].free; thread; thread = thread->next_free) {
            char *page = (char *)((uintptr_t)thread & ~(PAGE_SIZE - 1));
            (void)gs_sys_madvise(thread->stack, (size_t)(page - thread->stack), MADV_DONTNEED);
        }
    }
    spin_unlock_always(&lock);
}
