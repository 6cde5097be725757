/* gs_fork. The child has one kernel thread, which continues as the worker that it was; everything
 * else of the runtime is in an arbitrary state. So the child keeps what only the forking thread
 * could have changed and what is guarded by a lock that is held during the fork; the rest is
 * initialised again: wait queues, run queues, free stacks.
 *
 * Handlers of pthread_atfork may wait, and the thread may continue on another worker: so the locks
 * are acquired by a handler that runs after all of the program's, and released by one that runs
 * before them, which also makes the child what it is (base/atfork.h). */
#include "base/atfork.h"
#include "loop/state.h"
#include "thread/io/descriptors.h"
#include "thread/io/files.h"
#include "thread/report/backtrace.h"
#include "thread/schedule/off_stack.h"
#include "thread/schedule/thread_extra.h"
#include "thread/stack/shared_stack.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Other workers of the parent: their kernel threads may have been using them at the fork, so they
 * cannot be freed. */
static struct worker *leaked_workers;

/* No other function holds one of these locks while it acquires another, or that of the pool of
 * kernel threads, which fork acquires. */
static void lock_all(struct worker *worker)
{
    gs_stacks_lock();
    gs_thread_extra_lock();
    spin_lock_always(&gs_runtime.user_stack_lock);
    spin_lock_always(&worker->deadlines.lock);
}

static void unlock_all(struct worker *worker)
{
    spin_unlock_always(&worker->deadlines.lock);
    spin_unlock_always(&gs_runtime.user_stack_lock);
    gs_thread_extra_unlock();
    gs_stacks_unlock();
}

static void empty_queues(struct worker *worker)
{
    for (unsigned level = 0; level < LEVELS; level++)
        worker->queues[level] = (struct run_queue){.last = &worker->queues[level].first};
    worker->ready_mask = 0;
    worker->deferred = NULL;
    atomic_store(&worker->ready, 0);
    atomic_store(&worker->inbox, NULL);
    atomic_store(&worker->canceled, NULL);
    worker->is_cancel_message_queued = false;
    worker->shared = (struct shared_queue){.first = NULL};
}

/* The only worker in the child, which runs one thread. */
static void reset_worker(struct worker *worker)
{
    empty_queues(worker);
    atomic_store(&worker->tid, (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0));
    atomic_store(&worker->spawned, 1);
    atomic_store(&worker->ended, 0);
    worker->ended_at_resume = 0;
    atomic_store(&worker->external, worker->current->is_external);
    worker->is_started = false;
}

/* Replace the loop: what the previous one watched was for other threads. Returns 0 or -errno. */
static int renew_loop(struct worker *worker)
{
    struct gs_loop *loop;
    int err = gs_loop_new(&loop);
    if (err)
        return err;
    /* otherwise it would use kernel objects of the parent */
    err = gs_loop_after_fork(worker->loop);
    if (err) {
        gs_loop_free(loop);
        return err;
    }
    gs_descriptors_stop_detached(worker);
    gs_loop_free(worker->loop);
    worker->loop = loop;
    worker->now_ns = gs_worker_loop_time(loop);
    gs_worker_limit_loop_batch(loop);
    gs_deadlines_init(worker);
    gs_stacks_init_worker(worker);
    return 0;
}

static void forget_others(struct worker *worker)
{
    for (unsigned i = 0; i < gs_runtime.options.workers + EXTRA_WORKERS_MAX; i++) {
        struct worker *other = gs_runtime.workers[i];
        gs_runtime.workers[i] = NULL;
        if (!other || other == worker)
            continue;
        gs_loop_forget_signals(other->loop);
        other->next_leaked = leaked_workers;
        leaked_workers = other;
    }
    worker->exits_process = worker->index;
    gs_runtime.workers[0] = worker;
    gs_runtime.worker_count = 1;
    gs_runtime.options.workers = 1;
    worker->index = 0;
}

