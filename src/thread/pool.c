/* A few kernel threads for calls that block. A job stands on the stack of the thread that waits for it; its end is a message to
 * that thread's worker. All but the message is guarded by the mutex. */
#include "thread/state.h"

#include <errno.h>
#include <gossamer/io.h>

#define POOL_DEFAULT 4u
#define POOL_MOST 64u

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_DONE };

struct job {
    struct runnable message;
    void (*fn)(void *);
    void *argument;
    struct gs_thread *thread;
    struct worker *worker;
    enum job_state state;
    struct gs_list link;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_jobs = PTHREAD_COND_INITIALIZER;
static struct gs_list jobs = {&jobs, &jobs};
static pthread_t threads[POOL_MOST];
static unsigned thread_count, idle_count, queued_count;
static bool is_ending;

/* On the worker: only now may the waiting thread be gone on. */
static void on_done(struct worker *worker, struct runnable *runnable)
{
    struct job *job = gs_container_of(runnable, struct job, message);
    struct gs_thread *thread = job->thread;
    job->state = JOB_DONE;
    if (thread_claim(thread, CLAIM_WOKEN))
        gs_thread_arrive(worker, thread);
}

static void *work(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mutex);
    while (!is_ending || !gs_list_is_empty(&jobs)) {
        if (gs_list_is_empty(&jobs)) {
            idle_count++;
            pthread_cond_wait(&has_jobs, &mutex);
            idle_count--;
            continue;
        }
        struct job *job = gs_container_of(gs_list_first(&jobs), struct job, link);
        gs_list_remove(&job->link);
        queued_count--;
        job->state = JOB_RUNNING;
        pthread_mutex_unlock(&mutex);
        job->fn(job->argument);
        gs_worker_send(job->worker, &job->message);
        pthread_mutex_lock(&mutex);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* The mutex is held. Returns 0, or -EAGAIN if there is no thread at all. */
static int grow(void)
{
    unsigned most = gs_runtime.options.pool ? gs_runtime.options.pool : POOL_DEFAULT;
    sigset_t all, before;
    if (most > POOL_MOST)
        most = POOL_MOST;
    if (idle_count >= queued_count || thread_count >= most)
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&threads[thread_count], NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    thread_count += !err;
    return thread_count ? 0 : -EAGAIN;
}

static int submit(struct job *job)
{
    pthread_mutex_lock(&mutex);
    gs_list_append(&jobs, &job->link);
    queued_count++;
    int err = grow();
    if (err) {
        gs_list_remove(&job->link);
        queued_count--;
    }
    pthread_cond_signal(&has_jobs);
    pthread_mutex_unlock(&mutex);
    return err;
}

/* True: it was not begun, and will not be. */
static bool withdraw(struct job *job)
{
    pthread_mutex_lock(&mutex);
    bool is_queued = job->state == JOB_QUEUED;
    if (is_queued) {
        gs_list_remove(&job->link);
        queued_count--;
    }
    pthread_mutex_unlock(&mutex);
    return is_queued;
}

static const struct wait_kind waiting = {"a blocking call", true};

struct start {
    struct job *job;
    int err;
};

/* Once the stack has been left, the job may be done. */
static void start(void *argument)
{
    struct start *start = argument;
    start->err = submit(start->job);
    if (start->err && thread_claim(start->job->thread, CLAIM_WOKEN))
        gs_thread_arrive(worker_current(), start->job->thread);
}

static void nothing(void *argument)
{
    (void)argument;
}

static int run(struct job *job, uint64_t deadline_ns)
{
    struct gs_thread *self = job->thread;
    struct start starting = {.job = job};
    const void *at = (const void *)(uintptr_t)job->fn;
    const struct wait wait = {&waiting, at, deadline_ns, false},
                      rest = {&waiting, at, GS_NEVER, true};
    int err = gs_thread_wait_then(self, start, &starting, &wait);
    if (starting.err)
        return starting.err;
    if (!err || job->state == JOB_DONE)
        return 0;
    if (withdraw(job))
        return err;
    (void)gs_thread_wait_then(self, nothing, NULL, &rest);
    return 0;
}

/* Who waits here does not migrate meanwhile: the end of the job is a message to its worker. */
int gs_run_blocking(void (*fn)(void *argument), void *argument, uint64_t deadline_ns)
{
    struct gs_thread *self = thread_current();
    struct job job = {
        .message = {.item.priority = GS_PRIORITY_HIGH, .resume = on_done},
        .fn = fn,
        .argument = argument,
        .thread = self,
        .worker = self->worker,
    };
    if (!deadline_ns)
        return -ETIMEDOUT;
    if (thread_is_canceled(self))
        return -ECANCELED;
    self->is_pinned = true;
    int err = run(&job, deadline_ns);
    self->is_pinned = false;
    return err;
}

void gs_pool_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void gs_pool_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

void gs_pool_forked(void)
{
    has_jobs = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    gs_list_init(&jobs);
    thread_count = idle_count = queued_count = 0;
}

void gs_pool_done(void)
{
    pthread_mutex_lock(&mutex);
    is_ending = true;
    pthread_cond_broadcast(&has_jobs);
    pthread_mutex_unlock(&mutex);
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    thread_count = 0;
    is_ending = false;
}
