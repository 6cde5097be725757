#include "thread/context/valgrind.h"
#include "thread/schedule/thread_extra.h"
#include "thread/stack/saved_block.h"
#include "thread/stack/shared_stack.h"
#include "thread/stack/stack_class.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MAX_LARGE ((size_t)1 << 13)

struct stack_class gs_stack_classes[STACK_CLASSES];
struct gs_spin gs_stack_classes_lock;
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
    {0, 0, (size_t)4 << 20}, /* CLASS_SHARED */
    {(size_t)8 << 20, (size_t)64 << 10, MAX_LARGE},
    {(size_t)64 << 20, (size_t)64 << 10, MAX_LARGE},
};
size_t gs_page_size;
size_t gs_stack_sizes[STACK_CLASSES];
static bool has_reservation, can_be_shared;

/* Bytes made writable at a time: the kernel then extends one mapping. And groups of control
 * blocks. */
#define WRITABLE_STEP ((size_t)16 << 20)
#define BLOCKS_STEP ((size_t)16)
#define FREE_STACKS_BATCH 32u

/* Addresses for what evicted threads have on their stacks. */
#define SAVED_ADDRESSES ((size_t)16 << 30)

__attribute__((constructor)) static void read_page_size(void)
{
    gs_page_size = getauxval(AT_PAGESZ);
}

/* ---- Layout of a slot ---- */

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) & ~(unit - 1);
}

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

struct slot_layout gs_slot_layout(int stack_class, size_t page_size)
{
    size_t stack_size = sizes[stack_class].stack_size;
    size_t guard_size = round_up(sizes[stack_class].guard_size, page_size);
    if (stack_class == CLASS_SHARED)
        return (struct slot_layout){.slot_size = 0};
    return (struct slot_layout){
        .stack_size = stack_size,
        .guard_size = guard_size,
        .slot_size = guard_size + round_up(stack_size + (COLOURS - 1) * LINE, page_size),
    };
}

size_t gs_slot_stack_top_at(const struct slot_layout *layout, size_t index)
{
    return layout->slot_size - index % COLOURS * LINE;
}

/* ---- The reservation ---- */

static size_t size_of_blocks(const struct stack_class *class)
{
    return round_up(class->max_slots * BLOCK_SIZE, gs_page_size);
}

static size_t size_of_slots(const struct stack_class *class)
{
    return class->layout.slot_size * class->max_slots;
}

/* What evicted threads have on their stacks, then control blocks and slots of each class. */
static int divide(char *at, size_t saved_size)
{
    char *saved = (char *)round_up((uintptr_t)at, SAVED_CHUNK);
    at = saved + saved_size;
    for (int c = 0; c < RESERVED_CLASSES; c++) {
        struct stack_class *class = &gs_stack_classes[c];
        class->blocks = at;
        at += size_of_blocks(class);
        class->base = size_of_slots(class) ? at : NULL;
        at += size_of_slots(class);
    }
    return gs_saved_blocks_init(saved, saved_size);
}

static int reserve(size_t divisor)
{
    size_t saved_size = SAVED_ADDRESSES / divisor, total = saved_size + SAVED_CHUNK;
    for (int c = 0; c < RESERVED_CLASSES; c++) {
        struct stack_class *class = &gs_stack_classes[c];
        class->layout = gs_slot_layout(c, gs_page_size);
        class->max_slots = sizes[c].max_slots / divisor;
        total += size_of_slots(class) + size_of_blocks(class);
    }
    long base = gs_sys_mmap(NULL, total, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1);
    if (base < 0)
        return (int)base;
    int err = divide((char *)base, saved_size);
    if (err)
        return err;
    has_reservation = true;
    /* A stack of which one page is used would get a huge page. */
    (void)gs_sys_madvise((void *)base, total, MADV_NOHUGEPAGE);
    /* A core dump by a debugger would contain all of it. */
    (void)gs_sys_madvise((void *)base, total, MADV_DONTDUMP);
    return 0;
}

/* All that the reservation needs at least. */
#define ADDRESSES_MIN ((rlim_t)1 << 30)

