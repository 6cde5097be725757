#include "thread/stack_away.h"
#include "thread/report.h"
#include "thread/stack_class.h"
#include "thread/stack_store.h"

#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define MADV_POPULATE_WRITE_ 23 /* older headers lack these */
#define MADV_GUARD_INSTALL_ 102
#define MADV_GUARD_REMOVE_ 103

#define GIVE_BACK_NS_DEFAULT (100 * GS_MILLISECOND)
/* While memory is short (give_back_above). */
#define GIVE_BACK_NS_SHORT GS_MILLISECOND
/* So that a sum with the time does not overflow. */
#define GIVE_BACK_NS_MAX (GS_NEVER / 2)
/* A step of a sweep looks at so many slots, or gives so many stacks back; then threads have their
 * turn. */
#define STEP_SLOTS 2048u
#define STEP_STACKS 256u
/* Stacks that are given back by one system call. */
#define BATCH 64u
/* The pause after a pass over all slots is so many times as long as the pass has taken, and after a
 * step while threads are ready, so many times as long as the step. */
#define PASS_PAUSE (GS_IS_CHAOS ? 0u : 50u)
#define STEP_PAUSE 8u

static _Atomic(uint64_t) away_count;
/* The kernel has refused: the memory is locked, for instance. */
static atomic_bool cannot_give_back;

uint64_t gs_stack_away_count(void)
{
    return atomic_load_explicit(&away_count, memory_order_relaxed);
}

_Atomic(uint64_t) gs_stacks_resident;

static bool is_short_of_memory(void)
{
    uint64_t limit = gs_runtime.options.give_back_above;
    return limit && atomic_load(&gs_stacks_resident) * gs_page_size > limit;
}

/* The wait after which a stack is given back now, if that is give_back_ns usually. */
static uint64_t min_wait_ns(uint64_t give_back_ns)
{
    return give_back_ns > GIVE_BACK_NS_SHORT && is_short_of_memory() ? GIVE_BACK_NS_SHORT
                                                                     : give_back_ns;
}

/* GS_NEVER: never. */
static uint64_t give_back_ns_of(const struct gs_thread_attributes *attributes)
{
    uint64_t of_run_ns = gs_runtime.options.give_back_ns;
    if (attributes->give_back_ns)
        return attributes->give_back_ns;
    return of_run_ns ? of_run_ns : GIVE_BACK_NS_DEFAULT;
}

int gs_stack_away_class(const struct gs_thread_attributes *attributes, size_t stack_size)
{
    return attributes->thread_pointer || give_back_ns_of(attributes) == GS_NEVER
               ? gs_stacks_class(stack_size)
               : gs_stacks_class_to_give_back(stack_size);
}

/* ---- Contents ----
 * Not for sanitizers: the red zones between variables are copied, too. */

NOT_FOR_TSAN static size_t live_size(const struct gs_thread *thread)
{
    return (size_t)(thread->stack_top - (const char *)thread->sp);
}

NOT_FOR_ASAN NOT_FOR_TSAN static void copy(void *to, const void *from, size_t size)
{
#if GS_ASAN || GS_TSAN
    for (size_t i = 0; i < size / 8; i++)
        ((volatile uint64_t *)to)[i] = ((const volatile uint64_t *)from)[i];
#else
    memcpy(to, from, size);
#endif
}

NOT_FOR_ASAN NOT_FOR_TSAN static bool is_zero(const void *bytes, size_t size)
{
    const volatile uint64_t *words = bytes;
    uint64_t any = 0;
    for (size_t i = 0; i < size / 8; i++)
        any |= words[i];
    return !any;
}

static char *page_of(const void *address)
{
    return (char *)((uintptr_t)address & ~(gs_page_size - 1));
}

/* The pages of the stack. */
static struct iovec pages_of(const struct gs_thread *thread)
{
    char *end = page_of(thread->stack_top - 1) + gs_page_size;
    return (struct iovec){thread->stack, (size_t)(end - thread->stack)};
}

