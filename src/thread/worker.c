/* A worker: resumes what is ready, and steps its loop when nothing is, and every so often. */
#include "thread/dispatch.h"
#include "thread/stacks.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>

/* Switches between two looks at the inbox and the clock, and the time between two steps of the loop while threads run. */
#define TICK 64
#define POLL_NS (50 * GS_MICROSECOND)

void gs_spin_wait(struct gs_spin *lock)
{
    unsigned turns = 0;
    do {
        while (atomic_load_explicit(&lock->held, memory_order_relaxed)) {
            processor_pause();
            /* Its holder may have lost the processor. */
            if (++turns % 1024 == 0)
                sched_yield();
        }
    } while (atomic_exchange_explicit(&lock->held, true, memory_order_acquire));
}

/* ---- Inbox ---- */

void gs_worker_send(struct worker *worker, struct runnable *runnable)
{
    struct gs_policy_item *first = atomic_load_explicit(&worker->inbox, memory_order_relaxed);
    do
        runnable->item.next = first;
    while (!atomic_compare_exchange_weak(&worker->inbox, &first, &runnable->item));
    if (!first)
        gs_loop_wake(worker->loop);
}

/* Taken whole, and turned round: first sent, first run. */
static void take_inbox(struct worker *worker)
{
    if (LIKELY(!atomic_load_explicit(&worker->inbox, memory_order_relaxed)))
        return;
    /* Acquire: pairs with the exchange in gs_worker_send, publishing what was sent. */
    struct gs_policy_item *taken =
        atomic_exchange_explicit(&worker->inbox, NULL, memory_order_acquire);
    struct gs_policy_item *first = NULL;
    while (taken) {
        struct gs_policy_item *next = taken->next;
        taken->next = first;
        first = taken;
        taken = next;
    }
    while (first) {
        struct gs_policy_item *next = first->next;
        struct runnable *runnable = gs_container_of(first, struct runnable, item);
        if (runnable_is_message(runnable))
            queue_push(worker, runnable);
        else
            gs_thread_arrive(worker, thread_of(first));
        first = next;
    }
}

/* ---- Choosing ---- */

