#include "thread/stack/shared_stack.h"
#include "thread/report/report.h"

#include <stdlib.h>
#include <string.h>

unsigned gs_shared_stacks_max = SHARED_STACKS;

/* More than this on the stack of a thread that waits takes long to copy. */
#define FIT_MAX ((size_t)4096)

/* Start functions, by a hash, whose threads have had more on their stacks when they waited: new
 * ones get stacks of their own. */
static atomic_bool is_misfit[256];

static struct shared_stack *stack_of(const struct worker *worker, const struct gs_thread *thread)
{
    return &worker->shared_stacks->each[thread->shared_index];
}

static size_t used_size(const struct gs_thread *thread)
{
    return (size_t)(thread->stack_top - (const char *)thread->sp);
}

/* The size of the block for it. */
static size_t saved_size(const struct gs_thread *thread)
{
    return (used_size(thread) + SAVED_UNIT - 1) & ~(SAVED_UNIT - 1);
}

/* The block that `saved` is the end of. */
static char *saved_block(const struct gs_thread *thread)
{
    return thread->saved - (saved_size(thread) - used_size(thread));
}

/* ---- Which threads ---- */

static uint8_t hash_of(gs_thread_fn *fn)
{
    uint64_t h = (uint64_t)(uintptr_t)fn * UINT64_C(0x9e3779b97f4a7c15);
    return (uint8_t)(h >> 56);
}

/* Sanitizers and valgrind know the stack of each thread. */
bool gs_stack_is_shared(const struct gs_thread_attributes *attributes, size_t stack_size,
                        gs_thread_fn *fn)
{
    return attributes->stack_is_shared && !attributes->stack && !attributes->start &&
           !attributes->thread_pointer && stack_size <= SHARED_STACK_SIZE &&
           gs_stacks_can_be_shared() && !gs_runtime.tells_asan &&
           !atomic_load_explicit(&is_misfit[hash_of(fn)], memory_order_relaxed);
}

void gs_shared_stack_init_thread(struct gs_thread *thread, gs_thread_fn *fn)
{
    thread->stack_top = NULL;
    thread->sp = NULL;
    thread->saved = NULL;
    thread->start_hash = hash_of(fn);
    thread->migrates = false;
    thread->run.resume = gs_thread_resume_shared;
}

/* ---- The stacks of a worker ---- */

/* Guards the preparation of all workers. */
static struct gs_spin prepare_lock;

static void set_vacant(struct shared_stacks *stacks, unsigned index)
{
    struct shared_stack *stack = &stacks->each[index];
    stack->occupant = NULL;
    if (!stack->is_vacant)
        stacks->vacant[stacks->vacant_count++] = (uint8_t)index;
    stack->is_vacant = true;
}

/* The caller need not be the worker whose stack it is to be. */
static int add_stack(struct shared_stacks *stacks)
{
    struct gs_thread *holder;
    int err = gs_stacks_get(NULL, gs_stacks_class(SHARED_STACK_SIZE), &holder);
    if (err)
        return err;
    holder->is_retired = true; /* it is never reused as a thread */
    stacks->each[stacks->count] = (struct shared_stack){.holder = holder};
    set_vacant(stacks, stacks->count++);
    return 0;
}

static int init_worker(struct worker *worker)
{
    if (worker->shared_stacks)
        return 0;
    struct shared_stacks *stacks = calloc(1, sizeof *stacks);
    int err = stacks ? add_stack(stacks) : -ENOMEM;
    if (err) {
        free(stacks);
        return err;
    }
    gs_saved_blocks_init_worker(&stacks->saved);
    worker->shared_stacks = stacks;
    return 0;
}

int gs_shared_stacks_prepare(void)
{
    int err = 0;
    if (LIKELY(atomic_load_explicit(&gs_runtime.shares_stacks, memory_order_acquire)))
        return 0;
    spin_lock_always(&prepare_lock);
    for (unsigned i = 0; i < gs_runtime.worker_count && !err; i++)
        err = init_worker(gs_runtime.workers[i]);
    if (!err)
        atomic_store_explicit(&gs_runtime.shares_stacks, true, memory_order_release);
    spin_unlock_always(&prepare_lock);
    return err ? -ENOMEM : 0;
}

void gs_shared_stacks_release(struct worker *worker)
{
    struct shared_stacks *stacks = worker->shared_stacks;
    for (unsigned i = 0; stacks && i < stacks->count; i++) {
        stacks->each[i].holder->is_retired = false;
        gs_stacks_put(worker, stacks->each[i].holder);
    }
    if (stacks)
        stacks->count = stacks->vacant_count = 0;
}

void gs_shared_stacks_after_fork(struct worker *worker, const struct gs_thread *only)
{
    struct shared_stacks *stacks = worker->shared_stacks;
    prepare_lock = (struct gs_spin){0};
    gs_saved_blocks_reclaim();
    if (stacks)
        gs_saved_blocks_init_worker(&stacks->saved);
    for (unsigned i = 0; stacks && i < stacks->count; i++) {
        if (stacks->each[i].occupant != only)
            set_vacant(stacks, i);
    }
}

