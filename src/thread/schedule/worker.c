/* The main loop of a worker: it resumes ready threads, and polls its event loop when none is ready
 * and at regular intervals. */
#include "loop/state.h"
#include "thread/io/descriptors.h"
#include "thread/report/report.h"
#include "thread/schedule/dispatch.h"
#include "thread/stack/shared_stack.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* Switches between two checks of the inbox and the clock, and the time between two polls of the
 * loop while threads run. */
#define TICK 64
#define POLL_NS (50 * GS_MICROSECOND)

void gs_spin_wait(struct gs_spin *lock)
{
    unsigned turns = 0;
    do {
        while (atomic_load_explicit(&lock->held, memory_order_relaxed)) {
            cpu_relax();
            /* The holder may have been preempted. */
            if (++turns % 1024 == 0)
                sched_yield();
        }
    } while (atomic_exchange_explicit(&lock->held, true, memory_order_acquire));
}

void gs_spin_pause(void)
{
    sched_yield();
}

/* ---- Its loop ---- */

/* A loop iteration collects at most this many events. Threads run after all of them were delivered,
 * each on memory of its own: what delivering has brought into the caches should still be there. */
#define LOOP_BATCH 32

void gs_worker_limit_loop_batch(struct gs_loop *loop)
{
    loop->batch = LOOP_BATCH;
}

const uint64_t *gs_worker_loop_time(const struct gs_loop *loop)
{
    return &loop->now_ns;
}

uint64_t gs_threads_now(void)
{
    CHECKED_WORKER();
    return *worker_current()->now_ns;
}

/* ---- Inbox (tests/model/inbox.pml) ---- */

/* Returns whether the inbox was empty. */
static bool push_inbox(struct worker *worker, struct runnable *runnable)
{
    struct runnable *first = atomic_load_explicit(&worker->inbox, memory_order_relaxed);
    do
        runnable->next = first;
    while (gs_chaos(CHAOS_PUBLISH),
           !atomic_compare_exchange_weak(&worker->inbox, &first, runnable));
    return !first;
}

void gs_worker_send(struct worker *worker, struct runnable *runnable)
{
    bool was_empty = push_inbox(worker, runnable);
    gs_chaos(CHAOS_PUBLISH);
    if (was_empty)
        gs_loop_wake(worker->loop);
}

/* It takes its inbox before it sleeps, so it need not be woken. */
void gs_worker_send_to_self(struct worker *worker, struct runnable *runnable)
{
    push_inbox(worker, runnable);
}

/* The whole list is taken and reversed: items run in the order in which they were sent. */
static void take_inbox(struct worker *worker)
{
    if (UNLIKELY(atomic_load_explicit(&worker->canceled, memory_order_relaxed) != NULL))
        gs_cancels_enqueue(worker);
    if (LIKELY(!atomic_load_explicit(&worker->inbox, memory_order_relaxed)))
        return;
    /* Acquire: pairs with the exchange in gs_worker_send, publishing the items. */
    struct runnable *taken = atomic_exchange_explicit(&worker->inbox, NULL, memory_order_acquire);
    gs_chaos(CHAOS_STEAL);
    struct runnable *first = NULL;
    while (taken) {
        struct runnable *next = taken->next;
        taken->next = first;
        first = taken;
        taken = next;
    }
    while (first) {
        struct runnable *next = first->next;
        if (runnable_is_message(first))
            queue_push(worker, first);
        else
            gs_thread_enqueue(worker, thread_of(first));
        first = next;
    }
}

/* ---- The next item to run ---- */

void gs_queue_push_special(struct worker *worker, struct runnable *runnable)
{
    queue_push_level(worker, runnable, level_of(runnable->priority));
}

/* Move the first item of each lower level to the front of the highest one, so that none is
 * starved. */