/* The first of each lower level goes ahead of all others, so that nobody starves. */
static void favour_lowest(struct worker *worker)
{
    for (unsigned level = LEVELS - 1; level; level--) {
        struct run_queue *queue = &worker->queues[level], *top = &worker->queues[0];
        struct gs_policy_item *item = queue->first;
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

/* One that any worker could have taken goes ahead of all that is here: if the next one keeps the worker, it cannot be taken away
 * any more. */
static void take_ahead(struct worker *worker, struct gs_thread *thread)
{
    struct run_queue *top = &worker->queues[0];
    if (worker->policy_queue && !thread->run.resume) {
        queue_push(worker, &thread->run);
        return;
    }
    count_add(&worker->ready, 1);
    thread->run.item.next = top->first;
    if (!top->first)
        top->last = &thread->run.item.next;
    top->first = &thread->run.item;
    worker->ready_mask |= 1;
}

bool gs_worker_tick(struct worker *worker)
{
    if (UNLIKELY(worker->is_based))
        return true;
    unsigned switches = UNLIKELY(gs_runtime.looks_at_switches) ? 1 : TICK;
    if (switches == 1 && worker->current)
        gs_held_look(worker->current);
    if (UNLIKELY(gs_guard_mode == GUARD_CANARY) && worker->current &&
        !gs_stacks_is_sound(worker->current))
        gs_report_overflow(worker->current);
    count_add(&worker->switches, switches);
    worker->countdown = (int)switches - 1;
    take_inbox(worker);
    favour_lowest(worker);
    if (atomic_load_explicit(&worker->shared.count, memory_order_relaxed)) {
        struct gs_policy_item *item = gs_worker_take_shared(worker, worker);
        if (item)
            take_ahead(worker, thread_of(item));
    }
    worker->is_poll_due = gs_clock_now() - worker->polled_ns >= POLL_NS;
    return worker->is_poll_due;
}

struct gs_policy_item *gs_worker_next(struct worker *worker)
{
    struct gs_policy_item *item = queue_pop(worker);
    if (UNLIKELY(!item) && atomic_load_explicit(&worker->shared.count, memory_order_relaxed))
        item = gs_worker_take_shared(worker, worker);
    return item;
}

struct gs_thread *gs_worker_defer(struct worker *worker, struct gs_policy_item *item)
{
    if (item)
        worker->deferred = gs_container_of(item, struct runnable, item);
    return NULL;
}

/* ---- The end, and what looks like it ---- */

static void stop_all(void)
{
    atomic_store(&gs_runtime.is_stopping, true);
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        gs_loop_wake(gs_runtime.workers[i]->loop);
}

/* A worker that has something to do again first leaves `idle`, then counts the epoch on, and only then takes from its inbox. So if
 * all are idle after the epoch was read, and it is the same at the end, then none has taken anything between, and what is read
 * here is true. */
static void look_at_all(void)
{
    uint64_t spawned = atomic_load(&gs_runtime.foreign), ended = 0, outside = 0;
    unsigned epoch = atomic_load(&gs_runtime.idle_epoch);
    if (atomic_load(&gs_runtime.idle) != gs_runtime.worker_count)
        return;
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *other = gs_runtime.workers[i];
        if (atomic_load(&other->inbox) || atomic_load(&other->shared.count))
            return;
        spawned += count_read(&other->spawned);
        ended += count_read(&other->ended);
        outside += count_read(&other->outside);
    }
    if (atomic_load(&gs_runtime.arriving) || (spawned != ended && outside))
        return;
    if (atomic_load(&gs_runtime.idle_epoch) != epoch)
        return;
    if (atomic_exchange(&gs_runtime.is_stopping, true))
        return;
    gs_runtime.is_deadlocked = spawned != ended;
    if (gs_runtime.is_deadlocked)
        gs_report_deadlock();
    stop_all();
}

/* Whether there is something that the worker may take. */
static bool has_shared(struct worker *worker)
{
    if (!gs_worker_may_steal(worker))
        return atomic_load(&worker->shared.count);
    for (unsigned i = 0; gs_runtime.is_multi && i < gs_runtime.worker_count; i++)
        if (atomic_load(&gs_runtime.workers[i]->shared.count))
            return true;
    return false;
}

static void note_step(struct worker *worker, int result)
{
    gs_descriptors_tell(worker);
    count_add(&worker->polls, 1);
    worker->polled_ns = *worker->now_ns;
    worker->is_poll_due = false;
    if (UNLIKELY(result < 0)) {
        worker->result = result;
        stop_all();
        if (gs_runtime.options.failed)
            gs_runtime.options.failed();
    }
}

/* Nothing is ready. */
static int wait_for_events(struct worker *worker)
{
    const struct gs_threads_options *options = &gs_runtime.options;
    if (atomic_load(&gs_runtime.is_stopping))
        return gs_loop_step(worker->loop, 0);
    if (options->wait)
        return options->wait(worker->loop, worker->index + 1, options->wait_data);
    return gs_loop_step(worker->loop, GS_NEVER);
}

/* Sequentially consistent: this sets is_idle and looks at the queues afterwards, who shares a thread looks at is_idle afterwards. */
static void idle(struct worker *worker)
{
    atomic_store(&worker->is_idle, true);
    unsigned idle = atomic_fetch_add(&gs_runtime.idle, 1) + 1;
    bool is_alone = idle == gs_runtime.worker_count;
    if (!has_shared(worker)) {
        if (is_alone)
            look_at_all();
        note_step(worker, wait_for_events(worker));
    }
    atomic_fetch_sub(&gs_runtime.idle, 1);
    atomic_fetch_add(&gs_runtime.idle_epoch, 1);
    atomic_exchange(&worker->is_idle, false);
    if (UNLIKELY(atomic_load(&gs_runtime.is_monitor_asleep)))
        gs_monitor_wake();
}

/* ---- The worker's own stack ---- */

void gs_worker_run_thread(struct worker *worker, struct gs_thread *thread)
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

static void run(struct worker *worker)
{
    while (!atomic_load_explicit(&gs_runtime.is_stopping, memory_order_acquire)) {
        if (--worker->countdown < 0)
            gs_worker_tick(worker);
        if (UNLIKELY(atomic_load_explicit(&worker->relinquished, memory_order_relaxed)))
            gs_descriptors_retire(worker);
        if (worker->is_poll_due)
            note_step(worker, gs_loop_step(worker->loop, 0));
        take_inbox(worker);
        struct gs_policy_item *item = gs_worker_next(worker);
        if (!item && gs_runtime.is_multi)
            item = gs_worker_steal(worker);
        if (item)
            resume(worker, gs_container_of(item, struct runnable, item));
        else
            idle(worker);
    }
}

void *gs_worker_main(void *argument)
{
    struct worker *worker = argument;
    pthread_attr_t attributes;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstack(&attributes, &worker->stack, &worker->stack_size);
        pthread_attr_destroy(&attributes);
    }
    fiber_init_native(&worker->fiber, worker->stack, worker->stack_size);
    gs_worker_note_base(worker);
    atomic_store(&worker->kernel_id, (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0));
    gs_worker_set_current(worker);
    gs_reports_start_worker(worker);
    run(worker);
    gs_stacks_release(worker);
    gs_reports_stop_worker(worker);
    gs_worker_set_current(NULL);
    if (worker->is_orphan)
        gs_fork_end();
    return NULL;
}

int gs_worker_new(unsigned index, struct worker **ret_worker)
{
    struct worker *worker = aligned_alloc(_Alignof(struct worker), sizeof *worker);
    if (!worker)
        return -ENOMEM;
    *worker = (struct worker){.self = worker, .index = index};
    for (unsigned level = 0; level < LEVELS; level++)
        worker->queues[level].last = &worker->queues[level].first;
    int err = gs_loop_new(&worker->loop);
    if (!err)
        err = gs_reports_new_worker(worker);
    if (!err && gs_runtime.options.policy) {
        worker->policy_queue = calloc(1, gs_runtime.options.policy->size);
        err = worker->policy_queue ? 0 : -ENOMEM;
    }
    if (err) {
        gs_worker_free(worker);
        return err;
    }
    worker->now_ns = gs_worker_clock(worker->loop);
    gs_worker_bound_loop(worker->loop);
    gs_deadlines_init(worker);
    *ret_worker = worker;
    return 0;
}

void gs_worker_free(struct worker *worker)
{
    if (!worker)
        return;
    gs_descriptors_retire(worker);
    gs_loop_free(worker->loop);
    gs_deadlines_done(worker);
    free(worker->policy_queue);
    free(worker->signal_stack);
    free(worker);
}
