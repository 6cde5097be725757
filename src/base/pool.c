/* The state of the pool and of its jobs is guarded by the mutex, which is also held during forks.
 *
 * What `complete` does may let another thread free the job, but not its user: gs_pool_release waits
 * until the count of jobs is 0, and the count is decremented afterwards. */
#include "base/pool.h"

#include "base/atfork.h"
#include "base/chaos.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <signal.h>
#include <time.h>

#define THREADS_MAX 1024u
#define DETACHED_MAX 64u

/* How many kernel threads there are for each kind unless the user says so: few for what uses
 * processors, many for what waits for disks, other programs or machines. */
static const unsigned default_threads[JOB_KINDS] = {
    [JOB_CALL] = 4,  [JOB_FILE] = 64,       [JOB_PATH] = 64,
    [JOB_NAME] = 64, [JOB_LOCAL_NAME] = 64, [JOB_STREAM] = 64};

/* The kernel threads for one kind of job. */
struct lane {
    struct gs_list idle; /* the latest one first */
    struct gs_list jobs;
    pthread_t threads[THREADS_MAX];
    unsigned thread_count, idle_count, queued_count;
};

#define LANE(kind_)                                                                                \
    [kind_] = {.idle = {&lanes[kind_].idle, &lanes[kind_].idle},                                   \
               .jobs = {&lanes[kind_].jobs, &lanes[kind_].jobs}}

static struct lane lanes[JOB_KINDS] = {LANE(JOB_CALL), LANE(JOB_FILE),       LANE(JOB_PATH),
                                       LANE(JOB_NAME), LANE(JOB_LOCAL_NAME), LANE(JOB_STREAM)};

uint64_t gs_pool_idle_ns = 10 * GS_SECOND;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t user_is_idle = PTHREAD_COND_INITIALIZER;
static pthread_cond_t has_ended = PTHREAD_COND_INITIALIZER;
static unsigned detached_count, user_count, forks;
static bool is_ending;

/* The kernel thread that was idle for too long last. It joins the one before it, so that the last
 * user of the pool has to join only one. */
static pthread_t leaver;
static bool has_leaver;

static void forget_jobs(struct pool_user *user, unsigned count)
{
    user->jobs -= count;
    if (!user->jobs && user->is_releasing)
        pthread_cond_broadcast(&user_is_idle);
}

/* The caller has run the job. Returns whether it still belongs to the pool, and the user whose
 * job it was; NULL: that does not count the job any more. */
static bool finish(struct job *job, struct pool_user **ret_user)
{
    bool is_abandoned = false, is_detached = false;
    gs_chaos(CHAOS_PUBLISH);
    if (job->discard) {
        pthread_mutex_lock(&mutex);
        is_abandoned = job->state == JOB_ABANDONED;
        is_detached = job->is_detached;
        detached_count -= is_detached;
        job->state = JOB_FINISHED;
        pthread_mutex_unlock(&mutex);
    }
    *ret_user = is_abandoned ? NULL : job->user;
    if (is_abandoned)
        job->discard(job);
    else
        job->complete(job);
    return !is_detached;
}

/* A kernel thread that waits for a job. The caller of wake_one removes it from the list. */
struct idle {
    struct gs_list link;
    pthread_cond_t is_woken;
};

/* The caller holds the mutex. */
static void wake_one(struct lane *lane)
{
    if (gs_list_is_empty(&lane->idle))
        return;
    struct idle *idle = gs_container_of(gs_list_first(&lane->idle), struct idle, link);
    gs_list_remove(&idle->link);
    pthread_cond_signal(&idle->is_woken);
}

static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Returns false if the caller was not woken for too long. */
static bool wait_for_job(struct lane *lane)
{
    struct timespec end;
    struct idle self;
    int err = 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t end_ns = (uint64_t)end.tv_nsec + gs_pool_idle_ns;
    end.tv_sec += (time_t)(end_ns / GS_SECOND);
    end.tv_nsec = (long)(end_ns % GS_SECOND);
    init_condition(&self.is_woken);
    gs_list_prepend(&lane->idle, &self.link);
    lane->idle_count++;
    while (gs_list_is_linked(&self.link) && !err)
        err = pthread_cond_timedwait(&self.is_woken, &mutex, &end);
    lane->idle_count--;
    bool was_woken = !gs_list_is_linked(&self.link);
    if (!was_woken)
        gs_list_remove(&self.link);
    pthread_cond_destroy(&self.is_woken);
    return was_woken;
}

/* The caller holds the mutex, and has been idle for too long: it leaves the pool. */
static void leave(struct lane *lane)
{
    unsigned i = 0;
    while (!pthread_equal(lane->threads[i], pthread_self()))
        i++;
    lane->threads[i] = lane->threads[--lane->thread_count];
    pthread_t previous = leaver;
    bool has_previous = has_leaver;
    leaver = pthread_self();
    has_leaver = true;
    pthread_mutex_unlock(&mutex);
    if (has_previous)
        pthread_join(previous, NULL);
}