static void promote_lower_levels(struct worker *worker)
{
    for (unsigned level = LEVELS - 1; level; level--) {
        struct run_queue *queue = &worker->queues[level], *top = &worker->queues[0];
        struct runnable *item = queue->first;
        if (!item || !(worker->ready_mask & ((1u << level) - 1)))
            continue;
        queue->first = item->next;
        if (!queue->first) {
            queue->last = &queue->first;
            worker->ready_mask &= ~(1u << level);
        }
        item->next = top->first;
        if (!top->first)
            top->last = &item->next;
        top->first = item;
        worker->ready_mask |= 1;
    }
}

/* Put a thread from the shared queue in front of the run queue: any worker could have taken it, but
 * if it were behind a thread that occupies this worker, none could. */
static void push_front(struct worker *worker, struct gs_thread *thread)
{
    struct run_queue *top = &worker->queues[0];
    count_add(&worker->ready, 1);
    thread->run.next = top->first;
    if (!top->first)
        top->last = &thread->run.next;
    top->first = &thread->run;
    worker->ready_mask |= 1;
}

/* Ready threads may stand behind a thread that occupies another worker, or whose kernel thread the
 * kernel has stopped: this worker takes some, although it is not idle, if that worker is known to
 * be stuck, or if its own threads have done nothing but yield and may wait for one of them. */
static struct runnable *take_for_tick(struct worker *worker)
{
    struct runnable *item = NULL;
    if (UNLIKELY(worker->yields >= TICK / 2) || /* most count as two switches */
        UNLIKELY(atomic_load_explicit(&gs_runtime.is_any_stuck, memory_order_relaxed)))
        item = gs_worker_steal(worker);
    worker->yields = 0;
    if (!item && atomic_load_explicit(&worker->shared.count, memory_order_relaxed))
        item = gs_worker_take_shared(worker);
    return item;
}

bool gs_worker_tick(struct worker *worker)
{
    if (UNLIKELY(worker->has_thread_tls_base) || CHECKED_RUNS_PROTECTED(worker))
        return true;
    if (UNLIKELY(gs_guard_mode == GUARD_CANARY) && worker->current &&
        !gs_stacks_is_intact(worker->current))
        gs_report_overflow(worker->current);
    count_add(&worker->switches, TICK);
    worker->countdown = TICK - 1;
    take_inbox(worker);
    promote_lower_levels(worker);
    struct runnable *item = take_for_tick(worker);
    if (item)
        push_front(worker, thread_of(item));
    worker->is_poll_due = gs_clock_now() - worker->polled_ns >= POLL_NS;
    return worker->is_poll_due;
}

struct runnable *gs_worker_next(struct worker *worker)
{
    struct runnable *item = queue_pop(worker);
    if (UNLIKELY(!item) && atomic_load_explicit(&worker->shared.count, memory_order_relaxed))
        item = gs_worker_take_shared(worker);
    return item;
}

struct gs_thread *gs_worker_defer(struct worker *worker, struct runnable *item)
{
    if (LIKELY(item && item->resume == gs_thread_resume_shared) &&
        LIKELY(gs_shared_stack_enter(worker, thread_of(item))))
        return thread_of(item);
    if (item)
        worker->deferred = item;
    return NULL;
}

/* ---- Idling, and the end of the run ---- */

static void stop_all(void)
{
    atomic_store(&gs_runtime.is_stopping, true);
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        gs_loop_wake(gs_runtime.workers[i]->loop);
}

/* A worker that becomes busy first leaves `idle`, then advances the epoch, and only then takes from
 * its inbox. So if all workers are idle after the epoch was read, and the epoch has not changed at
 * the end, then none has taken anything in between, and the counters read here are consistent.
 * Returns whether the caller may sleep if this is not the end: then some worker will check again.
 * It may not while a kernel thread that is no worker is in gs_runtime_enter: the thread that it has
 * sent may have ended already. (tests/model/idle.pml) */
