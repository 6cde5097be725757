/* The workers of one process, as kernel threads that run user threads. */
#include "load/awake.h"
#include "load/crew.h"

#include <errno.h>
#include <stdlib.h>

/* A worker's own thread: the foreman of its clients, who does not wait in line with thousands of them. */
struct hand {
    struct process *process;
    struct gs_thread *thread;
    unsigned number; /* of the worker, from 1 */
    int err;
};

struct process {
    struct load_crew *crew;
    struct load_worker *workers;
    struct hand *hands;
    size_t started;
    uint64_t start_ns;
    bool shows_progress;
    int err;
};

static void *run_hand(void *argument)
{
    struct hand *hand = argument;
    struct process *process = hand->process;
    struct load_worker *worker = &process->workers[hand->number - 1];
    hand->err = gs_load_worker_run(worker, hand->number, process->start_ns);
    return NULL;
}

/* The runtime's own way to wait is replaced by the load generator's. A worker that the runtime has
 * added for itself has no clients. */
static int wait_for_events(struct gs_loop *loop, unsigned number, void *data)
{
    struct process *process = data;
    if (number > process->crew->worker_count)
        return gs_loop_step(loop, GS_NEVER);
    return gs_load_pace_wait(&process->workers[number - 1].pace, loop);
}

static void stop_hands(struct process *process)
{
    for (size_t i = 0; i < process->started; i++)
        gs_thread_cancel(process->hands[i].thread);
}

static void interrupt(void *data)
{
    struct process *process = data;
    atomic_store(process->crew->is_interrupted, true);
    stop_hands(process);
}

static struct load_counts count_so_far(void *data)
{
    const struct process *process = data;
    struct load_counts counts = {0};
    for (size_t i = 0; i < process->crew->worker_count; i++) {
        uint64_t requests, errors;
        gs_load_tally_count(&process->workers[i].tally, &requests, &errors);
        counts.requests += requests;
        counts.errors += errors;
    }
    return counts;
}

static int start_hands(struct process *process)
{
    size_t *started = &process->started;
    int err = 0;
    while (!err && *started < process->crew->worker_count) {
        struct hand *hand = &process->hands[*started];
        hand->process = process;
        hand->number = (unsigned)*started + 1;
        const struct gs_thread_attributes attributes = {
            .name = "foreman", .priority = GS_PRIORITY_HIGH, .worker = hand->number};
        err = gs_thread_spawn(&attributes, run_hand, hand, &hand->thread);
        *started += !err;
    }
    return err;
}

static void *run_hands(void *argument)
{
    struct process *process = argument;
    struct load_watch watch = {.interrupt = interrupt,
                               .count = process->shows_progress ? count_so_far : NULL,
                               .data = process};
    process->err = gs_load_watch_start(&watch, &process->crew->signals_before);
    if (process->err)
        return NULL;
    process->err = start_hands(process);
    if (process->err)
        stop_hands(process);
    for (size_t i = 0; i < process->started; i++) {
        (void)!gs_thread_join(process->hands[i].thread, GS_NEVER, NULL);
        if (!process->err)
            process->err = process->hands[i].err;
    }
    gs_load_watch_stop(&watch);
    return NULL;
}

int gs_load_process_run(struct load_crew *crew, size_t index, uint64_t start_ns,
                        bool shows_progress)
{
    struct process process = {.crew = crew,
                              .workers = gs_load_crew_workers(crew, index),
                              .hands = calloc(crew->worker_count, sizeof *process.hands),
                              .start_ns = start_ns,
                              .shows_progress = shows_progress};
    const struct gs_threads_options options = {
        .workers = (unsigned)crew->worker_count, .wait = wait_for_events, .wait_data = &process};
    struct load_awake awake;
    if (!process.hands)
        return -ENOMEM;
    int err = gs_load_awake_begin(&awake, crew->settings->keeps_awake ? crew->worker_count : 0);
    if (!err) {
        err = gs_threads_run(&options, run_hands, &process, NULL);
        gs_load_awake_end(&awake);
    }
    free(process.hands);
    return err ? err : process.err;
}