/* Prepare for slots that are mapped one by one: no more than there are addresses for. */
static int reserve_none(struct stack_class *class, rlim_t addresses)
{
    class->max_slots = lesser(class->max_slots, addresses / class->layout.slot_size);
    long blocks =
        gs_sys_mmap(NULL, class->max_slots * (BLOCK_SIZE + sizeof *class->each),
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (blocks < 0)
        return -ENOMEM;
    class->blocks = (char *)blocks;
    class->each = (char **)(class->blocks + class->max_slots * BLOCK_SIZE);
    return 0;
}

/* Where the addresses are limited, others need them as much as stacks do: none are reserved. */
static int init_addresses(void)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    int first = has_reservation ? RESERVED_CLASSES : 0, err = 0;
    (void)getrlimit(RLIMIT_AS, &limit);
    for (size_t divisor = 1; limit.rlim_cur == RLIM_INFINITY && divisor <= 1024 && !first;
         divisor *= 4)
        first = reserve(divisor) ? 0 : RESERVED_CLASSES;
    for (int c = first; c < STACK_CLASSES && !err; c++) {
        struct stack_class *class = &gs_stack_classes[c];
        bool is_large = c >= CLASS_LARGE;
        if (class->each || c == CLASS_SHARED)
            continue;
        class->layout = gs_slot_layout(c, gs_page_size);
        class->max_slots = sizes[c].max_slots;
        if (limit.rlim_cur == RLIM_INFINITY && !is_large)
            limit.rlim_cur = ADDRESSES_MIN;
        err = reserve_none(class, is_large ? RLIM_INFINITY : limit.rlim_cur);
    }
    return err;
}

static int init_sets(struct stack_class *class)
{
    const struct stack_class *stacks = class;
    if (class == &gs_stack_classes[CLASS_SHARED])
        stacks = &gs_stack_classes[gs_stacks_class(SHARED_STACK_SIZE)];
    gs_stack_sizes[class - gs_stack_classes] = stacks->layout.slot_size - stacks->layout.guard_size;
    return class->max_slots ? gs_slot_set_init(&class->returned, class->max_slots) : 0;
}

int gs_stacks_init(void)
{
    static bool is_initialized;
    int err = is_initialized ? 0 : init_addresses();
    for (int c = 0; c < STACK_CLASSES && !err && !is_initialized; c++)
        err = init_sets(&gs_stack_classes[c]);
    is_initialized = !err;
    can_be_shared = has_reservation && GS_ASAN + GS_TSAN == 0 && !valgrind_is_running();
    return err;
}

static int class_among(size_t stack_size, int from, int end)
{
    while (from < end && stack_size > sizes[from].stack_size)
        from++;
    return from < end ? from : -EINVAL;
}

int gs_stacks_class(size_t stack_size)
{
    int class = class_among(stack_size, 0, PLAIN_CLASSES);
    return class < 0 ? class_among(stack_size, CLASS_LARGE, STACK_CLASSES) : class;
}

/* The checked library gives each thread a stack of its own (protected_stack.c). */
bool gs_stacks_can_be_shared(void)
{
#ifdef GS_CHECKED
    return false;
#else
    return can_be_shared;
#endif
}

NOT_FOR_TSAN char *gs_stack_bottom(const struct gs_thread *thread)
{
    if (thread->stack_class == CLASS_USER_STACK)
        return thread->extra->stack;
    const struct stack_class *class = &gs_stack_classes[thread->stack_class];
    const char *top = thread->stack_top;
    size_t index = thread->slot_index;
    if (thread->stack_class == CLASS_SHARED) {
        class = &gs_stack_classes[gs_stacks_class(SHARED_STACK_SIZE)];
        index = (size_t)(top - 1 - class->base) / class->layout.slot_size;
    }
    return top ? stack_slot(class, index) + class->layout.guard_size : NULL;
}

int gs_stacks_open(void *at, size_t size)
{
    if (gs_sys_mprotect(at, size, PROT_READ | PROT_WRITE))
        return -ENOMEM;
    (void)gs_sys_madvise(at, size, MADV_DODUMP);
    return 0;
}

