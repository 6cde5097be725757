#include "thread/stacks.h"
#include "thread/valgrind.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/auxv.h>
#include <sys/mman.h>

/* The slots of a class in the reservation are contiguous. */
struct stack_class {
    struct slot_layout layout;
    size_t max_slots;
    char *base;              /* of the first slot; NULL: a large class */
    struct gs_thread **each; /* of a large class: the control blocks */
    size_t used;             /* slots that were ever allocated; read without the lock, too */
    size_t writable;         /* slots of the reservation whose pages may be touched */
    struct gs_thread *free;
};

#define MAX_LARGE ((size_t)1 << 13)

static struct stack_class classes[STACK_CLASSES];
/* A function whose frame is no larger than the guard cannot reach the stack below without touching
 * the guard, at whatever depth it is called. */
static const struct {
    size_t stack_size, guard_size, max_slots;
} sizes[STACK_CLASSES] = {
    {(size_t)16 << 10, (size_t)16 << 10, (size_t)4 << 20},
    {(size_t)56 << 10, (size_t)64 << 10, (size_t)4 << 20}, /* the default */
    {(size_t)64 << 10, (size_t)64 << 10, (size_t)1 << 20},
    {(size_t)256 << 10, (size_t)64 << 10, (size_t)1 << 19},
    {(size_t)1 << 20, (size_t)64 << 10, (size_t)1 << 16},
    {(size_t)8 << 20, (size_t)64 << 10, MAX_LARGE},
    {(size_t)64 << 20, (size_t)64 << 10, MAX_LARGE},
};
static struct gs_thread *large[STACK_CLASSES - RESERVED_CLASSES][MAX_LARGE];
size_t gs_page_size;
static char *reservation, *reservation_end;
static struct gs_spin lock; /* guards all of this; acquired by any kernel thread */

/* Bytes made writable at a time: the kernel then extends one mapping. */
#define WRITABLE_STEP ((size_t)16 << 20)
/* Free stacks that a worker keeps for itself before it releases half of them to others. */
#define FREE_STACKS_MAX 256u
#define FREE_STACKS_BATCH 32u
/* Cache colouring: control blocks begin at different cache lines of their pages, or all of them
 * would share the same few cache sets. */
#define COLOURS 16u
#define LINE ((size_t)64)

__attribute__((constructor)) static void read_page_size(void)
{
    gs_page_size = getauxval(AT_PAGESZ);
}

/* ---- Layout of a slot ---- */

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) & ~(unit - 1);
}

#define DESCRIPTOR_SIZE ((sizeof(struct gs_thread) + LINE - 1) & ~(LINE - 1))

struct slot_layout gs_slot_layout(int stack_class, size_t page_size)
{
    size_t stack_size = sizes[stack_class].stack_size;
    size_t guard_size = round_up(sizes[stack_class].guard_size, page_size);
    return (struct slot_layout){
        .stack_size = stack_size,
        .guard_size = guard_size,
        .slot_size =
            guard_size + round_up(stack_size + (COLOURS - 1) * LINE + DESCRIPTOR_SIZE, page_size),
    };
}

size_t gs_slot_control_block_at(const struct slot_layout *layout, size_t index)
{
    return layout->slot_size - index % COLOURS * LINE - DESCRIPTOR_SIZE;
}

/* ---- The reservation ---- */

static int reserve(size_t divisor)
{
    size_t total = 0;
    for (int c = 0; c < RESERVED_CLASSES; c++) {
        classes[c].layout = gs_slot_layout(c, gs_page_size);
        classes[c].max_slots = sizes[c].max_slots / divisor;
        total += classes[c].layout.slot_size * classes[c].max_slots;
    }
    long base = gs_sys_mmap(NULL, total, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1);
    if (base < 0)
        return (int)base;
    reservation = (char *)base;
    reservation_end = reservation + total;
    char *at = reservation;
    for (int c = 0; c < RESERVED_CLASSES; c++) {
        classes[c].base = at;
        at += classes[c].layout.slot_size * classes[c].max_slots;
    }
    /* A stack of which one page is used would get a huge page. */
    (void)gs_sys_madvise(reservation, total, MADV_NOHUGEPAGE);
    /* A core dump by a debugger would contain all of it. */
    (void)gs_sys_madvise(reservation, total, MADV_DONTDUMP);
    return 0;
}

