/* The threads, the event loop and the life cycle of a stage. */
#include "stage/state.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* ---- Threads ---- */

/* Count a thread that ends. The thread that waits for the last of them frees the stage once the
 * lock is released. The caller holds the lock. */
static void count_ended_thread(struct gs_stage *stage)
{
    if (!--stage->threads)
        pthread_cond_signal(&stage->threads_ended);
}

/* Sleep until an event is enqueued. Returns false after GS_POOL_IDLE_NS, if threads may end. */
static bool sleep_until_woken(struct gs_stage *stage)
{
    int err;
    stage->idle_threads++;
    if (gs_stage_has(stage, GS_STAGE_THREADS) && stage->threads > 1) {
        uint64_t end_ns = gs_clock_now() + GS_POOL_IDLE_NS;
        struct timespec end = {(time_t)(end_ns / GS_SECOND), (long)(end_ns % GS_SECOND)};
        err = pthread_cond_timedwait(&stage->queue_not_empty, &stage->lock, &end);
    } else {
        err = pthread_cond_wait(&stage->queue_not_empty, &stage->lock);
    }
    stage->idle_threads--;
    stage->is_wakeup_pending = false;
    return err != ETIMEDOUT;
}

/* Wait for events. Returns false if the thread must end. */
static bool wait_for_events(struct gs_stage *stage)
{
    while (!stage->queued) {
        if (stage->is_ending)
            return false;
        if (!sleep_until_woken(stage) && !stage->queued && stage->threads > 1)
            return false;
    }
    return true;
}

/* If the queue of `stage` is empty and all threads of its steals_from stage sleep, handle a batch
 * of that stage; wake one of its threads for the events that are left. The caller holds the lock of
 * `stage`. */
static void steal(struct gs_stage *stage, struct gs_outbox *outbox)
{
    struct gs_stage *other = stage->options.steals_from;
    bool is_idle = !stage->queued;
    pthread_mutex_unlock(&stage->lock);
    pthread_mutex_lock(&other->lock);
    if (is_idle && other->queued && other->idle_threads == other->threads &&
        !other->is_wakeup_pending)
        gs_stage_handle(other, outbox, NULL);
    if (other->queued)
        gs_stage_wake_one(other);
    pthread_mutex_unlock(&other->lock);
    pthread_mutex_lock(&stage->lock);
}

void gs_stage_set_batch_scheduling(void)
{
    const struct sched_param param = {0};
    (void)sched_setscheduler(0, SCHED_BATCH, &param);
}

static void *run_thread(void *data)
{
    struct gs_stage *stage = data;
    struct gs_outbox outbox = {.used = 0};
    gs_stage_set_batch_scheduling();
    pthread_mutex_lock(&stage->lock);
    while (wait_for_events(stage)) {
        gs_stage_handle(stage, &outbox, stage->options.steals_from);
        if (stage->options.steals_from)
            steal(stage, &outbox);
    }
    count_ended_thread(stage);
    pthread_mutex_unlock(&stage->lock);
    return NULL;
}

int gs_stage_add_thread(struct gs_stage *stage)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    int err = pthread_attr_init(&attributes);
    if (!err) {
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        err = pthread_create(&thread, &attributes, run_thread, stage);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    if (err) {
        pthread_mutex_lock(&stage->lock);
        count_ended_thread(stage);
        pthread_mutex_unlock(&stage->lock);
    }
    return -err;
}

/* ---- Stages on loops ---- */

static void on_wakeup(struct gs_async *async)
{
    struct gs_stage *stage = async->watcher.data;
    pthread_mutex_lock(&stage->lock);
    if (stage->queued)
        gs_stage_handle(stage, &stage->outbox, NULL);
    bool has_more = stage->queued;
    pthread_mutex_unlock(&stage->lock);
    if (has_more)
        gs_async_send(async);
}

static void on_before_wait(struct gs_prepare *prepare)
{
    struct gs_stage *stage = prepare->watcher.data;
    gs_outbox_flush(&stage->outbox);
}

