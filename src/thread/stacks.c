#include "thread/stacks.h"
#include "thread/slot_set.h"
#include "thread/valgrind.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* The slots of a class in the reservation are contiguous. */
struct stack_class {
    struct slot_layout layout;
    size_t max_slots;
    char *base;              /* of the first slot; NULL: a class outside of the reservation */
    struct gs_thread **each; /* of such a class: the control blocks */
    size_t used;             /* slots that were ever allocated; read without the lock, too */
    size_t writable;         /* slots of the reservation whose pages may be touched */
    struct free_list free;
    struct slot_set returned; /* free slots without memory, not even for the control block */
    uint64_t trim_period_ns;
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

/* All that the reservation needs at least. */
#define ADDRESSES_MIN ((rlim_t)1 << 30)

/* Prepare for slots that are mapped one by one: no more than there are addresses for. */
static int reserve_none(struct stack_class *class, rlim_t addresses)
{
    size_t max = addresses / class->layout.slot_size;
    if (class->max_slots > max)
        class->max_slots = max;
    long each = gs_sys_mmap(NULL, class->max_slots * sizeof *class->each, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    class->each = each < 0 ? NULL : (struct gs_thread **)each;
    return class->each ? 0 : -ENOMEM;
}

/* Where the addresses are limited, others need them as much as stacks do: none are reserved. */
static int init_addresses(void)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    int first = reservation ? RESERVED_CLASSES : 0, err = 0;
    (void)getrlimit(RLIMIT_AS, &limit);
    for (size_t divisor = 1; limit.rlim_cur == RLIM_INFINITY && divisor <= 1024 && !first;
         divisor *= 4)
        first = reserve(divisor) ? 0 : RESERVED_CLASSES;
    for (int c = first; c < STACK_CLASSES && !err; c++) {
        if (classes[c].each)
            continue;
        bool is_large = c >= RESERVED_CLASSES;
        classes[c].layout = gs_slot_layout(c, gs_page_size);
        classes[c].max_slots = sizes[c].max_slots;
        if (limit.rlim_cur == RLIM_INFINITY && !is_large)
            limit.rlim_cur = ADDRESSES_MIN;
        err = reserve_none(&classes[c], is_large ? RLIM_INFINITY : limit.rlim_cur);
    }
    return err;
}

int gs_stacks_init(void)
{
    static bool is_initialized;
    int err = is_initialized ? 0 : init_addresses();
    for (int c = 0; c < STACK_CLASSES && !err && !is_initialized; c++)
        err = gs_slot_set_init(&classes[c].returned, classes[c].max_slots);
    is_initialized = !err;
    return err;
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

static char *slot_of(const struct stack_class *class, const struct gs_thread *thread, size_t index)
{
    return (char *)thread - gs_slot_control_block_at(&class->layout, index);
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

/* Write what a control block needs besides what a new thread gets. */
static struct gs_thread *prepare_slot(struct stack_class *class, size_t index)
{
    struct gs_thread *thread = control_block(class, index);
    thread->stack = slot_of(class, thread, index) + class->layout.guard_size;
    thread->stack_top = (char *)thread;
    thread->stack_class = (uint8_t)(class - classes);
    thread->slot_index = (uint32_t)index;
    thread->has_canary = false;
    return thread;
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
    struct gs_thread *thread = prepare_slot(class, class->used);
    thread->has_canary = has_canary;
    valgrind_add_stack(thread->stack, thread->stack_top);
    /* Release: pairs with gs_stacks_at. */
    __atomic_store_n(&class->used, class->used + 1, __ATOMIC_RELEASE);
    *ret_thread = thread;
    return 0;
}

static struct gs_thread *pop(struct free_list *list)
{
    struct gs_thread *thread = list->first;
    list->first = thread->next_free;
    if (--list->count < list->low)
        list->low = list->count;
    return thread;
}

static void push(struct free_list *list, struct gs_thread *thread)
{
    thread->next_free = list->first;
    list->first = thread;
    list->count++;
}

int gs_stacks_get(struct worker *worker, int stack_class, struct gs_thread **ret_thread)
{
    struct stack_class *class = &classes[stack_class];
    int err = 0;
    if (LIKELY(worker && worker->free[stack_class].first)) {
        *ret_thread = pop(&worker->free[stack_class]);
        return 0;
    }
    spin_lock_always(&lock);
    if (class->free.first)
        *ret_thread = pop(&class->free);
    else if (class->returned.count)
        *ret_thread = prepare_slot(class, gs_slot_set_take(&class->returned));
    else
        err = allocate_slot(class, ret_thread);
    for (unsigned i = 1; worker && class->free.first && i < FREE_STACKS_BATCH; i++)
        push(&worker->free[stack_class], pop(&class->free));
    spin_unlock_always(&lock);
    return err;
}

/* Release `count` free stacks to other workers. */
static void release(struct worker *worker, int stack_class, unsigned count)
{
    spin_lock_always(&lock);
    while (count--)
        push(&classes[stack_class].free, pop(&worker->free[stack_class]));
    spin_unlock_always(&lock);
}

/* ---- Giving memory back ---- */

/* After a peak, free stacks would keep memory that nobody needs for long: each has the page of its
 * control block, and those of its stack that were touched. A stack that is surplus for a whole
 * period is given back; in a steady state there is none, and this costs nothing. */
#define TRIM_PERIOD_NS GS_SECOND
/* Many are given back in steps, with pauses for the threads. */
#define TRIM_STEP 128u
#define TRIM_PAUSE_NS (5 * GS_MILLISECOND)
/* So many remain in each list. */
#define FREE_STACKS_KEPT 32u

static atomic_bool cannot_return; /* the kernel has refused: the memory is locked, for instance */

static size_t stack_pages(const struct gs_thread *thread)
{
    return (size_t)((char *)((uintptr_t)thread & ~(gs_page_size - 1)) - thread->stack);
}

/* Give the memory of a free slot back, with the control block. Returns false if that must stay: the
 * checks need those of former threads. */
static bool give_back(struct stack_class *class, struct gs_thread *thread)
{
    size_t index = thread->slot_index;
    bool has_block = thread->has_canary;
#ifdef GS_CHECKED
    has_block = true;
#endif
    size_t size =
        has_block ? stack_pages(thread) : class->layout.slot_size - class->layout.guard_size;
    if (gs_sys_madvise(thread->stack, size, MADV_DONTNEED)) {
        cannot_return = true;
        return false;
    }
    if (has_block)
        return false;
    spin_lock_always(&lock);
    gs_slot_set_add(&class->returned, index);
    spin_unlock_always(&lock);
    return true;
}

static void give_all_back(struct stack_class *class, struct free_list *list)
{
    struct free_list kept = {.first = NULL};
    while (list->count) {
        struct gs_thread *thread = pop(list);
        if (!give_back(class, thread))
            push(&kept, thread);
    }
    spin_lock_always(&lock);
    while (kept.count)
        push(&class->free, pop(&kept));
    spin_unlock_always(&lock);
}

static void end_period(struct free_list *list)
{
    list->excess = list->low > FREE_STACKS_KEPT ? list->low - FREE_STACKS_KEPT : 0;
    list->low = list->count;
}

/* Move what is surplus to `taken`, which has at most TRIM_STEP stacks. */
static void take_excess(struct free_list *list, struct free_list *taken)
{
    if (list->excess > list->count)
        list->excess = list->count;
    for (; list->excess && taken->count < TRIM_STEP; list->excess--)
        push(taken, pop(list));
}

/* Returns how many stacks were given back. */
static unsigned trim_class(struct worker *worker, int stack_class, bool is_period_over)
{
    struct stack_class *class = &classes[stack_class];
    struct free_list taken = {.first = NULL};
    uint64_t now_ns = *worker->now_ns;
    if (is_period_over)
        end_period(&worker->free[stack_class]);
    take_excess(&worker->free[stack_class], &taken);
    spin_lock_always(&lock);
    if (now_ns - class->trim_period_ns >= TRIM_PERIOD_NS) {
        class->trim_period_ns = now_ns;
        end_period(&class->free);
    }
    take_excess(&class->free, &taken);
    spin_unlock_always(&lock);
    unsigned count = taken.count;
    give_all_back(class, &taken);
    return count;
}

static bool has_many(const struct worker *worker)
{
    for (int c = 0; c < STACK_CLASSES; c++) {
        spin_lock_always(&lock);
        unsigned shared = classes[c].free.count;
        spin_unlock_always(&lock);
        if (worker->free[c].count > FREE_STACKS_KEPT || shared > FREE_STACKS_KEPT)
            return true;
    }
    return false;
}

/* A control block that is gone cannot be checked, and a canary would be gone, too. */
static bool may_trim(void)
{
#ifdef GS_CHECKED
    return false;
#else
    return gs_guard_mode != GUARD_CANARY && !cannot_return;
#endif
}

static void schedule_trim(struct worker *worker, uint64_t after_ns)
{
    worker->free_max = gs_runtime.is_multi ? FREE_STACKS_MAX : UINT_MAX;
    if (gs_timer_start(&worker->trim_timer, *worker->now_ns + after_ns))
        worker->free_max = FREE_STACKS_KEPT;
}

static void trim(struct gs_timer *timer)
{
    struct worker *worker = gs_container_of(timer, struct worker, trim_timer);
    uint64_t now_ns = *worker->now_ns;
    bool is_period_over = now_ns - worker->trim_period_ns >= TRIM_PERIOD_NS, is_incomplete = false;
    if (is_period_over)
        worker->trim_period_ns = now_ns;
    for (int c = 0; c < STACK_CLASSES; c++)
        is_incomplete |= trim_class(worker, c, is_period_over) >= TRIM_STEP;
    worker->free_max = FREE_STACKS_KEPT;
    if (has_many(worker) && may_trim())
        schedule_trim(worker, is_incomplete ? TRIM_PAUSE_NS : TRIM_PERIOD_NS);
}

void gs_stacks_init_worker(struct worker *worker)
{
    gs_timer_init(&worker->trim_timer, worker->loop, trim);
    worker->free_max = FREE_STACKS_KEPT;
}

static void on_many_free(struct worker *worker, int stack_class)
{
    if (gs_runtime.is_multi && worker->free[stack_class].count > FREE_STACKS_MAX)
        release(worker, stack_class, FREE_STACKS_MAX / 2);
    if (worker->free_max != FREE_STACKS_KEPT || !may_trim())
        return;
    worker->trim_period_ns = *worker->now_ns;
    for (int c = 0; c < STACK_CLASSES; c++)
        end_period(&worker->free[c]);
    schedule_trim(worker, TRIM_PERIOD_NS);
}

void gs_threads_trim(void)
{
    CHECKED_WORKER();
    struct worker *worker = worker_current();
    for (int c = 0; c < STACK_CLASSES; c++) {
        release(worker, c, worker->free[c].count);
        spin_lock_always(&lock);
        struct free_list list = classes[c].free;
        classes[c].free = (struct free_list){.first = NULL};
        spin_unlock_always(&lock);
        give_all_back(&classes[c], &list);
    }
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
    push(&worker->free[stack_class], thread);
    if (UNLIKELY(worker->free[stack_class].count > worker->free_max))
        on_many_free(worker, stack_class);
}

void gs_stacks_release(struct worker *worker)
{
    gs_timer_stop(&worker->trim_timer);
    for (int c = 0; c < STACK_CLASSES; c++)
        release(worker, c, worker->free[c].count);
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

static void free_after_fork(struct stack_class *class, size_t index, const struct gs_thread *only)
{
    struct gs_thread *thread = control_block(class, index);
    if (thread == only || (thread->is_live && thread->is_done))
        return; /* a thread that has ended can still be joined */
    if (thread->is_live) {
        gs_thread_forget(thread);
        return;
    }
    if (!thread->stack) /* another worker was about to return it */
        prepare_slot(class, index);
    push(&class->free, thread);
}

void gs_stacks_after_fork(struct worker *worker, struct gs_thread *only)
{
    CHECKED_AFTER_FORK();
    for (int c = 0; c < STACK_CLASSES; c++) {
        worker->free[c] = classes[c].free = (struct free_list){.first = NULL};
        for (size_t i = classes[c].used; i--;)
            if (!gs_slot_set_has(&classes[c].returned, i))
                free_after_fork(&classes[c], i, only);
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

static struct gs_thread *find_outside(const void *address)
{
    struct gs_thread *thread;
    for (int c = 0; c < STACK_CLASSES; c++) {
        const struct stack_class *class = &classes[c];
        for (size_t i = 0; class->each && (thread = gs_stacks_at(c, i)); i++)
            if (is_within(address, slot_of(class, thread, i), class->layout.slot_size))
                return thread;
    }
    return NULL;
}

struct gs_thread *gs_stacks_find(const void *address)
{
    const char *at = address;
    if (at < reservation || at >= reservation_end)
        return find_outside(address);
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