int gs_stacks_init(void)
{
    if (reservation)
        return 0;
    for (int c = RESERVED_CLASSES; c < STACK_CLASSES; c++) {
        classes[c].layout = gs_slot_layout(c, gs_page_size);
        classes[c].max_slots = sizes[c].max_slots;
        classes[c].each = large[c - RESERVED_CLASSES];
    }
    for (size_t divisor = 1; divisor <= 1024; divisor *= 4)
        if (!reserve(divisor))
            return 0;
    return -ENOMEM;
}

int gs_stacks_class(size_t stack_size)
{
    for (int c = 0; c < STACK_CLASSES; c++)
        if (stack_size <= sizes[c].stack_size)
            return c;
    return -EINVAL;
}

static struct gs_thread *block_in(const struct stack_class *class, char *slot, size_t index)
{
    return (struct gs_thread *)(slot + gs_slot_control_block_at(&class->layout, index));
}

/* Not for the thread sanitizer, as gs_stacks_at, whose acquire it would not see. */
NOT_FOR_TSAN static struct gs_thread *control_block(const struct stack_class *class, size_t index)
{
    return class->each ? class->each[index]
                       : block_in(class, class->base + index * class->layout.slot_size, index);
}

/* Make the pages of the next slot of the reservation writable. */
static int open_slot(struct stack_class *class, char **ret_slot)
{
    size_t slot_size = class->layout.slot_size;
    char *slot = class->base + class->used * slot_size;
    if (class->used == class->writable) {
        size_t count = WRITABLE_STEP / slot_size;
        if (count > class->max_slots - class->used)
            count = class->max_slots - class->used;
        int err = gs_sys_mprotect(slot, count * slot_size, PROT_READ | PROT_WRITE);
        if (err)
            return -ENOMEM;
        (void)gs_sys_madvise(slot, count * slot_size, MADV_DODUMP);
        class->writable += count;
    }
    *ret_slot = slot;
    return 0;
}

static int map_slot(struct stack_class *class, char **ret_slot)
{
    size_t slot_size = class->layout.slot_size;
    long slot = gs_sys_mmap(NULL, slot_size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1);
    if (slot < 0)
        return -ENOMEM;
    (void)gs_sys_madvise((void *)slot, slot_size, MADV_NOHUGEPAGE);
    class->each[class->used] = block_in(class, (char *)slot, class->used);
    *ret_slot = (char *)slot;
    return 0;
}

/* Make the next slot usable. The caller holds the lock. */
static int allocate_slot(struct stack_class *class, struct gs_thread **ret_thread)
{
    char *slot;
    if (class->used == class->max_slots)
        return -EAGAIN;
    int err = class->each ? map_slot(class, &slot) : open_slot(class, &slot);
    if (err)
        return err;
    bool has_canary = gs_guard_install(slot, class->layout.guard_size) == GUARD_CANARY;
    struct gs_thread *thread = control_block(class, class->used);
    thread->stack = slot + class->layout.guard_size;
    thread->stack_top = (char *)thread;
    thread->stack_class = (uint8_t)(class - classes);
    thread->has_canary = has_canary;
    valgrind_add_stack(thread->stack, thread->stack_top);
    /* Release: pairs with gs_stacks_at. */
    __atomic_store_n(&class->used, class->used + 1, __ATOMIC_RELEASE);
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
        err = allocate_slot(class, ret_thread);
    for (unsigned i = 1; worker && class->free && i < FREE_STACKS_BATCH; i++) {
        push(&worker->free_stacks[stack_class], pop(&class->free));
        worker->free_count[stack_class]++;
    }
    spin_unlock_always(&lock);
    return err;
}

/* Release `count` free stacks to other workers. */
static void release(struct worker *worker, int stack_class, unsigned count)
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
#ifdef GS_CHECKED
    thread = gs_quarantine_thread(thread);
    if (!thread)
        return;
#endif
    push(&worker->free_stacks[stack_class], thread);
    if (UNLIKELY(++worker->free_count[stack_class] > FREE_STACKS_MAX) && gs_runtime.is_multi)
        release(worker, stack_class, FREE_STACKS_MAX / 2);
}