static void reset_runtime(void)
{
    gs_runtime_set_multi(false);
    atomic_store(&gs_runtime.enabled_extra_workers, 0);
    atomic_store(&gs_runtime.is_any_stuck, false);
    atomic_store(&gs_runtime.idle, 0);
    atomic_store(&gs_runtime.nonworker_spawns, 0);
    atomic_store(&gs_runtime.entering, 0);
    atomic_store(&gs_runtime.canceling_all, 0);
    atomic_store(&gs_runtime.is_stopping, false);
}

/* The thread never runs again, even if its wait is claimed, or if it is unparked or cancelled. Its
 * waiters may still be in queues, also those on its stack, which is therefore not reused. */
void gs_thread_forget(struct gs_thread *thread)
{
    fiber_done(&thread->fiber);
    thread->is_live = false;
    thread->is_retired = true;
    CHECKED_SET_FATE(thread, FATE_ABANDONED);
    atomic_store(&thread->claim, CLAIM_NONE);
    atomic_store(&thread->park_state, PARK_EMPTY);
    atomic_store(&thread->cancel, CANCEL_FINISHED);
}

/* Keeps the calling thread and those that have ended, which can still be joined. */
static void forget_user_stack_threads(const struct gs_thread *self)
{
    struct gs_list *list = &gs_runtime.user_stack_threads;
    for (struct gs_list *link = list->next, *next; link != list; link = next) {
        struct gs_thread *thread = thread_on_user_stack(link);
        next = link->next;
        if (thread == self || thread->is_done)
            continue;
        gs_list_remove(link);
        gs_thread_forget(thread);
    }
}

static int become_child(struct worker *worker, struct gs_thread *self)
{
    int err = renew_loop(worker);
    gs_symbols_after_fork();
    gs_monitor_after_fork();
    gs_descriptors_after_fork();
    gs_files_reset();
    gs_stacks_after_fork(worker, self);
    forget_user_stack_threads(self);
    self->joiner = NULL;
    if (self->extra)
        self->extra->watchers.first = NULL;
    self->bound_worker = 0;
    self->deadline_index = 0; /* those of the parent are forgotten */
    self->deadline_ns = GS_NEVER;
    /* What would have completed the thread is forgotten. */
    if (atomic_load(&self->cancel) == CANCEL_SENT)
        atomic_store(&self->cancel, CANCEL_DELIVERED);
    reset_worker(worker);
    forget_others(worker);
    reset_runtime();
    unlock_all(worker);
    pthread_sigmask(SIG_SETMASK, &gs_runtime.signals, NULL);
    return err ? err : gs_reports_start_dumping(worker);
}

/* What returning from main would do. */
_Noreturn void gs_fork_exit(void)
{
    gs_blocking_end();
    exit(EXIT_SUCCESS);
}

/* ---- The call, and its handlers ---- */

/* A call of gs_fork: other threads may make one while handlers wait in this one. */
struct forking {
    struct forking *next;
    struct gs_thread *thread;
    const struct gs_fork_functions *functions; /* NULL: none */
    void *argument;
    int err; /* of the child */
};

static struct gs_spin calls_lock;
static struct forking *calls;

static void add_call(struct forking *call)
{
    spin_lock_always(&calls_lock);
    call->next = calls;
    calls = call;
    spin_unlock_always(&calls_lock);
}

static void remove_call(const struct forking *call)
{
    spin_lock_always(&calls_lock);
    struct forking **place = &calls;
    while (*place != call)
        place = &(*place)->next;
    *place = call->next;
    spin_unlock_always(&calls_lock);
}

/* The call in which the running thread is, or NULL: it forks by itself, to execute a program. */
static struct forking *find_call(const struct worker *worker)
{
    spin_lock_always(&calls_lock);
    struct forking *call = worker->current ? calls : NULL;
    while (call && call->thread != worker->current)
        call = call->next;
    spin_unlock_always(&calls_lock);
    return call;
}