static void *work(void *argument)
{
    struct lane *lane = argument;
    pthread_mutex_lock(&mutex);
    while (!is_ending || !gs_list_is_empty(&lane->jobs)) {
        if (gs_list_is_empty(&lane->jobs)) {
            if (wait_for_job(lane) || is_ending)
                continue;
            leave(lane);
            return NULL;
        }
        struct job *job = gs_container_of(gs_list_first(&lane->jobs), struct job, link);
        struct pool_user *user;
        gs_list_remove(&job->link);
        lane->queued_count--;
        job->runner = pthread_self();
        job->state = JOB_RUNNING;
        gs_chaos(CHAOS_UNLOCK);
        pthread_mutex_unlock(&mutex);
        job->fn(job->argument);
        if (!finish(job, &user))
            return NULL;
        gs_chaos(CHAOS_LOCK);
        pthread_mutex_lock(&mutex);
        if (user)
            forget_jobs(user, 1);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

unsigned gs_pool_max_threads(unsigned wanted, enum job_kind kind)
{
    unsigned max = wanted ? wanted : default_threads[kind];
    return max < THREADS_MAX ? max : THREADS_MAX;
}

/* The caller holds the mutex. Returns 0, or -EAGAIN if the kind has no kernel thread at all. */
static int grow(const struct job *job)
{
    struct lane *lane = &lanes[job->kind];
    unsigned max = gs_pool_max_threads(job->user->max_threads, job->kind);
    sigset_t all, before;
    if (lane->idle_count >= lane->queued_count || lane->thread_count >= max)
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&lane->threads[lane->thread_count], NULL, work, lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    lane->thread_count += !err;
    return lane->thread_count ? 0 : -EAGAIN;
}

/* The jobs of the parent do not exist in a child. The caller holds the mutex. */
static void count_since_fork(struct pool_user *user)
{
    if (user->forks != forks)
        user->jobs = 0;
    user->forks = forks;
}

int gs_pool_submit(struct pool_user *user, struct job *job)
{
    struct lane *lane = &lanes[job->kind];
    pthread_mutex_lock(&mutex);
    count_since_fork(user);
    job->user = user;
    job->forks = forks;
    job->state = JOB_QUEUED;
    job->is_detached = false;
    gs_list_append(&lane->jobs, &job->link);
    lane->queued_count++;
    int err = grow(job);
    if (err) {
        gs_list_remove(&job->link);
        lane->queued_count--;
    } else {
        user->jobs++;
    }
    wake_one(lane);
    pthread_mutex_unlock(&mutex);
    return err;
}

/* The job's kernel thread leaves the pool, if another one can take its place. The caller holds the
 * mutex. */
static void detach_runner(struct job *job)
{
    struct lane *lane = &lanes[job->kind];
    unsigned i = 0;
    while (i < lane->thread_count && !pthread_equal(lane->threads[i], job->runner))
        i++;
    if (i == lane->thread_count || detached_count == DETACHED_MAX)
        return;
    lane->threads[i] = lane->threads[--lane->thread_count];
    if (grow(job)) {
        lane->threads[lane->thread_count++] = job->runner;
        return;
    }
    pthread_detach(job->runner);
    job->is_detached = true;
    detached_count++;
}

enum job_state gs_pool_cancel(struct job *job)
{
    pthread_mutex_lock(&mutex);
    enum job_state state = job->forks == forks ? job->state : JOB_LOST;
    if (state == JOB_QUEUED) {
        gs_list_remove(&job->link);
        lanes[job->kind].queued_count--;
        forget_jobs(job->user, 1);
    } else if (state == JOB_RUNNING && job->discard) {
        state = job->state = JOB_ABANDONED;
        detach_runner(job);
        forget_jobs(job->user, 1);
    }
    pthread_mutex_unlock(&mutex);
    return state;
}

/* ---- Forks ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

/* The kernel threads do not exist, and so nobody waits at the conditions. */
static void in_child(void)
{
    user_is_idle = has_ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    for (struct lane *lane = lanes; lane < lanes + JOB_KINDS; lane++) {
        gs_list_init(&lane->idle);
        gs_list_init(&lane->jobs);
        lane->thread_count = lane->idle_count = lane->queued_count = 0;
    }
    detached_count = 0;
    is_ending = has_leaver = false;
    forks++;
    pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void prepare_for_forks(void)
{
    static const struct atfork functions = {before_fork, in_parent, in_child};
    gs_atfork_add(ATFORK_POOL, &functions);
}

/* ---- Users ---- */

int gs_pool_retain(struct pool_user *user)
{
    int err = gs_atfork_start();
    if (err)
        return err;
    pthread_mutex_lock(&mutex);
    while (is_ending)
        pthread_cond_wait(&has_ended, &mutex);
    user->is_releasing = false;
    user_count++;
    pthread_mutex_unlock(&mutex);
    return 0;
}

/* There are no users, so that nobody submits a job meanwhile. */
static void end_threads(void)
{
    is_ending = true;
    for (struct lane *lane = lanes; lane < lanes + JOB_KINDS; lane++)
        while (!gs_list_is_empty(&lane->idle))
            wake_one(lane);
    pthread_mutex_unlock(&mutex);
    for (struct lane *lane = lanes; lane < lanes + JOB_KINDS; lane++)
        for (unsigned i = 0; i < lane->thread_count; i++)
            pthread_join(lane->threads[i], NULL);
    if (has_leaver)
        pthread_join(leaver, NULL);
    pthread_mutex_lock(&mutex);
    for (struct lane *lane = lanes; lane < lanes + JOB_KINDS; lane++)
        lane->thread_count = 0;
    is_ending = has_leaver = false;
    pthread_cond_broadcast(&has_ended);
}

void gs_pool_release(struct pool_user *user)
{
    pthread_mutex_lock(&mutex);
    count_since_fork(user);
    user->is_releasing = true;
    while (user->jobs)
        pthread_cond_wait(&user_is_idle, &mutex);
    if (!--user_count)
        end_threads();
    pthread_mutex_unlock(&mutex);
}