void gs_stacks_release(struct worker *worker)
{
    for (int c = 0; c < STACK_CLASSES; c++)
        release(worker, c, worker->free_count[c]);
}

void gs_stacks_reclaim(void)
{
    for (int c = 0; c < STACK_CLASSES; c++) {
        for (size_t i = 0; i < classes[c].used; i++) {
            struct gs_thread *thread = control_block(&classes[c], i);
            if (!thread->is_live)
                continue;
            gs_thread_forget(thread);
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

void gs_stacks_after_fork(struct worker *worker, struct gs_thread *only)
{
    CHECKED_AFTER_FORK();
    for (int c = 0; c < STACK_CLASSES; c++) {
        worker->free_stacks[c] = classes[c].free = NULL;
        worker->free_count[c] = 0;
        for (size_t i = classes[c].used; i--;) {
            struct gs_thread *thread = control_block(&classes[c], i);
            if (thread == only || (thread->is_live && thread->is_done))
                continue; /* a thread that has ended can still be joined */
            if (thread->is_live)
                gs_thread_forget(thread);
            else
                push(&classes[c].free, thread);
        }
    }
}

NOT_FOR_TSAN struct gs_thread *gs_stacks_at(int stack_class, size_t index)
{
    const struct stack_class *class = &classes[stack_class];
    size_t used = __atomic_load_n(&class->used, __ATOMIC_ACQUIRE);
    return index < used ? control_block(class, index) : NULL;
}

size_t gs_stacks_count(void)
{
    size_t count = 0;
    for (int c = 0; c < STACK_CLASSES; c++)
        count += classes[c].used;
    return count;
}

static bool is_within(const void *address, const void *from, size_t size)
{
    return (const char *)address >= (const char *)from &&
           (const char *)address < (const char *)from + size;
}

static struct gs_thread *find_large(const void *address)
{
    struct gs_thread *thread;
    for (int c = RESERVED_CLASSES; c < STACK_CLASSES; c++) {
        const struct slot_layout *layout = &classes[c].layout;
        for (size_t i = 0; (thread = gs_stacks_at(c, i)); i++)
            if (is_within(address, thread->stack - layout->guard_size, layout->slot_size))
                return thread;
    }
    return NULL;
}

struct gs_thread *gs_stacks_find(const void *address)
{
    const char *at = address;
    if (at < reservation || at >= reservation_end)
        return find_large(address);
    const struct stack_class *class = &classes[RESERVED_CLASSES - 1];
    while (at < class->base)
        class --;
    return gs_stacks_at((int)(class - classes),
                        (size_t)(at - class->base) / class->layout.slot_size);
}

/* A frame so large that it reaches beyond the guard, up to this size, is found by the stack
 * pointer. */
#define FRAME_MAX ((ptrdiff_t)64 << 20)

struct gs_thread *gs_stacks_find_overflowed(const void *address, const void *sp)
{
    struct gs_thread *thread = gs_stacks_find(address);
    if (thread && (const char *)address < thread->stack)
        return thread;
    struct worker *worker = gs_worker_or_null();
    thread = worker ? worker->current : NULL;
    if (!thread || worker->is_stack_in_use || thread->stack_class == CLASS_USER_STACK ||
        is_within(sp, worker->signal_stack, SIGNAL_STACK_SIZE))
        return NULL;
    ptrdiff_t below = thread->stack - (const char *)sp;
    return below > 0 && below <= FRAME_MAX ? thread : NULL;
}

void gs_threads_trim(void)
{
    CHECKED_WORKER();
    struct worker *worker = worker_current();
    for (int c = 0; c < STACK_CLASSES; c++)
        release(worker, c, worker->free_count[c]);
    spin_lock_always(&lock);
    for (int c = 0; c < STACK_CLASSES; c++) {
        for (struct gs_thread *thread = classes[c].free; thread; thread = thread->next_free) {
            char *page = (char *)((uintptr_t)thread & ~(gs_page_size - 1));
            (void)gs_sys_madvise(thread->stack, (size_t)(page - thread->stack), MADV_DONTNEED);
        }
    }
    spin_unlock_always(&lock);
}