static void before_fork(void)
{
    struct worker *worker = gs_worker_or_null();
    struct forking *call = worker ? find_call(worker) : NULL;
    if (!call)
        return;
    if (call->functions)
        call->functions->before(call->argument);
    lock_all(worker);
    worker->forking = call;
}

static struct forking *take_call(struct worker *worker)
{
    struct forking *call = worker ? worker->forking : NULL;
    if (!call)
        return NULL;
    worker->forking = NULL;
    return call;
}

static void in_parent(void)
{
    struct worker *worker = gs_worker_or_null();
    const struct forking *call = take_call(worker);
    if (!call)
        return;
    unlock_all(worker);
    if (call->functions)
        call->functions->in_parent(call->argument);
}

static void in_child(void)
{
    struct worker *worker = gs_worker_or_null();
    struct forking *call = take_call(worker);
    if (!call)
        return;
    calls_lock = (struct gs_spin){0};
    calls = call;
    call->next = NULL;
    call->err = become_child(worker, call->thread);
    if (call->functions && !call->err)
        call->functions->in_child(call->argument);
}

__attribute__((constructor)) static void prepare_for_forks(void)
{
    static const struct atfork functions = {before_fork, in_parent, in_child};
    gs_atfork_add(ATFORK_THREADS, &functions);
}

int gs_fork_register(void)
{
    return gs_atfork_start();
}

static pid_t fork_with(const struct gs_fork_functions *functions, void *argument)
{
    struct gs_thread *self = thread_current();
    struct off_stack off = {.thread = self};
    struct forking local = {.thread = self, .functions = functions, .argument = argument};
    int err = gs_atfork_start();
    if (err)
        return err;
    if ((self->extra && self->extra->tls_base) || self->worker->is_stack_in_use)
        return -EOPNOTSUPP;
    struct forking *call = off_stack_in(&off, &local, sizeof local);
    if (off.err)
        return off.err;
    add_call(call);
    pid_t pid = fork();
    err = pid < 0 ? -errno : call->err;
    remove_call(call);
    off_stack_end(&off);
    return err ? err : pid;
}

pid_t gs_fork(void)
{
    CHECKED_THREAD();
    return fork_with(NULL, NULL);
}

pid_t gs_fork_with(const struct gs_fork_functions *functions, void *argument)
{
    CHECKED_THREAD();
    return fork_with(functions, argument);
}

/* ---- A child that leaves the run ---- */

/* The parent's structures are leaked: other kernel threads may have been using them. The GS base
 * would make the kernel thread a worker. The caller stays on the thread's stack, which no thread
 * of a later run may get. */
static void leave_in_child(struct worker *worker)
{
    gs_symbols_after_fork();
    gs_monitor_after_fork();
    gs_descriptors_after_fork();
    gs_files_reset();
    gs_stacks_after_fork(worker, worker->current);
    worker->current->is_live = false;
    worker->current->is_retired = true;
    if (worker->current->extra) /* its stack is that of no worker (gs_worker_from_stack) */
        worker->current->extra->tls_base = NULL;
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        gs_loop_forget_signals(gs_runtime.workers[i]->loop);
    unlock_all(worker);
    gs_list_init(&gs_runtime.user_stack_threads);
    gs_worker_set_current(NULL);
    gs_runtime.workers = NULL;
    gs_runtime.worker_count = 0;
    gs_runtime.user_stack_lock = (struct gs_spin){0};
    atomic_store(&gs_runtime.entering, 0);
    gs_runtime.is_worker_in_register = false;
    atomic_store(&gs_runtime.is_running, false);
}

long gs_fork_leaving(long (*fork_process)(void *argument), void *argument)
{
    CHECKED_THREAD();
    struct worker *worker = worker_current();
    lock_all(worker);
    long pid = fork_process(argument);
    if (pid)
        unlock_all(worker);
    else
        leave_in_child(worker);
    return pid;
}
