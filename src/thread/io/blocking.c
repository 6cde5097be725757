/* Calls that block. A call is usually on the stack of the thread that waits for it, unless that is
 * shared; its completion is a message to the worker of that thread. */
#include "thread/io/blocking.h"
#include "thread/schedule/off_stack.h"

#include <errno.h>
#include <gossamer/io.h>

static struct pool_user runtime;

/* Called by the worker: only now may the waiting thread resume. */
static void on_done(struct worker *worker, struct runnable *runnable)
{
    struct blocking_call *call = gs_container_of(runnable, struct blocking_call, message);
    struct gs_thread *thread = call->thread;
    call->is_done = true;
    if (thread_claim(thread, CLAIM_WOKEN))
        gs_thread_enqueue(worker, thread);
}

static void send_message(struct job *job)
{
    struct blocking_call *call = gs_container_of(job, struct blocking_call, job);
    gs_worker_send(call->worker, &call->message);
}

static const struct wait_kind waiting = {"a blocking call", true},
                              ending = {"a blocking call", true, .ignores_cancel = true};

struct start {
    struct blocking_call *call;
    int err;
};

/* Called when the stack has been left: the job may complete at once. */
static void start_job(void *argument)
{
    struct start *start = argument;
    start->err = gs_pool_submit(&runtime, &start->call->job);
    gs_chaos(CHAOS_PUBLISH);
    if (start->err && thread_claim(start->call->thread, CLAIM_WOKEN))
        gs_thread_enqueue(worker_current(), start->call->thread);
}

static int fail(struct blocking_call *call, int err)
{
    if (call->job.discard)
        call->job.discard(&call->job);
    return err;
}

static int run(struct blocking_call *call, uint64_t deadline_ns)
{
    struct gs_thread *self = call->thread;
    struct start starting = {.call = call};
    const void *at = (const void *)(uintptr_t)call->job.fn;
    const struct wait wait = {&waiting, at, deadline_ns}, uninterruptible = {&ending, at, GS_NEVER};
    int err = gs_thread_wait_then(self, start_job, &starting, &wait);
    if (starting.err)
        return fail(call, starting.err);
    if (!err || call->is_done)
        return 0;
    enum job_state state = gs_pool_cancel(&call->job);
    if (state == JOB_ABANDONED)
        return err;
    if (state == JOB_QUEUED)
        return fail(call, err);
    (void)gs_thread_wait(self, NULL, &uninterruptible);
    return 0;
}

/* The thread does not migrate while it waits: completion is a message to its worker. */
int gs_blocking_run(struct blocking_call *call, uint64_t deadline_ns)
{
    struct gs_thread *self = thread_current();
    call->job.complete = send_message;
    call->message = (struct runnable){.priority = GS_PRIORITY_HIGH, .resume = on_done};
    call->thread = self;
    call->worker = self->worker;
    call->is_done = false;
    if (!deadline_ns)
        return fail(call, -ETIMEDOUT);
    if (thread_must_cancel(self))
        return fail(call, -ECANCELED);
    self->is_pinned = true;
    int err = run(call, deadline_ns);
    self->is_pinned = false;
    return err;
}

int gs_run_blocking_as(enum job_kind kind, void (*fn)(void *argument), void *argument, size_t size,
                       uint64_t deadline_ns)
{
    struct off_stack off = {.thread = thread_current()};
    struct blocking_call local = {
        .job = {.kind = kind, .fn = fn, .argument = off_stack_out(&off, argument, size)}};
    struct blocking_call *call = off_stack_in(&off, &local, sizeof local);
    int err = off.err ? off.err : gs_blocking_run(call, deadline_ns);
    off_stack_end(&off);
    return err;
}

int gs_run_blocking(void (*fn)(void *argument), void *argument, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    return gs_run_blocking_as(JOB_CALL, fn, argument, 0, deadline_ns);
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