/* The checked library finds out at once who uses a stack that is away; otherwise it is found when
 * the stack comes back. (Installing a guard costs five times as much as giving a page back.) */
static void guard(const struct gs_thread *thread, int advice)
{
#ifdef GS_CHECKED
    struct iovec pages = pages_of(thread);
    if (gs_guard_mode == GUARD_REGIONS)
        (void)gs_sys_madvise(pages.iov_base, pages.iov_len, advice);
#else
    (void)thread, (void)advice;
#endif
}

/* The promise was not kept: what has come back may be wrong, too. */
_Noreturn static void report_broken_promise(const struct gs_thread *thread)
{
    gs_report_printf(
        gs_report_fd(),
        "stack not private: the stack of thread \"%s\" was written to while the thread "
        "waited, and its stack was away\n",
        thread->name);
    abort();
}

/* Pages that are populated by a call cost less than by a fault. Without the call (Linux before
 * 5.14), they are by faults. */
static void restore(const struct gs_thread *thread)
{
    size_t size = live_size(thread);
    char *first = page_of(thread->sp);
    guard(thread, MADV_GUARD_REMOVE_);
    (void)gs_sys_madvise(first, (size_t)(page_of(thread->stack_top - 1) + gs_page_size - first),
                         MADV_POPULATE_WRITE_);
    if (UNLIKELY(!is_zero(thread->sp, size)))
        report_broken_promise(thread);
    copy(thread->sp, thread->saved, size);
}

/* In a forked child, a piece that is still named here was not put back yet (fork.c holds the
 * lock of the store). */
static void free_saved(struct gs_thread *thread)
{
    char *saved = thread->saved;
    thread->saved = NULL;
    thread->run.resume = NULL;
    gs_stack_store_put(saved, live_size(thread));
    stack_set_resident(&gs_stack_classes[thread->stack_class], thread->slot_index);
    atomic_fetch_sub_explicit(&away_count, 1, memory_order_relaxed);
}

void gs_stack_forget(struct gs_thread *thread)
{
    if (!thread_is_away(thread))
        return;
    guard(thread, MADV_GUARD_REMOVE_);
    free_saved(thread);
}

/* ---- Giving back ---- */

struct batch {
    struct gs_thread *each[BATCH];
    unsigned count;
    uint64_t least_ns; /* the least give_back_ns of them */
};

/* Whether the thread could be given its stack back by nobody but the caller, and it has waited long
 * enough. NOT_FOR_TSAN: it is checked first without the lock, when the thread may run. */
NOT_FOR_TSAN static bool is_waiting_long(const struct gs_thread *thread, uint64_t now_ns)
{
    const volatile struct gs_thread *at = thread;
    const struct wait_kind *kind = at->wait_kind;
    if (!thread_is_waiting(thread) || at->is_pinned || at->has_canary || !kind ||
        !kind->is_off_stack || (at->is_parking && atomic_load(&thread->park_state) != PARK_PARKED))
        return false;
    uintptr_t from = (uintptr_t)at->stack, size = (uintptr_t)at->stack_top - from;
    if ((uintptr_t)at->wait_object - from < size ||
        (kind->has_item && (uintptr_t)at->waiter.item - from < size))
        return false;
    return now_ns - at->wait_start_ns >= min_wait_ns(at->give_back_ns) &&
           now_ns > at->wait_start_ns && live_size(thread) <= STORE_PIECE_MAX;
}

static bool save(struct gs_thread *thread)
{
    size_t size = live_size(thread);
    char *saved = gs_stack_store_get(size);
    if (!saved)
        return false;
    copy(saved, thread->sp, size);
    thread->saved = saved;
    thread->run.resume = gs_thread_resume_private;
    stack_clear_resident(&gs_stack_classes[thread->stack_class], thread->slot_index);
    atomic_fetch_add_explicit(&away_count, 1, memory_order_relaxed);
    return true;
}

