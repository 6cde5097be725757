/* Calls that block. A call is usually on the stack of the thread that waits for it, unless that is
 * shared; its completion is a message to the worker of that thread. */
#include "thread/io/blocking.h"
#include "thread/schedule/off_stack.h"

#include <errno.h>
#include <gossamer/io.h>

static struct pool_user runtime;

/* ---- The wait ---- */

/* Called by the worker: only now may the waiting thread resume. */
static void on_done(struct worker *worker, struct runnable *runnable)
{
    struct blocking_wait *wait = gs_container_of(runnable, struct blocking_wait, message);
    struct gs_thread *thread = wait->thread;
    wait->is_done = true;
    if (thread_claim(thread, CLAIM_WOKEN))
        gs_thread_enqueue(worker, thread);
}

void gs_blocking_complete(struct blocking_wait *wait)
{
    gs_worker_send(wait->worker, &wait->message);
}

static const struct wait_kind waiting = {"a blocking call", true},
                              ending = {"a blocking call", true, .ignores_cancel = true};

struct start {
    struct blocking_wait *wait;
    int err;
};

static void start_wait(void *argument)
{
    struct start *start = argument;
    start->err = start->wait->start(start->wait);
    gs_chaos(CHAOS_PUBLISH);
    if (start->err && thread_claim(start->wait->thread, CLAIM_WOKEN))
        gs_thread_enqueue(worker_current(), start->wait->thread);
}

static int wait_until(struct blocking_wait *wait, uint64_t deadline_ns)
{
    struct gs_thread *self = wait->thread;
    struct start starting = {.wait = wait};
    const struct wait interruptible = {&waiting, wait->at, deadline_ns},
                      uninterruptible = {&ending, wait->at, GS_NEVER};
    int err = gs_thread_wait_then(self, start_wait, &starting, &interruptible);
    if (starting.err)
        return starting.err;
    if (!err || wait->is_done)
        return 0;
    if (wait->withdraw(wait))
        return err;
    (void)gs_thread_wait(self, NULL, &uninterruptible);
    return 0;
}

/* The thread does not migrate while it waits: completion is a message to its worker. */
int gs_blocking_wait(struct blocking_wait *wait, uint64_t deadline_ns)
{
    struct gs_thread *self = thread_current();
    wait->message = (struct runnable){.priority = GS_PRIORITY_HIGH, .resume = on_done};
    wait->thread = self;
    wait->worker = self->worker;
    wait->is_done = false;
    if (!deadline_ns)
        return -ETIMEDOUT;
    if (thread_must_cancel(self))
        return -ECANCELED;
    self->is_pinned = true;
    int err = wait_until(wait, deadline_ns);
    self->is_pinned = false;
    return err;
}

/* ---- Jobs ---- */

struct blocking_call {
    struct job job;
    struct blocking_wait wait;
};

static void complete(struct job *job)
{
    gs_blocking_complete(&gs_container_of(job, struct blocking_call, job)->wait);
}

static int start_job(struct blocking_wait *wait)
{
    return gs_pool_submit(&runtime, &gs_container_of(wait, struct blocking_call, wait)->job);
}

static bool withdraw_job(struct blocking_wait *wait)
{
    struct blocking_call *call = gs_container_of(wait, struct blocking_call, wait);
    return gs_pool_cancel(&call->job) == JOB_QUEUED;
}

int gs_run_blocking_as(enum job_kind kind, void (*fn)(void *argument), void *argument, size_t size,
                       uint64_t deadline_ns)
{
    struct off_stack off = {.thread = thread_current()};
    struct blocking_call local = {
        .job = {.kind = kind,
                .fn = fn,
                .argument = off_stack_out(&off, argument, size),
                .complete = complete},
        .wait = {start_job, withdraw_job, .at = (const void *)(uintptr_t)fn},
    };
    struct blocking_call *call = off_stack_in(&off, &local, sizeof local);
    int err = off.err ? off.err : gs_blocking_wait(&call->wait, deadline_ns);
    off_stack_end(&off);
    return err;
}

int gs_run_blocking(void (*fn)(void *argument), void *argument, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    return gs_run_blocking_as(JOB_CALL, fn, argument, 0, deadline_ns);
}

/* ---- The pool ---- */

struct pool_user *gs_blocking_user(void)
{
    return &runtime;
}

int gs_blocking_start(void)
{
    runtime.max_threads = gs_runtime.options.max_pool_threads;
    return gs_pool_retain(&runtime);
}

void gs_blocking_end(void)
{
    gs_pool_release(&runtime);
}