/* After so many control blocks, the pages of some groups are made at once: each page fault costs
 * more than the page. */
#define BLOCKS_TO_POPULATE 1024u
#define POPULATED_GROUPS ((size_t)4)

/* Make the memory of the next control block usable, and that of some more. Outside of the
 * reservation it is. */
static int open_block(const struct stack_class *class)
{
    size_t group = GROUP_SIZE(gs_page_size), used = class->used;
    char *at = class->blocks + used * BLOCK_SIZE;
    size_t count = lesser(BLOCKS_STEP * group, class->max_slots - used);
    if (!class->each && used % (BLOCKS_STEP * group) == 0 &&
        gs_stacks_open(at, round_up(count * BLOCK_SIZE, gs_page_size)))
        return -ENOMEM;
    if (used >= BLOCKS_TO_POPULATE && used % (POPULATED_GROUPS * group) == 0)
        (void)gs_sys_madvise(at, POPULATED_GROUPS * group * BLOCK_SIZE, MADV_POPULATE_WRITE);
    return 0;
}

/* The same for the next slot. */
static int open_slot(const struct stack_class *class)
{
    size_t slot_size = class->layout.slot_size, step = WRITABLE_STEP / slot_size;
    return class->used % step
               ? 0
               : gs_stacks_open(class->base + class->used * slot_size,
                                lesser(step, class->max_slots - class->used) * slot_size);
}

static int map_slot(struct stack_class *class)
{
    size_t slot_size = class->layout.slot_size;
    long slot = gs_sys_mmap(NULL, slot_size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1);
    if (slot < 0)
        return -ENOMEM;
    (void)gs_sys_madvise((void *)slot, slot_size, MADV_NOHUGEPAGE);
    class->each[class->used] = (char *)slot;
    return 0;
}

static int make_usable(struct stack_class *class)
{
    int err = open_block(class);
    if (err || (!class->each && !class->base))
        return err;
    return class->each ? map_slot(class) : open_slot(class);
}

/* Write what a control block needs besides what a new thread gets. */
static struct gs_thread *prepare_slot(struct stack_class *class, size_t index)
{
    struct gs_thread *thread = stack_block(class, index);
    char *slot = stack_slot(class, index);
    thread->stack_top = slot ? slot + gs_slot_stack_top_at(&class->layout, index) : NULL;
    thread->stack_class = (uint8_t)(class - gs_stack_classes);
    thread->slot_index = (uint32_t)index;
    thread->has_canary = false;
    thread->saved = NULL;
    return thread;
}

/* Make the next slot usable. The caller holds the lock. */
static int allocate_slot(struct stack_class *class, struct gs_thread **ret_thread)
{
    if (class->used == class->max_slots)
        return -EAGAIN;
    int err = make_usable(class);
    if (err)
        return err;
    char *slot = stack_slot(class, class->used);
    struct gs_thread *thread = prepare_slot(class, class->used);
    thread->has_canary = slot && gs_guard_install(slot, class->layout.guard_size) == GUARD_CANARY;
    if (slot)
        valgrind_add_stack(gs_stack_bottom(thread), thread->stack_top);
    /* Release: pairs with gs_stacks_at. */
    __atomic_store_n(&class->used, class->used + 1, __ATOMIC_RELEASE);
    *ret_thread = thread;
    return 0;
}

/* The caller holds the lock. */
static int get_one(struct stack_class *class, struct gs_thread **ret_thread)
{
    if (class->free.first)
        *ret_thread = free_list_pop(&class->free);
    else if (class->returned.count)
        *ret_thread = prepare_slot(class, gs_slot_set_take(&class->returned));
    else
        return allocate_slot(class, ret_thread);
    return 0;
}

/* The worker gets some more that are free, and control blocks, which take little. */
int gs_stacks_get(struct worker *worker, int stack_class, struct gs_thread **ret_thread)
{
    struct stack_class *class = &gs_stack_classes[stack_class];
    struct gs_thread *more;
    spin_lock_always(&gs_stack_classes_lock);
    int err = get_one(class, ret_thread);
    for (unsigned i = 1; !err && worker && i < FREE_STACKS_BATCH; i++) {
        if ((!class->free.first && stack_class != CLASS_SHARED) || get_one(class, &more))
            break;
        free_list_push(&worker->free[stack_class], more);
    }
    spin_unlock_always(&gs_stack_classes_lock);
    return err;
}