/* One call for many: each alone would flush the TLB. Returns how many bytes were given back, which
 * are the first ones. */
static size_t discard_together(struct iovec *pages, unsigned count)
{
    static const int self = -10000; /* PIDFD_SELF, Linux 6.14 */
    ssize_t n = gs_sys_process_madvise(self, pages, count, MADV_DONTNEED);
    return n > 0 ? (size_t)n : 0;
}

/* An emulator may ignore MADV_DONTNEED: so the first stack is looked at. */
static bool is_empty(const struct gs_thread *thread)
{
    static atomic_bool is_proven;
    if (atomic_load_explicit(&is_proven, memory_order_relaxed))
        return true;
    if (!is_zero(thread->sp, live_size(thread)))
        return false;
    atomic_store_explicit(&is_proven, true, memory_order_relaxed);
    return true;
}

static void keep(struct gs_thread *thread)
{
    atomic_store(&cannot_give_back, true);
    free_saved(thread);
}

/* Give the pages of saved stacks back; those that the kernel refuses to take are resident still. */
static void discard(struct gs_thread **threads, unsigned count)
{
    struct iovec pages[BATCH];
    for (unsigned i = 0; i < count; i++)
        pages[i] = pages_of(threads[i]);
    size_t done = discard_together(pages, count);
    for (unsigned i = 0; i < count; i++) {
        size_t n = pages[i].iov_len;
        bool is_done = done >= n;
        done = is_done ? done - n : 0;
        if ((is_done || !gs_sys_madvise(pages[i].iov_base, n, MADV_DONTNEED)) &&
            is_empty(threads[i]))
            guard(threads[i], MADV_GUARD_INSTALL_);
        else
            keep(threads[i]);
    }
}

/* Whether the caller, which holds the lock of the worker's deadlines, decides whether the thread is
 * resumed. The slot may be another thread's already. First the worker: as long as the lock is held,
 * no thread leaves it, be it woken or at its end (leave_worker in thread.c), and a thread that runs
 * has another claim than CLAIM_WAITING. Acquire: pairs with the release in publish (wait.c): a
 * mobile thread has left its stack. */
static bool may_take(const struct worker *worker, const struct worker *from,
                     const struct gs_thread *thread)
{
    if (__atomic_load_n(&thread->worker, __ATOMIC_ACQUIRE) != from)
        return false;
    gs_chaos(CHAOS_STEAL);
    if (atomic_load_explicit(&thread->claim, memory_order_acquire) != CLAIM_WAITING)
        return false;
    gs_chaos(CHAOS_STEAL);
    return (from == worker || thread_is_mobile(thread)) && thread_is_live(thread) && !thread->saved;
}

static void expect(struct sweep *sweep, uint64_t due_ns)
{
    if (due_ns < sweep->due_ns)
        sweep->due_ns = due_ns;
}

/* Give back the stacks of those threads that wait on this worker, and remove them from the batch.
 * The lock keeps mobile ones from being resumed (invariant 1 of stack_away.h). Others may be woken
 * just now, or the store has no room: they are looked at again. */
static void give_back_from(struct worker *worker, struct worker *from, struct batch *batch,
                           uint64_t now_ns)
{
    struct gs_thread *saved[BATCH];
    unsigned count = 0, left = 0;
    spin_lock(&from->deadlines.lock);
    for (unsigned i = 0; i < batch->count; i++) {
        struct gs_thread *thread = batch->each[i];
        if (__atomic_load_n(&thread->worker, __ATOMIC_ACQUIRE) != from) {
            batch->each[left++] = thread;
            continue;
        }
        if (may_take(worker, from, thread) && is_waiting_long(thread, now_ns) && save(thread))
            saved[count++] = thread;
        else
            expect(&worker->sweep, now_ns + min_wait_ns(thread->give_back_ns));
    }
    if (count)
        discard(saved, count);
    spin_unlock(&from->deadlines.lock);
    batch->count = left;
}

