#include "thread/stack/stack_away.h"
#include "thread/report/report.h"
#include "thread/stack/stack_sweep.h"

#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define MADV_POPULATE_WRITE_ 23 /* older headers lack these */
#define MADV_GUARD_INSTALL_ 102
#define MADV_GUARD_REMOVE_ 103

/* More is not worth moving; frames of instrumented code are larger. */
#define SAVED_MAX ((size_t)(GS_ASAN || GS_TSAN ? 8192 : 2048))

static _Atomic(uint64_t) away_count, away_bytes;
static struct gs_spin saved_lock; /* what is saved is freed under it, so that reports may read it */
/* The kernel has refused: the memory is locked, for instance. */
static atomic_bool cannot_give_back;

bool gs_stacks_can_be_given_back(void)
{
    return !atomic_load(&cannot_give_back);
}

uint64_t gs_stack_away_count(void)
{
    return atomic_load_explicit(&away_count, memory_order_relaxed);
}

uint64_t gs_stack_away_bytes(void)
{
    return atomic_load_explicit(&away_bytes, memory_order_relaxed);
}

void gs_stack_saved_lock(void)
{
    spin_lock_always(&saved_lock);
}

void gs_stack_saved_unlock(void)
{
    spin_unlock_always(&saved_lock);
}

int gs_stack_away_class(const struct gs_thread_attributes *attributes, size_t stack_size)
{
    return attributes->thread_pointer || gs_runtime.options.give_back_ns == GS_NEVER
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

static char *stack_last_page(const struct gs_thread *thread)
{
    return page_of(thread->stack_top - 1);
}

/* The pages of the stack. */
static struct iovec pages_of(const struct gs_thread *thread)
{
    char *end = stack_last_page(thread) + gs_page_size;
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

/* Get the pages of what is saved. Pages that are populated by a call cost less than by a fault.
 * Without the call (Linux before 5.14), they are by faults. */
static void populate(const struct gs_thread *thread)
{
    char *first = page_of(thread->sp);
    (void)gs_sys_madvise(first, (size_t)(stack_last_page(thread) + gs_page_size - first),
                         MADV_POPULATE_WRITE_);
    if (UNLIKELY(!is_zero(thread->sp, live_size(thread))))
        report_broken_promise(thread);
}

static void restore(const struct gs_thread *thread)
{
    guard(thread, MADV_GUARD_REMOVE_);
    populate(thread);
    copy(thread->sp, thread->saved, live_size(thread));
}

/* saved: NULL when the stack is back. Under the lock: what a report has found on a stack stays
 * there until the report unlocks, and a forked child finds all of it or nothing (fork.c holds the
 * lock). Returns what was saved before. */
static char *set_saved(struct gs_thread *thread, char *saved)
{
    struct stack_class *class = &gs_stack_classes[thread->stack_class];
    uint64_t size = live_size(thread);
    gs_stack_saved_lock();
    char *before = thread->saved;
    thread->saved = saved;
    thread->run.resume = saved ? gs_thread_resume_private : NULL;
    atomic_fetch_add_explicit(&away_count, saved ? 1 : -UINT64_C(1), memory_order_relaxed);
    atomic_fetch_add_explicit(&away_bytes, saved ? size : -size, memory_order_relaxed);
    gs_stack_saved_unlock();
    if (saved)
        stack_clear_resident(class, thread->slot_index);
    else
        stack_set_resident(class, thread->slot_index);
    return before;
}

static void free_saved(struct gs_thread *thread)
{
    free(set_saved(thread, NULL));
}

void gs_stack_forget(struct gs_thread *thread)
{
    if (!thread_is_away(thread))
        return;
    guard(thread, MADV_GUARD_REMOVE_);
    free_saved(thread);
}

/* ---- Giving back ---- */

NOT_FOR_TSAN bool gs_stack_is_waiting_long(const struct gs_thread *thread, uint64_t now_ns)
{
    const volatile struct gs_thread *at = thread;
    const struct wait_kind *kind = at->wait_kind;
    if (!thread_is_waiting(thread) || at->is_pinned || at->has_canary || !kind ||
        (at->is_parking && atomic_load(&thread->park_state) != PARK_PARKED))
        return false;
    uintptr_t from = (uintptr_t)at->stack, size = (uintptr_t)at->stack_top - from;
    if ((uintptr_t)at->wait_object - from < size)
        return false;
    return now_ns - at->wait_start_ns >= give_back_ns() && now_ns > at->wait_start_ns &&
           live_size(thread) <= SAVED_MAX;
}

static bool save(struct gs_thread *thread)
{
    size_t size = live_size(thread);
    char *saved = malloc(size);
    if (!saved)
        return false;
    copy(saved, thread->sp, size);
    (void)set_saved(thread, saved);
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
    struct iovec pages[SWEEP_BATCH];
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

/* Give back the stacks of those threads that wait on this worker, and remove them from the batch.
 * The lock keeps mobile ones from being resumed (invariant 1 of stack_away.h). Others may be woken
 * just now, or there is no memory: they are looked at again. */
static void give_back_from(struct worker *worker, struct worker *from, struct sweep_batch *batch,
                           uint64_t now_ns)
{
    struct gs_thread *saved[SWEEP_BATCH];
    unsigned count = 0, left = 0;
    spin_lock(&from->deadlines.lock);
    for (unsigned i = 0; i < batch->count; i++) {
        struct gs_thread *thread = batch->each[i];
        if (__atomic_load_n(&thread->worker, __ATOMIC_ACQUIRE) != from) {
            batch->each[left++] = thread;
            continue;
        }
        if (may_take(worker, from, thread) && gs_stack_is_waiting_long(thread, now_ns) &&
            save(thread))
            saved[count++] = thread;
        else
            sweep_expect(&worker->sweep, sweep_latest_ns(now_ns));
    }
    if (count)
        discard(saved, count);
    spin_unlock(&from->deadlines.lock);
    batch->count = left;
}

void gs_stack_give_back(struct worker *worker, struct sweep_batch *batch, uint64_t now_ns)
{
    for (unsigned i = 0; i < gs_runtime.worker_count && batch->count; i++)
        give_back_from(worker, gs_runtime.workers[i], batch, now_ns);
    if (batch->count) /* they have no worker now */
        sweep_expect(&worker->sweep, sweep_latest_ns(now_ns));
    batch->count = 0;
}

/* The worker that runs the thread first must watch it, unless it is known already, or the sweeps of
 * all workers look at the thread. */
void gs_stack_away_watch(struct worker *worker, struct gs_thread *thread)
{
    bool is_known = !gs_runtime.is_multi || thread->migrates || thread->bound_worker == worker;
    if (worker && is_known)
        gs_sweep_watch(worker);
    else
        thread->run.resume = gs_thread_resume_private;
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
    gs_sweep_watch(worker);
    gs_worker_run_thread(worker, thread);
}

/* ---- For reports ---- */

NOT_FOR_TSAN const void *gs_stack_readable(const struct gs_thread *thread, uintptr_t address)
{
    const char *saved = *(char *const volatile *)&thread->saved;
    if (thread->stack_class == CLASS_USER_STACK || !thread_is_away(thread) || !saved)
        return (const void *)address;
    size_t offset = address - (uintptr_t)thread->sp, size = live_size(thread);
    return offset <= size && size - offset >= sizeof(struct context) ? saved + offset : NULL;
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