/* ---- Evicting and resuming ---- */

/* Take a stack that has no occupant. Returns its index, or -1. */
static int take_vacant(struct shared_stacks *stacks)
{
    while (stacks->vacant_count) {
        unsigned index = stacks->vacant[--stacks->vacant_count];
        stacks->each[index].is_vacant = false;
        if (!stacks->each[index].occupant) /* an evicted thread may have returned to it */
            return (int)index;
    }
    return -1;
}

/* Where a new thread goes: to a stack that has no occupant, to a new one, or to the next in turn.
 * There is always one (gs_shared_stacks_prepare). */
static unsigned choose(struct worker *worker)
{
    struct shared_stacks *stacks = worker->shared_stacks;
    int vacant = take_vacant(stacks);
    if (vacant < 0 && stacks->count < gs_shared_stacks_max && !add_stack(stacks))
        vacant = take_vacant(stacks);
    if (vacant >= 0)
        return (unsigned)vacant;
    stacks->next = (stacks->next + 1) % stacks->count;
    return stacks->next;
}

/* From now on an address on its stack does not say which thread owns a mutex (gs_mutex_self). */
static void bind_to_stack(struct worker *worker, struct gs_thread *thread)
{
    if (!gs_runtime.is_multi)
        gs_threads_mode |= GS_THREADS_SHARED_STACKS;
    thread->shared_index = (uint8_t)choose(worker);
    const struct gs_thread *holder = stack_of(worker, thread)->holder;
    thread->stack_top = holder->stack_top;
    thread->has_canary = holder->has_canary;
}

static void exchange(char *a, char *b, size_t size)
{
    for (size_t i = 0; i < size; i += SAVED_UNIT) {
        char from_a[SAVED_UNIT], from_b[SAVED_UNIT];
        memcpy(from_a, a + i, SAVED_UNIT);
        memcpy(from_b, b + i, SAVED_UNIT);
        memcpy(a + i, from_b, SAVED_UNIT);
        memcpy(b + i, from_a, SAVED_UNIT);
    }
}

static void count_eviction(struct shared_stacks *stacks, const struct gs_thread *occupant,
                           size_t size)
{
    count_add(&stacks->evictions, 1);
    count_add(&stacks->evicted_bytes, size);
    if (LIKELY(size <= FIT_MAX))
        return;
    count_add(&stacks->misfits, 1);
    atomic_store_explicit(&is_misfit[occupant->start_hash], true, memory_order_relaxed);
}

/* What the occupant had on its stack is in `block` now, of its saved_size. */
static void set_evicted(struct shared_stacks *stacks, struct gs_thread *occupant, char *block)
{
    count_eviction(stacks, occupant, saved_size(occupant));
    occupant->saved = block + (saved_size(occupant) - used_size(occupant));
    occupant->run.resume = gs_thread_resume_shared;
}

static void restore(struct shared_stacks *stacks, struct gs_thread *thread)
{
    char *block = saved_block(thread);
    memcpy(thread->sp, thread->saved, used_size(thread));
    __atomic_store_n(&thread->saved, NULL, __ATOMIC_RELAXED);
    gs_saved_block_free(&stacks->saved, block);
}

/* Evict the occupant, and bring back what the thread has saved. Returns false if there is no memory
 * for what is on the stack. */
static bool take_place_of(struct shared_stacks *stacks, struct gs_thread *occupant,
                          struct gs_thread *thread)
{
    size_t size = saved_size(occupant);
    bool is_exchanged = thread->saved && saved_size(thread) == size;
    char *block = is_exchanged ? saved_block(thread) : gs_saved_block_new(&stacks->saved, size);
    if (UNLIKELY(!block))
        return false;
    if (is_exchanged) {
        exchange(block, thread->stack_top - size, size);
        __atomic_store_n(&thread->saved, NULL, __ATOMIC_RELAXED);
    } else {
        memcpy(block + (size - used_size(occupant)), occupant->sp, used_size(occupant));
    }
    set_evicted(stacks, occupant, block);
    return true;
}

/* What others have left below the frames of the new occupant. */
static void wipe(const struct shared_stack *stack)
{
    char *bottom = gs_stack_bottom(stack->holder);
    memset(bottom, 0, (size_t)((char *)stack->occupant->sp - bottom));
}

/* Make the thread the occupant. Returns false if there is no memory. */
static bool occupy(struct shared_stacks *stacks, struct shared_stack *stack,
                   struct gs_thread *thread)
{
    bool is_new = !thread->sp;
    if (stack->occupant && UNLIKELY(!gs_stacks_is_intact(stack->occupant)))
        gs_report_overflow_of_waiting(stack->occupant); /* later it would be another's */
    if (stack->occupant && !take_place_of(stacks, stack->occupant, thread))
        return false;
    if (is_new)
        thread->sp = gs_thread_initial_context(thread);
    else if (thread->saved)
        restore(stacks, thread);
    stack->occupant = thread;
    if (UNLIKELY(gs_runtime.options.wipes_shared_stacks))
        wipe(stack);
    return true;
}