static void give_back(struct worker *worker, struct batch *batch, uint64_t now_ns)
{
    for (unsigned i = 0; i < gs_runtime.worker_count && batch->count; i++)
        give_back_from(worker, gs_runtime.workers[i], batch, now_ns);
    if (batch->count) /* they have no worker now */
        expect(&worker->sweep, now_ns + min_wait_ns(batch->least_ns));
    *batch = (struct batch){.least_ns = GS_NEVER};
}

/* ---- The sweep ---- */

/* Look at a private thread whose stack is resident. */
NOT_FOR_TSAN static void look_at(struct worker *worker, struct gs_thread *thread,
                                 struct batch *batch, uint64_t now_ns)
{
    const volatile struct gs_thread *at = thread;
    bool is_ours = at->worker == worker || (at->migrates && gs_runtime.is_multi);
    if (!at->is_live || at->is_done || !is_ours)
        return;
    uint64_t give_back_ns = at->give_back_ns, wait_ns = min_wait_ns(give_back_ns);
    if (is_waiting_long(thread, now_ns)) {
        batch->each[batch->count++] = thread;
        batch->least_ns = give_back_ns < batch->least_ns ? give_back_ns : batch->least_ns;
        return;
    }
    uint64_t due_ns = thread_is_waiting(thread) ? at->wait_start_ns + wait_ns : 0;
    expect(&worker->sweep, due_ns > now_ns ? due_ns : now_ns + wait_ns);
}

/* Look at the slots of one word of the bitmap. */
static void look_at_word(struct worker *worker, struct batch *batch, uint64_t now_ns)
{
    struct stack_class *class = &gs_stack_classes[worker->sweep.class];
    size_t first = worker->sweep.word * 64;
    uint64_t bits =
        atomic_load_explicit(&class->resident[worker->sweep.word], memory_order_relaxed);
    for (; bits; bits &= bits - 1) {
        struct gs_thread *thread =
            gs_stacks_at((int)worker->sweep.class, first + (size_t)__builtin_ctzll(bits));
        if (thread)
            look_at(worker, thread, batch, now_ns);
        if (batch->count == BATCH)
            give_back(worker, batch, now_ns);
    }
}

/* Move to the next word. Returns false at the end of the last class. */
static bool next_word(struct sweep *sweep)
{
    sweep->word++;
    while (sweep->class < FIRST_EXACT &&
           sweep->word * 64 >=
               __atomic_load_n(&gs_stack_classes[sweep->class].used, __ATOMIC_ACQUIRE)) {
        sweep->class ++;
        sweep->word = 0;
    }
    return sweep->class < FIRST_EXACT;
}

/* Returns whether the pass is over. */
static bool step(struct worker *worker, uint64_t now_ns)
{
    struct batch batch = {.least_ns = GS_NEVER};
    uint64_t before = gs_stack_away_count();
    bool is_over = false;
    for (unsigned slots = 0; !is_over && slots < STEP_SLOTS; slots += 64) {
        is_over = !next_word(&worker->sweep);
        if (!is_over)
            look_at_word(worker, &batch, now_ns);
        /* Others may bring back more than this step gives back. */
        if ((int64_t)(gs_stack_away_count() - before) >= STEP_STACKS)
            break;
    }
    give_back(worker, &batch, now_ns);
    return is_over;
}

static void begin_pass(struct sweep *sweep)
{
    sweep->class = PLAIN_CLASSES;
    sweep->word = SIZE_MAX; /* the next is the first */
    sweep->due_ns = GS_NEVER;
    sweep->busy_ns = 0;
}

