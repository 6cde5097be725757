/* Work. It is an async that the kernel thread of the pool sends when the function has returned. The
 * loop's use of the pool begins with its first work and ends in gs_loop_free, which waits until
 * kernel threads that have sent an async have left the loop. */
#include "loop/state.h"

#include <errno.h>
#include <stdlib.h>

/* The user of a loop means threads that compute; those that wait may be more (base/pool.c). */
#define THREADS_MAX 64u

struct work_job {
    struct job job;
    struct gs_work *work;
    gs_work_fn *discard;
};

static struct gs_work *work_at(struct gs_list *link)
{
    return gs_container_of(link, struct gs_work, async.link);
}

/* ---- In a kernel thread of the pool ---- */

static void run(void *argument)
{
    struct gs_work *work = argument;
    work->run(work);
}

/* From the send on, the loop may free the job and the work. */
static void send_async(struct job *job)
{
    gs_async_send(&gs_container_of(job, struct work_job, job)->work->async);
}

static void discard_work(struct job *job)
{
    struct work_job *work_job = gs_container_of(job, struct work_job, job);
    work_job->discard(work_job->work);
    free(work_job);
}

/* ---- In the loop's thread ---- */

void gs_work_init(struct gs_work *work, struct gs_loop *loop, gs_work_done_fn *callback)
{
    CHECKED_INIT(&work->watcher);
    *work = (struct gs_work){.watcher = {.loop = loop, .kind = KIND_WORK}, .callback = callback};
}

static void end_work(struct gs_work *work)
{
    gs_loop_async_received(&work->async);
    free(work->job);
    work->job = NULL;
    gs_list_remove(&work->async.link);
    gs_loop_deactivate(&work->watcher);
}

static int use_pool(struct gs_loop *loop)
{
    int err = loop->uses_pool ? 0 : gs_pool_retain(&loop->pool_user);
    loop->uses_pool = !err;
    return err;
}

int gs_loop_start_work(struct gs_work *work, enum job_kind kind, gs_work_fn *fn,
                       gs_work_fn *discard)
{
    struct gs_loop *loop = work->watcher.loop;
    if (work->job)
        return -EBUSY;
    int err = use_pool(loop);
    if (err)
        return err;
    struct work_job *job = malloc(sizeof *job);
    if (!job)
        return -ENOMEM;
    *job = (struct work_job){
        .job = {.kind = kind, .fn = run, .argument = work, .complete = send_async},
        .work = work,
        .discard = discard,
    };
    if (discard)
        job->job.discard = discard_work;
    work->run = fn;
    work->job = job;
    work->is_canceled = false;
    gs_list_append(&loop->asyncs, &work->async.link);
    gs_loop_activate(&work->watcher);
    err = gs_pool_submit(&loop->pool_user, &job->job);
    if (err)
        end_work(work);
    return err;
}

int gs_work_start(struct gs_work *work, gs_work_fn *fn)
{
    CHECKED_START(&work->watcher, KIND_WORK);
    return gs_loop_start_work(work, JOB_CALL, fn, NULL);
}

static void detach(struct gs_work *work)
{
    CHECKED_DEACTIVATE(&work->watcher);
    work->watcher.active = false;
    gs_list_remove(&work->async.link);
}

/* Once it is abandoned, a kernel thread may free it; but until then one may be sending it, so its
 * pending link is left alone. */
enum job_state gs_loop_abandon_work(struct gs_work *work)
{
    struct gs_loop *loop = work->watcher.loop;
    struct work_job *job = work->job;
    detach(work);
    enum job_state state = gs_pool_cancel(&job->job);
    if (state == JOB_QUEUED)
        free(job);
    if (state == JOB_QUEUED || state == JOB_ABANDONED)
        return state;
    work->watcher.active = true;
    gs_list_append(&loop->asyncs, &work->async.link);
    CHECKED_ACTIVATE(&work->watcher);
    return state;
}

static bool take_back(struct gs_work *work)
{
    struct work_job *job = work->job;
    if (!work->is_canceled && gs_pool_cancel(&job->job) == JOB_QUEUED)
        work->is_canceled = true;
    return work->is_canceled;
}

void gs_work_cancel(struct gs_work *work)
{
    CHECKED_STOP(&work->watcher);
    if (work->job && !work->is_canceled && take_back(work))
        gs_loop_set_pending(&work->watcher, 0);
}

void gs_loop_set_work_threads(struct gs_loop *loop, unsigned max)
{
    CHECKED_LOOP(loop);
    loop->pool_user.max_threads = max < THREADS_MAX ? max : THREADS_MAX;
}

void gs_loop_stop_work(struct gs_work *work)
{
    bool is_internal = work->watcher.is_internal;
    int result = work->is_canceled ? -ECANCELED : 0;
    end_work(work);
    if (is_internal)
        work->callback(work, result);
}

void gs_loop_work_done(struct gs_work *work)
{
    int result = work->is_canceled ? -ECANCELED : 0;
    end_work(work);
    work->callback(work, result);
}

void gs_loop_end_works(struct gs_loop *loop)
{
    if (!loop->uses_pool)
        return;
    GS_LIST_FOREACH (link, &loop->asyncs) {
        struct gs_work *work = work_at(link);
        if (work->watcher.kind != KIND_WORK)
            continue;
        if (work->watcher.is_internal)
            gs_loop_op_end_call(work);
        else
            (void)take_back(work);
    }
    gs_pool_release(&loop->pool_user);
}

/* ---- After a fork ---- */

static bool is_in(const struct gs_list lists[PRIORITIES], const struct gs_watcher *watcher)
{
    for (unsigned p = 0; p < PRIORITIES; p++)
        GS_LIST_FOREACH (link, &lists[p])
            if (link == &watcher->pending)
                return true;
    return false;
}

/* A kernel thread that was sending at the fork has left the link in an arbitrary state. */
static void cancel_in_child(struct gs_work *work)
{
    struct gs_loop *loop = work->watcher.loop;
    if (is_in(loop->collected, &work->watcher) || is_in(loop->running, &work->watcher))
        return;
    work->watcher.pending = (struct gs_list){NULL, NULL};
    work->is_canceled = true;
    gs_loop_set_pending(&work->watcher, 0);
}

void gs_loop_cancel_works_after_fork(struct gs_loop *loop)
{
    gs_loop_collect_asyncs(loop);
    GS_LIST_FOREACH (link, &loop->asyncs)
        if (work_at(link)->watcher.kind == KIND_WORK)
            cancel_in_child(work_at(link));
}
