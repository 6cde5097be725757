#include "load/run.h"

#include "load/progress.h"
#include "load/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One thread of the run. */
struct hand {
    struct load_worker worker;
    struct run *run;
    pthread_t thread;
    int err;
};

struct run {
    const struct load_settings *settings;
    struct gs_loop *loop; /* of the thread that waits */
    struct hand *hands;
    size_t count;    /* hands made */
    size_t running;  /* threads started */
    size_t finished; /* atomic */
    bool is_interrupted;
    struct gs_async on_finish;
    struct gs_signal on_interrupt, on_terminate;
    struct load_progress progress;
};

static void *run_hand(void *data)
{
    struct hand *hand = data;
    hand->err = gs_load_worker_run(&hand->worker);
    /* Release: pairs with the acquire in all_finished. */
    __atomic_fetch_add(&hand->run->finished, 1, __ATOMIC_RELEASE);
    gs_async_send(&hand->run->on_finish);
    return NULL;
}

static void all_finished(struct gs_async *async)
{
    struct run *run = async->watcher.data;
    if (__atomic_load_n(&run->finished, __ATOMIC_ACQUIRE) == run->running)
        gs_loop_stop(run->loop);
}

static void stop_hands(struct run *run)
{
    for (size_t i = 0; i < run->running; i++)
        gs_load_worker_stop(&run->hands[i].worker);
}

static void on_interrupt(struct gs_signal *signal)
{
    struct run *run = signal->watcher.data;
    run->is_interrupted = true;
    stop_hands(run);
}

static struct load_counts count_so_far(void *data)
{
    const struct run *run = data;
    struct load_counts counts = {0};
    for (size_t i = 0; i < run->running; i++) {
        uint64_t requests, errors;
        gs_load_tally_count(&run->hands[i].worker.tally, &requests, &errors);
        counts.requests += requests;
        counts.errors += errors;
    }
    return counts;
}

/* ---- Beginning and end ---- */

static int make_hands(struct run *run, const struct load_target *target)
{
    size_t threads = (size_t)run->settings->threads;
    run->hands = calloc(threads, sizeof *run->hands);
    if (!run->hands)
        return -ENOMEM;
    for (; run->count < threads; run->count++) {
        struct hand *hand = &run->hands[run->count];
        struct load_share share = {.index = run->count, .count = threads};
        int err = gs_load_worker_init(&hand->worker, run->settings, target, share);
        if (err)
            return err;
        hand->run = run;
    }
    return 0;
}

static int start_hands(struct run *run)
{
    for (; run->running < run->count; run->running++) {
        struct hand *hand = &run->hands[run->running];
        int err = pthread_create(&hand->thread, NULL, run_hand, hand);
        if (err)
            return -err;
    }
    return 0;
}

static int join_hands(struct run *run)
{
    int err = 0;
    for (size_t i = 0; i < run->running; i++) {
        pthread_join(run->hands[i].thread, NULL);
        if (run->hands[i].err)
            err = run->hands[i].err;
    }
    return err;
}

static int watch(struct run *run)
{
    gs_async_init(&run->on_finish, run->loop, all_finished);
    gs_signal_init(&run->on_interrupt, run->loop, on_interrupt);
    gs_signal_init(&run->on_terminate, run->loop, on_interrupt);
    run->on_finish.watcher.data = run->on_interrupt.watcher.data = run->on_terminate.watcher.data =
        run;
    gs_async_start(&run->on_finish);
    int err = gs_signal_start(&run->on_interrupt, SIGINT);
    if (!err)
        err = gs_signal_start(&run->on_terminate, SIGTERM);
    return err ? err : gs_load_progress_start(&run->progress, run->loop, count_so_far, run);
}

/* Whatever goes wrong, every thread that was started has ended on return. */
static int drive(struct run *run)
{
    int err = watch(run);
    if (err)
        return err;
    err = start_hands(run);
    if (!err)
        err = gs_loop_run(run->loop);
    if (err)
        stop_hands(run);
    int hand_err = join_hands(run);
    gs_load_progress_stop(&run->progress);
    return err ? err : hand_err;
}

static int sum_up(const struct run *run, struct load_result *result)
{
    struct load_tally **tallies = calloc(run->count, sizeof *tallies);
    if (!tallies)
        return -ENOMEM;
    uint64_t begun_ns = UINT64_MAX, ended_ns = 0, cpu_ns = 0;
    for (size_t i = 0; i < run->count; i++) {
        struct load_worker *worker = &run->hands[i].worker;
        tallies[i] = &worker->tally;
        begun_ns = worker->begun_ns < begun_ns ? worker->begun_ns : begun_ns;
        ended_ns = worker->ended_ns > ended_ns ? worker->ended_ns : ended_ns;
        cpu_ns += worker->cpu_ns;
    }
    result->begun_wall_ns = gs_clock_wall() - (gs_clock_now() - begun_ns);
    result->seconds = (double)(ended_ns - begun_ns) / (double)GS_SECOND;
    result->client_cpu_s = (double)cpu_ns / (double)GS_SECOND;
    result->is_interrupted = run->is_interrupted;
    int err = gs_load_tally_merge(&result->tally, tallies, run->count);
    free(tallies);
    return err;
}

static void done(struct run *run)
{
    for (size_t i = 0; i < run->count; i++)
        gs_load_worker_done(&run->hands[i].worker);
    free(run->hands);
    gs_loop_free(run->loop);
}

int gs_load_run(const struct load_settings *settings, const struct load_target *target,
                struct load_result *ret_result)
{
    struct run run = {.settings = settings};
    struct load_result result = {0};
    int err = gs_loop_new(&run.loop);
    if (!err)
        err = make_hands(&run, target);
    if (!err)
        err = drive(&run);
    if (!err)
        err = gs_load_tally_init(&result.tally, 0);
    if (!err) {
        err = sum_up(&run, &result);
        if (err)
            gs_load_tally_done(&result.tally);
    }
    done(&run);
    if (err)
        fprintf(stderr, "%s: the run failed: %s\n", gs_load_command.name, strerror(-err));
    else
        *ret_result = result;
    return err;
}

void gs_load_result_done(struct load_result *result)
{
    gs_load_tally_done(&result->tally);
}

double gs_load_measured(const struct load_result *result)
{
    if (result->seconds <= 0)
        return 0;
    return result->tally.service_ns / (double)GS_SECOND / result->seconds;
}