/* If memory for the timer is exhausted, stacks stay. */
static void schedule(struct worker *worker, uint64_t deadline_ns)
{
    (void)!gs_timer_start(&worker->sweep.timer, deadline_ns);
}

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* Begin the next pass at due_ns, or as soon as the pause is over. If memory is short, or another
 * worker finds it short (ask_others), it begins after a millisecond. Sequentially consistent: this
 * function publishes when the pass begins and then reads whether memory is short; a worker with one
 * more stack first counts it and then reads this. */
static void schedule_pass(struct worker *worker, uint64_t due_ns)
{
    struct sweep *sweep = &worker->sweep;
    uint64_t soon_ns = *worker->now_ns + GIVE_BACK_NS_SHORT;
    uint64_t start_ns = later(due_ns, sweep->earliest_ns);
    bool may_be_earlier = start_ns > later(soon_ns, sweep->earliest_ns);
    atomic_store(&sweep->begins_ns, may_be_earlier ? start_ns : 0);
    gs_chaos(CHAOS_PUBLISH);
    if (may_be_earlier && is_short_of_memory()) {
        atomic_store(&sweep->begins_ns, 0);
        start_ns = later(soon_ns, sweep->earliest_ns);
    }
    schedule(worker, start_ns);
}

/* Wall time would include that in which the kernel ran others: on a busy machine a preempted step
 * would be followed by a pause of seconds. */
static uint64_t cpu_time_ns(void)
{
    struct timespec used = {0};
    gs_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&used, 0, 0, 0, 0);
    return (uint64_t)used.tv_sec * GS_SECOND + (uint64_t)used.tv_nsec;
}

/* A pass over all slots, in steps. If no private thread with its stack is left, the next pass
 * begins when there is one again. */
static void on_sweep(struct gs_timer *timer)
{
    struct worker *worker = gs_container_of(timer, struct worker, sweep.timer);
    struct sweep *sweep = &worker->sweep;
    uint64_t start_ns = cpu_time_ns();
    if (atomic_load(&cannot_give_back) || atomic_load(&gs_runtime.is_deadlocked))
        return;
    bool is_over = step(worker, *worker->now_ns);
    uint64_t end_ns = gs_clock_now(), taken_ns = cpu_time_ns() - start_ns;
    sweep->busy_ns += taken_ns;
    if (!is_over) {
        schedule(worker, count_read(&worker->ready) ? end_ns + STEP_PAUSE * taken_ns : end_ns);
        return;
    }
    uint64_t due_ns = sweep->due_ns, earliest_ns = end_ns + PASS_PAUSE * sweep->busy_ns;
    begin_pass(sweep);
    sweep->earliest_ns = earliest_ns;
    if (due_ns != GS_NEVER)
        schedule_pass(worker, due_ns);
}

/* A stack is due before the timer, or memory has become short: begin the next pass earlier. */
static void hasten(struct worker *worker, uint64_t due_ns)
{
    struct sweep *sweep = &worker->sweep;
    bool is_in_pass = sweep->class != PLAIN_CLASSES || sweep->word != SIZE_MAX;
    if (sweep->timer.watcher.active && !is_in_pass &&
        later(due_ns, sweep->earliest_ns) < sweep->timer.deadline_ns)
        schedule_pass(worker, due_ns);
}

/* Memory is short, but the threads with their stacks may be other workers'. */
static __attribute__((noinline)) void ask_others(struct worker *worker)
{
    uint64_t soon_ns = *worker->now_ns + GIVE_BACK_NS_SHORT;
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *other = gs_runtime.workers[i];
        if (other != worker && atomic_load(&other->sweep.begins_ns) > soon_ns &&
            !atomic_exchange(&other->sweep.is_asked, true))
            gs_loop_wake(other->loop);
    }
}

void gs_stack_away_answer(struct worker *worker)
{
    gs_chaos(CHAOS_CLAIM);
    atomic_exchange(&worker->sweep.is_asked, false);
    hasten(worker, *worker->now_ns);
}