void gs_stacks_unget(struct gs_thread *thread)
{
    spin_lock_always(&gs_stack_classes_lock);
    free_list_push(&gs_stack_classes[thread->stack_class].free, thread);
    spin_unlock_always(&gs_stack_classes_lock);
}

void gs_stacks_release_some(struct worker *worker, int stack_class, unsigned count)
{
    spin_lock_always(&gs_stack_classes_lock);
    while (count--)
        free_list_push(&gs_stack_classes[stack_class].free,
                       free_list_pop(&worker->free[stack_class]));
    spin_unlock_always(&gs_stack_classes_lock);
}

/* ---- The end of a thread, of a worker and of a run ---- */

void gs_stacks_put(struct worker *worker, struct gs_thread *thread)
{
    int stack_class = thread->stack_class;
    __atomic_store_n(&thread->is_live, false, __ATOMIC_RELAXED);
#ifdef GS_CHECKED
    thread = gs_quarantine_thread(thread);
    if (!thread)
        return;
#endif
    free_list_push(&worker->free[stack_class], thread);
    if (UNLIKELY(worker->free[stack_class].count > worker->free_max))
        gs_stacks_on_many_free(worker, stack_class);
}

void gs_stacks_release(struct worker *worker)
{
    gs_timer_stop(&worker->trim_timer);
    gs_shared_stacks_release(worker);
    for (int c = 0; c < STACK_CLASSES; c++)
        gs_stacks_release_some(worker, c, worker->free[c].count);
}

void gs_stacks_reclaim(void)
{
    for (int c = 0; c < STACK_CLASSES; c++) {
        for (size_t i = 0; i < gs_stack_classes[c].used; i++) {
            struct gs_thread *thread = stack_block(&gs_stack_classes[c], i);
            if (!thread->is_live)
                continue;
            gs_thread_forget(thread);
            thread->is_retired = false;
            free_list_push(&gs_stack_classes[c].free, thread);
        }
    }
    gs_saved_blocks_reclaim();
}

void gs_stacks_lock(void)
{
    spin_lock_always(&gs_stack_classes_lock);
}

void gs_stacks_unlock(void)
{
    spin_unlock_always(&gs_stack_classes_lock);
}

static void free_after_fork(struct stack_class *class, size_t index, const struct gs_thread *only)
{
    struct gs_thread *thread = stack_block(class, index);
    bool can_be_joined = thread->is_live && thread->is_done;
    if (thread == only || can_be_joined || thread->is_retired)
        return;
    if (thread->is_live) {
        gs_thread_forget(thread);
        return;
    }
    free_list_push(&class->free, thread);
}

void gs_stacks_after_fork(struct worker *worker, struct gs_thread *only)
{
    CHECKED_AFTER_FORK();
    gs_shared_stacks_after_fork(worker, only);
    for (int c = 0; c < STACK_CLASSES; c++) {
        worker->free[c] = gs_stack_classes[c].free = (struct free_list){.first = NULL};
        for (size_t i = gs_stack_classes[c].used; i--;)
            if (!gs_slot_set_has(&gs_stack_classes[c].returned, i))
                free_after_fork(&gs_stack_classes[c], i, only);
    }
}

NOT_FOR_TSAN struct gs_thread *gs_stacks_at(int stack_class, size_t index)
{
    const struct stack_class *class = &gs_stack_classes[stack_class];
    size_t used = __atomic_load_n(&class->used, __ATOMIC_ACQUIRE);
    return index < used ? stack_block(class, index) : NULL;
}

size_t gs_stacks_count(void)
{
    size_t count = 0;
    for (int c = 0; c < STACK_CLASSES; c++)
        if (c != CLASS_SHARED)
            count += __atomic_load_n(&gs_stack_classes[c].used, __ATOMIC_RELAXED);
    return count;
}