static bool check_end(void)
{
    unsigned epoch = atomic_load(&gs_runtime.idle_epoch);
    if (atomic_load(&gs_runtime.idle) != gs_runtime.worker_count)
        return true;
    uint64_t spawned = atomic_load(&gs_runtime.nonworker_spawns), ended = 0, external = 0;
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *other = gs_runtime.workers[i];
        gs_chaos(CHAOS_PARK);
        if (atomic_load(&other->inbox) || atomic_load(&other->canceled) ||
            atomic_load(&other->shared.count))
            return true;
        spawned += count_read(&other->spawned);
        ended += count_read(&other->ended);
        external += count_read(&other->external);
    }
    if (atomic_load(&gs_runtime.entering) || atomic_load(&gs_runtime.idle_epoch) != epoch)
        return false;
    /* Relaxed: the first worker that comes here is chosen, nothing else. */
    if ((spawned != ended && external) ||
        atomic_exchange_explicit(&gs_runtime.is_stopping, true, memory_order_relaxed))
        return true;
    gs_runtime.is_deadlocked = spawned != ended;
    if (gs_runtime.is_deadlocked)
        gs_report_deadlock();
    stop_all();
    return true;
}

/* Whether there is a shared thread that the worker may take. */
static bool has_shared_thread(struct worker *worker)
{
    if (!gs_worker_may_steal(worker))
        return atomic_load(&worker->shared.count);
    for (unsigned i = 0; gs_runtime.is_multi && i < gs_runtime.worker_count; i++)
        if (atomic_load(&gs_runtime.workers[i]->shared.count))
            return true;
    return false;
}

static void finish_poll(struct worker *worker, int result)
{
    gs_descriptors_flush_events(worker);
    count_add(&worker->polls, 1);
    worker->polled_ns = *worker->now_ns;
    worker->is_poll_due = false;
    if (UNLIKELY(result < 0)) {
        worker->result = result;
        stop_all();
        if (gs_runtime.options.on_failure)
            gs_runtime.options.on_failure();
    }
}

static int wait_for_events(struct worker *worker, bool may_sleep)
{
    const struct gs_threads_options *options = &gs_runtime.options;
    if (!may_sleep || atomic_load(&gs_runtime.is_stopping))
        return gs_loop_run_once(worker->loop, 0);
    if (options->wait)
        return options->wait(worker->loop, worker->index + 1, options->wait_data);
    return gs_loop_run_once(worker->loop, GS_NEVER);
}

/* Sequentially consistent: this function sets is_idle and reads the queues afterwards; a kernel
 * thread that shares a thread reads is_idle afterwards. */
static void idle(struct worker *worker)
{
    atomic_store(&worker->is_idle, true);
    gs_chaos(CHAOS_PUBLISH);
    unsigned idle = atomic_fetch_add(&gs_runtime.idle, 1) + 1;
    bool is_last = idle == gs_runtime.worker_count;
    if (!has_shared_thread(worker)) {
        bool may_sleep = !is_last || check_end();
        if (UNLIKELY(!may_sleep))
            sched_yield();
        finish_poll(worker, wait_for_events(worker, may_sleep));
    }
    gs_chaos(CHAOS_RETURN);
    atomic_fetch_sub(&gs_runtime.idle, 1);
    gs_chaos(CHAOS_PUBLISH);
    atomic_fetch_add(&gs_runtime.idle_epoch, 1);
    gs_chaos(CHAOS_PUBLISH);
    atomic_exchange(&worker->is_idle, false);
    worker->was_idle = true;
    if (UNLIKELY(atomic_load(&gs_runtime.is_monitor_asleep)))
        gs_monitor_wake();
}

/* ---- The worker's own stack ---- */

/* No stack protector: the TLS base, and with it the canary, may be another one when the thread has
 * switched back. */
__attribute__((no_stack_protector)) void gs_worker_run_thread(struct worker *worker,
                                                              struct gs_thread *thread)
{
    worker->current = thread;
    fiber_leave(&worker->fiber, &thread->fiber, false);
    gs_context_switch(&worker->sp, thread->sp, dispatch_result(thread));
    fiber_enter(&worker->fiber);
}

static void resume(struct worker *worker, struct runnable *runnable)
{
    if (runnable->resume)
        runnable->resume(worker, runnable);
    else
        gs_worker_run_thread(worker, gs_container_of(runnable, struct gs_thread, run));
    while ((runnable = worker->deferred)) {
        worker->deferred = NULL;
        runnable->resume(worker, runnable);
    }
}

