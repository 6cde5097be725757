/* Giving the memory of free stacks back to the kernel.
 *
 * After a peak, free stacks would keep memory that nobody needs for long: the pages that were
 * touched, and their control blocks. A stack that is surplus for a whole period is given back; in a
 * steady state there is none, and this costs nothing. */
#include "thread/schedule/thread_extra.h"
#include "thread/stack/shared_stack.h"
#include "thread/stack/stack_class.h"

#include <gossamer/sys.h>
#include <limits.h>
#include <sys/mman.h>

/* Free stacks that a worker keeps for itself before it releases half of them to others. */
#define FREE_STACKS_MAX 256u
#define TRIM_PERIOD_NS GS_SECOND
/* Many are given back in steps, with pauses for the threads. */
#define TRIM_STEP 128u
#define TRIM_PAUSE_NS (5 * GS_MILLISECOND)
/* So many remain in each list. */
#define FREE_STACKS_KEPT 32u

static atomic_bool cannot_return; /* the kernel has refused: the memory is locked, for instance */

/* If all control blocks on the same pages belong to slots without memory, their pages are given
 * back, too. The caller holds the lock. */
static void give_blocks_back(struct stack_class *class, size_t index)
{
    size_t group = GROUP_SIZE(gs_page_size), first = index / group * group;
    if (first + group > class->used)
        return;
    for (size_t word = first / 64; word < (first + group) / 64; word++)
        if (class->returned.words[word] != UINT64_MAX)
            return;
    (void)gs_sys_madvise(class->blocks + first * BLOCK_SIZE, group * BLOCK_SIZE, MADV_DONTNEED);
}

/* Give the memory of a free stack back, and its control block. Returns false if that must stay: the
 * checks need those of former threads. */
static bool give_back(struct stack_class *class, struct gs_thread *thread)
{
    size_t index = thread->slot_index, guard_size = class->layout.guard_size;
    char *slot = stack_slot(class, index);
    bool has_block = thread->has_canary;
#ifdef GS_CHECKED
    has_block = true;
#endif
    if (slot &&
        gs_sys_madvise(slot + guard_size, class->layout.slot_size - guard_size, MADV_DONTNEED)) {
        cannot_return = true;
        return false;
    }
    if (has_block)
        return false;
    struct thread_extra *extra = thread->extra;
    thread->extra = NULL; /* before another worker can fork */
    gs_thread_extra_free(extra);
    spin_lock_always(&gs_stack_classes_lock);
    gs_slot_set_add(&class->returned, index);
    give_blocks_back(class, index);
    spin_unlock_always(&gs_stack_classes_lock);
    return true;
}

static void give_all_back(struct stack_class *class, struct free_list *list)
{
    struct free_list kept = {.first = NULL};
    while (list->count) {
        struct gs_thread *thread = free_list_pop(list);
        if (!give_back(class, thread))
            free_list_push(&kept, thread);
    }
    spin_lock_always(&gs_stack_classes_lock);
    while (kept.count)
        free_list_push(&class->free, free_list_pop(&kept));
    spin_unlock_always(&gs_stack_classes_lock);
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
        free_list_push(taken, free_list_pop(list));
}

/* Returns how many stacks were given back. */
static unsigned trim_class(struct worker *worker, int stack_class, bool is_period_over)
{
    struct stack_class *class = &gs_stack_classes[stack_class];
    struct free_list taken = {.first = NULL};
    uint64_t now_ns = *worker->now_ns;
    if (is_period_over)
        end_period(&worker->free[stack_class]);
    take_excess(&worker->free[stack_class], &taken);
    spin_lock_always(&gs_stack_classes_lock);
    if (now_ns - class->trim_period_ns >= TRIM_PERIOD_NS) {
        class->trim_period_ns = now_ns;
        end_period(&class->free);
    }
    take_excess(&class->free, &taken);
    spin_unlock_always(&gs_stack_classes_lock);
    unsigned count = taken.count;
    give_all_back(class, &taken);
    return count;
}

static bool has_many(const struct worker *worker)
{
    for (int c = 0; c < STACK_CLASSES; c++) {
        spin_lock_always(&gs_stack_classes_lock);
        unsigned shared = gs_stack_classes[c].free.count;
        spin_unlock_always(&gs_stack_classes_lock);
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
    if (is_period_over) {
        worker->trim_period_ns = now_ns;
        gs_shared_stacks_trim(worker, false);
    }
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

void gs_stacks_on_many_free(struct worker *worker, int stack_class)
{
    if (gs_runtime.is_multi && worker->free[stack_class].count > FREE_STACKS_MAX)
        gs_stacks_release_some(worker, stack_class, FREE_STACKS_MAX / 2);
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
        gs_stacks_release_some(worker, c, worker->free[c].count);
        spin_lock_always(&gs_stack_classes_lock);
        struct free_list list = gs_stack_classes[c].free;
        gs_stack_classes[c].free = (struct free_list){.first = NULL};
        spin_unlock_always(&gs_stack_classes_lock);
        give_all_back(&gs_stack_classes[c], &list);
    }
    gs_shared_stacks_trim(worker, true);
}