static void start_on_loop(struct gs_stage *stage)
{
    gs_async_init(&stage->wakeup, stage->options.loop, on_wakeup);
    gs_prepare_init(&stage->before_wait, stage->options.loop, on_before_wait);
    stage->wakeup.watcher.data = stage->before_wait.watcher.data = stage;
    gs_async_start(&stage->wakeup);
    gs_prepare_start(&stage->before_wait);
}

static void stop_on_loop(struct gs_stage *stage)
{
    pthread_mutex_lock(&stage->lock);
    while (stage->queued)
        gs_stage_handle(stage, &stage->outbox, NULL);
    pthread_mutex_unlock(&stage->lock);
    gs_outbox_flush(&stage->outbox);
    gs_async_stop(&stage->wakeup);
    gs_prepare_stop(&stage->before_wait);
}

struct gs_outbox *gs_stage_outbox(struct gs_stage *stage)
{
    return &stage->outbox;
}

/* ---- Life cycle ---- */

static void destroy(struct gs_stage *stage)
{
    pthread_cond_destroy(&stage->threads_ended);
    pthread_cond_destroy(&stage->queue_not_empty);
    pthread_mutex_destroy(&stage->lock);
    free(stage);
}

/* Wait until the threads have handled all queued events and ended. */
static void stop_threads(struct gs_stage *stage)
{
    pthread_mutex_lock(&stage->lock);
    stage->is_ending = true;
    pthread_cond_broadcast(&stage->queue_not_empty);
    while (stage->threads)
        pthread_cond_wait(&stage->threads_ended, &stage->lock);
    pthread_mutex_unlock(&stage->lock);
}

static int start_threads(struct gs_stage *stage)
{
    unsigned count = gs_stage_has(stage, GS_STAGE_THREADS) ? 1 : stage->options.max_threads;
    for (unsigned i = 0; i < count; i++) {
        pthread_mutex_lock(&stage->lock);
        stage->threads++;
        pthread_mutex_unlock(&stage->lock);
        int err = gs_stage_add_thread(stage);
        if (err) {
            stop_threads(stage);
            return err;
        }
    }
    return 0;
}

static bool is_valid(const struct gs_stage_options *options)
{
    bool has_threads = !options->loop;
    return options->handle && has_threads == (options->max_threads > 0) &&
           (has_threads || !(options->controllers & GS_STAGE_THREADS)) &&
           (options->target_ns || !(options->controllers & GS_STAGE_ADMISSION));
}

static void init_conditions(struct gs_stage *stage)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&stage->queue_not_empty, &attributes);
    pthread_cond_init(&stage->threads_ended, &attributes);
    pthread_condattr_destroy(&attributes);
}

int gs_stage_new(const struct gs_stage_options *options, struct gs_stage **ret_stage)
{
    if (!is_valid(options))
        return -EINVAL;
    struct gs_stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return -ENOMEM;
    stage->options = *options;
    stage->batch = options->max_batch ? options->max_batch : GS_BATCH_MAX;
    stage->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    stage->last = &stage->first;
    init_conditions(stage);
    gs_batch_control_init(&stage->batches, stage->batch);
    gs_admission_init(&stage->admission, options->target_ns, gs_clock_now());
    int err = 0;
    if (options->loop)
        start_on_loop(stage);
    else
        err = start_threads(stage);
    if (err) {
        destroy(stage);
        return err;
    }
    *ret_stage = stage;
    return 0;
}

void gs_stage_free(struct gs_stage *stage)
{
    if (!stage)
        return;
    if (stage->options.loop)
        stop_on_loop(stage);
    else
        stop_threads(stage);
    destroy(stage);
}

void gs_stage_stats(struct gs_stage *stage, struct gs_stage_stats *ret_stats)
{
    pthread_mutex_lock(&stage->lock);
    *ret_stats = stage->stats;
    ret_stats->name = stage->options.name;
    ret_stats->queued = stage->queued;
    ret_stats->threads = stage->threads;
    ret_stats->batch = stage->batch;
    ret_stats->refused_full = atomic_load_explicit(&stage->refused_full, memory_order_relaxed);
    if (gs_stage_has(stage, GS_STAGE_ADMISSION)) {
        ret_stats->p90_ns = (uint64_t)stage->admission.p90_ns;
        ret_stats->rate = stage->admission.rate;
    }
    pthread_mutex_unlock(&stage->lock);
}