/* The kernel thread that shared a thread has woken this worker for it, or saw it awake: if this one
 * runs something else first, which may take long, another worker must look.
 * (tests/model/share.pml) */
static void wake_another(struct worker *worker)
{
    worker->was_idle = false;
    if (gs_runtime.is_multi && has_shared_thread(worker))
        gs_worker_wake_idle(worker);
}

static void run(struct worker *worker)
{
    /* Relaxed: whoever needs what was written before the end joins the workers first. */
    while (!atomic_load_explicit(&gs_runtime.is_stopping, memory_order_relaxed)) {
        if (--worker->countdown < 0)
            gs_worker_tick(worker);
        if (UNLIKELY(descriptors_are_detached(worker)))
            gs_descriptors_stop_detached(worker);
        if (worker->is_poll_due)
            finish_poll(worker, gs_loop_run_once(worker->loop, 0));
        take_inbox(worker);
        struct runnable *item = gs_worker_next(worker);
        if (!item && gs_runtime.is_multi)
            item = gs_worker_steal(worker);
        if (item && UNLIKELY(worker->was_idle))
            wake_another(worker);
        if (item)
            resume(worker, item);
        else
            idle(worker);
    }
}

static void find_stack(struct worker *worker)
{
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return;
    pthread_attr_getstack(&attributes, &worker->stack, &worker->stack_size);
    pthread_attr_destroy(&attributes);
}

void *gs_worker_main(void *argument)
{
    struct worker *worker = argument;
    find_stack(worker);
    fiber_init_native(&worker->fiber, worker->stack, worker->stack_size);
    gs_worker_save_tls_base(worker);
    atomic_store(&worker->tid, (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0));
    gs_worker_set_current(worker);
    gs_reports_start_worker(worker);
    run(worker);
    gs_stacks_release(worker);
    gs_reports_stop_worker(worker);
    gs_worker_set_current(NULL);
    if (worker->exits_process)
        gs_fork_exit();
    return NULL;
}

/* Workers of earlier runs. Their memory is mapped and never unmapped: a kernel thread that a user
 * thread has created inherits the GS base, and reads there as long as it lives (gs_worker_or_null).
 * Only gs_threads_run and the monitor create and free workers, never at the same time. */
static struct worker *unused_workers;

/* At the start of a page, like much else that is used with it, a worker would share its cache
 * sets. */
#define OFFSET_IN_PAGE 704

static struct worker *new_memory(void)
{
    struct worker *worker = unused_workers;
    if (worker) {
        unused_workers = worker->next_unused;
        return worker;
    }
    long memory = gs_sys_mmap(NULL, OFFSET_IN_PAGE + sizeof *worker, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (memory < 0)
        return NULL;
    worker = (struct worker *)(memory + OFFSET_IN_PAGE);
    sanitizer_root(worker, sizeof *worker);
    return worker;
}

int gs_worker_new(unsigned index, struct worker **ret_worker)
{
    struct worker *worker = new_memory();
    if (!worker)
        return -ENOMEM;
    *worker = (struct worker){.self = worker, .index = index};
    for (unsigned level = 0; level < LEVELS; level++)
        worker->queues[level].last = &worker->queues[level].first;
    int err = gs_loop_new(&worker->loop);
    if (!err)
        err = gs_reports_new_worker(worker);
    if (err) {
        gs_worker_free(worker);
        return err;
    }
    worker->now_ns = gs_worker_loop_time(worker->loop);
    gs_worker_limit_loop_batch(worker->loop);
    gs_deadlines_init(worker);
    gs_stacks_init_worker(worker);
    *ret_worker = worker;
    return 0;
}

void gs_worker_free(struct worker *worker)
{
    if (!worker)
        return;
    gs_descriptors_stop_detached(worker);
    gs_loop_free(worker->loop);
    gs_deadlines_done(worker);
    free(worker->signal_stack);
    free(worker->receive_buffer);
    free(worker->shared_stacks);
    worker->next_unused = unused_workers;
    unused_workers = worker;
}