/* What the next thread of the queue has saved will be copied soon; where that of the one after it
 * is, will be looked up. */
#define PREFETCHED ((size_t)512)
static void prefetch_next(const struct worker *worker)
{
    struct runnable *next = worker->queues[NORMAL_LEVEL].first;
    if (!next || next->resume != gs_thread_resume_shared)
        return;
    const char *saved = thread_of(next)->saved;
    if (next->next)
        thread_prefetch_ahead(thread_of(next), thread_of(next->next));
    for (size_t i = 0; saved && i < PREFETCHED; i += 64)
        __builtin_prefetch(saved + i, 1);
}

/* Whether the caller is on the stack: the running thread, or one that is just being left. */
static bool is_on_stack(const struct worker *worker, unsigned index)
{
    const struct gs_thread *current = worker->current;
    return current && current->stack_class == CLASS_SHARED && current->shared_index == index;
}

bool gs_shared_stack_enter(struct worker *worker, struct gs_thread *thread)
{
    gs_chaos(CHAOS_RETURN);
    prefetch_next(worker);
    if (UNLIKELY(!worker->shared_stacks) && init_worker(worker)) /* the monitor has added it */
        return false;
    if (!thread->stack_top)
        bind_to_stack(worker, thread);
    if (is_on_stack(worker, thread->shared_index) ||
        UNLIKELY(!occupy(worker->shared_stacks, stack_of(worker, thread), thread)))
        return false;
    thread->run.resume = NULL;
    return true;
}

/* If there is no memory, others run first, and may return some. */
void gs_thread_resume_shared(struct worker *worker, struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, run);
    if (LIKELY(gs_shared_stack_enter(worker, thread))) {
        gs_worker_run_thread(worker, thread);
        return;
    }
    queue_push(worker, runnable);
    worker->is_poll_due = true;
}

/* The next new thread takes another stack if there is one: the caller is still on this one. */
void gs_shared_stack_leave(struct worker *worker, const struct gs_thread *thread)
{
    struct shared_stacks *stacks = worker->shared_stacks;
    unsigned last = stacks->vacant_count;
    set_vacant(stacks, thread->shared_index);
    if (last && stacks->vacant_count > last) {
        stacks->vacant[last] = stacks->vacant[last - 1];
        stacks->vacant[last - 1] = thread->shared_index;
    }
}

void gs_shared_stacks_trim(struct worker *worker, bool is_all)
{
    if (worker->shared_stacks)
        gs_saved_blocks_trim(&worker->shared_stacks->saved, is_all);
}

/* ---- For reports ---- */

struct gs_thread *gs_shared_stack_occupant(const struct gs_thread *holder)
{
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        const struct shared_stacks *stacks = gs_runtime.workers[i]->shared_stacks;
        for (unsigned k = 0; stacks && k < stacks->count; k++)
            if (stacks->each[k].holder == holder)
                return stacks->each[k].occupant;
    }
    return NULL;
}

NOT_FOR_TSAN const void *gs_stack_readable(const struct gs_thread *thread, uintptr_t address)
{
    const char *saved = *(char *const volatile *)&thread->saved;
    if (thread->stack_class != CLASS_SHARED)
        return (const void *)address;
    if (!saved)
        return *(char *const volatile *)&thread->stack_top ? (const void *)address : NULL;
    /* It may be evicted once more meanwhile, with more or less on the stack. */
    size_t offset = address - (uintptr_t)thread->sp, size = used_size(thread);
    bool is_same = *(char *const volatile *)&thread->saved == saved;
    return is_same && offset <= size && size - offset >= sizeof(struct context) &&
                   gs_saved_block_is_readable(saved, size)
               ? saved + offset
               : NULL;
}

#ifndef GS_CHECKED
bool gs_stack_with(struct gs_thread *thread, void (*fn)(void *), void *argument)
{
    char before[FIT_MAX];
    size_t size = used_size(thread);
    if (!thread_is_evicted(thread)) {
        fn(argument);
        return true;
    }
    const struct worker *caller = gs_worker_or_null();
    const struct gs_thread *occupant = stack_of(thread->worker, thread)->occupant;
    if (size > sizeof before || (caller && occupant && occupant == caller->current))
        return false;
    memcpy(before, thread->sp, size);
    memcpy(thread->sp, thread->saved, size);
    fn(argument);
    memcpy(thread->sp, before, size);
    return true;
}
#endif

void gs_shared_stacks_add_stats(const struct worker *worker, struct gs_threads_stats *stats)
{
    struct shared_stacks *stacks = worker->shared_stacks;
    if (!stacks)
        return;
    stats->evictions += count_read(&stacks->evictions);
    stats->evicted_bytes += count_read(&stacks->evicted_bytes);
    stats->misfits += count_read(&stacks->misfits);
}