/* A private thread has its stack now, and will run on this worker. */
static void watch(struct worker *worker, const struct gs_thread *thread)
{
    struct sweep *sweep = &worker->sweep;
    uint64_t due_ns = *worker->now_ns + min_wait_ns(thread->give_back_ns);
    if (UNLIKELY(!sweep->timer.watcher.active) && !atomic_load(&cannot_give_back)) {
        begin_pass(sweep);
        schedule_pass(worker, due_ns);
    } else {
        expect(sweep, due_ns); /* a pass may have gone past its slot */
        if (UNLIKELY(sweep->timer.deadline_ns > due_ns))
            hasten(worker, due_ns);
    }
    if (UNLIKELY(gs_runtime.is_multi && is_short_of_memory()))
        ask_others(worker);
}

/* The worker that runs the thread first must watch it, unless it is known already, or the sweeps of
 * all workers look at the thread. */
void gs_stack_away_init(struct gs_thread *thread, const struct gs_thread_attributes *attributes)
{
    uint64_t ns = give_back_ns_of(attributes);
    thread->give_back_ns = ns < GIVE_BACK_NS_MAX ? ns : GIVE_BACK_NS_MAX;
}

void gs_stack_away_watch(struct worker *worker, struct gs_thread *thread)
{
    bool is_known = !gs_runtime.is_multi || thread->migrates || thread->bound_worker == worker;
    if (worker && is_known)
        watch(worker, thread);
    else
        thread->run.resume = gs_thread_resume_private;
}

void gs_stack_away_init_worker(struct worker *worker)
{
    gs_timer_init(&worker->sweep.timer, worker->loop, on_sweep);
    atomic_store(&worker->sweep.begins_ns, 0);
    atomic_store(&worker->sweep.is_asked, false);
}

void gs_stack_away_stop_worker(struct worker *worker)
{
    gs_timer_stop(&worker->sweep.timer);
}

/* ---- Bringing back ---- */

void gs_thread_resume_private(struct worker *worker, struct runnable *runnable)
{
    struct gs_thread *thread = gs_container_of(runnable, struct gs_thread, run);
    if (thread->saved) {
        gs_chaos(CHAOS_RETURN);
        restore(thread);
        free_saved(thread);
    }
    runnable->resume = NULL;
    watch(worker, thread);
    gs_worker_run_thread(worker, thread);
}

/* ---- For reports ---- */

NOT_FOR_TSAN const void *gs_stack_readable(const struct gs_thread *thread, uintptr_t address)
{
    const char *saved = *(char *const volatile *)&thread->saved;
    if (thread->stack_class == CLASS_USER_STACK || !thread_is_away(thread) || !saved)
        return (const void *)address;
    const char *at = saved + (address - *(const volatile uintptr_t *)&thread->sp);
    return gs_stack_store_has(at, sizeof(struct context)) ? at : NULL;
}

/* With several workers, another one may be about to take the stack away: that of a mobile thread at
 * any time, and in a deadlock that of its own thread, since a sweep counts as idle. */
void gs_stack_with(struct gs_thread *thread, void (*fn)(void *), void *argument)
{
    struct worker *worker = thread->worker;
    bool is_own = worker == gs_worker_or_null() && !thread->migrates;
    bool is_locked = worker && gs_runtime.is_multi && !is_own;
    if (is_locked)
        spin_lock_always(&worker->deadlines.lock);
    bool is_away = thread->stack_class != CLASS_USER_STACK && thread_is_away(thread);
    if (is_away)
        restore(thread);
    fn(argument);
    if (is_away) {
        struct iovec pages = pages_of(thread);
        if (gs_sys_madvise(pages.iov_base, pages.iov_len, MADV_DONTNEED))
            free_saved(thread);
        else
            guard(thread, MADV_GUARD_INSTALL_);
    }
    if (is_locked)
        spin_unlock_always(&worker->deadlines.lock);
}
