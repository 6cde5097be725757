/* A process that forks. The child has one kernel thread, which goes on as the worker that it was; all else of the runtime was left
 * as it happened to be. So whatever only the forking thread could have changed is taken over, what stands under a lock is locked
 * during the fork, and the rest is made anew: who waits for what, who may run, which stacks are free. */
#include "thread/descriptors.h"
#include "thread/file_ring.h"
#include "thread/files.h"
#include "thread/stacks.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Other workers of parents: their kernel threads were in the midst of them, so they cannot be freed. */
static struct worker *forgotten;

/* In this order everywhere: nobody who holds one waits for another. */
static void lock_all(struct worker *worker)
{
    gs_pool_lock();
    gs_stacks_lock();
    spin_lock_always(&gs_runtime.caller_lock);
    spin_lock_always(&worker->deadlines.lock);
}

static void unlock_all(struct worker *worker)
{
    spin_unlock_always(&worker->deadlines.lock);
    spin_unlock_always(&gs_runtime.caller_lock);
    gs_stacks_unlock();
    gs_pool_unlock();
}

static void empty_queues(struct worker *worker)
{
    for (unsigned level = 0; level < LEVELS; level++)
        worker->queues[level] = (struct run_queue){.last = &worker->queues[level].first};
    worker->ready_mask = 0;
    worker->deferred = NULL;
    atomic_store(&worker->ready, 0);
    atomic_store(&worker->inbox, NULL);
    worker->shared = (struct shared_queue){.first = NULL};
    if (worker->policy_queue)
        memset(worker->policy_queue, 0, gs_runtime.options.policy->size);
    while (worker->deadlines.heap.count)
        gs_heap_remove(&worker->deadlines.heap, gs_heap_first(&worker->deadlines.heap)->place);
}

/* The only one left, which runs one thread. */
static void reset_worker(struct worker *worker)
{
    empty_queues(worker);
    atomic_store(&worker->kernel_id, (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0));
    atomic_store(&worker->spawned, 1);
    atomic_store(&worker->ended, 0);
    atomic_store(&worker->outside, worker->current->is_outside);
    atomic_store(&worker->is_stuck, false);
    worker->is_started = false;
}

/* What the former loop watched was for others. Returns 0 or -errno. */
static int renew_loop(struct worker *worker)
{
    struct gs_loop *loop;
    int err = gs_loop_new(&loop);
    if (err)
        return err;
    err = gs_loop_forked(worker->loop); /* it would else speak to the parent's kernel objects */
    if (err) {
        gs_loop_free(loop);
        return err;
    }
    gs_reports_stop_dumping(gs_runtime.workers[0]);
    gs_descriptors_retire(worker);
    gs_loop_free(worker->loop);
    gs_file_ring_forked(worker);
    worker->loop = loop;
    worker->now_ns = gs_worker_clock(loop);
    gs_worker_bound_loop(loop);
    gs_deadlines_init(worker);
    return 0;
}

static void forget_others(struct worker *worker)
{
    for (unsigned i = 0; i < gs_runtime.options.workers + SPARES_MOST; i++) {
        struct worker *other = gs_runtime.workers[i];
        gs_runtime.workers[i] = NULL;
        if (!other || other == worker)
            continue;
        other->next_forgotten = forgotten;
        forgotten = other;
    }
    worker->is_orphan = worker->index;
    gs_runtime.workers[0] = worker;
    gs_runtime.worker_count = 1;
    gs_runtime.options.workers = 1;
    worker->index = 0;
}

static void reset_runtime(void)
{
    gs_runtime.is_multi = gs_threads_are_several = false;
    atomic_store(&gs_runtime.spares, 0);
    atomic_store(&gs_runtime.idle, 0);
    atomic_store(&gs_runtime.foreign, 0);
    atomic_store(&gs_runtime.arriving, 0);
    atomic_store(&gs_runtime.canceling_all, 0);
    atomic_store(&gs_runtime.is_stopping, false);
}

static int become_child(struct worker *worker, struct gs_thread *self)
{
    int err = renew_loop(worker);
    gs_monitor_forked();
    gs_pool_forked();
    gs_descriptors_forked();
    gs_files_reset();
    gs_stacks_forked(worker, self);
    gs_list_init(&gs_runtime.caller_threads);
    if (self->stack_class == CLASS_CALLER)
        gs_list_append(&gs_runtime.caller_threads, &self->link);
    self->bound = NULL;
    self->timer_ns = GS_NEVER; /* it went with the former loop */
    reset_worker(worker);
    forget_others(worker);
    reset_runtime();
    unlock_all(worker);
    pthread_sigmask(SIG_SETMASK, &gs_runtime.signals, NULL);
    return err ? err : gs_reports_start_dumping(worker);
}

/* As the last kernel thread of a process does. */
_Noreturn void gs_fork_end(void)
{
    gs_pool_done();
    exit(EXIT_SUCCESS);
}

pid_t gs_fork(void)
{
    struct gs_thread *self = thread_current();
    struct worker *worker = self->worker;
    if (self->base)
        return -EOPNOTSUPP;
    lock_all(worker);
    pid_t pid = fork();
    int err = pid < 0 ? -errno : 0;
    if (!pid)
        return become_child(worker, self);
    unlock_all(worker);
    return err ? err : pid;
}
