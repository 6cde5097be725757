#include "load/run.h"

#include "load/processes.h"

#include <gossamer/clock.h>
#include <gossamer/sys.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

static size_t worker_total(const struct load_run *run)
{
    return run->process_count * run->worker_count;
}

/* ---- Memory ---- */

/* Returns NULL if memory is exhausted. */
static void *map_shared(size_t size)
{
    long address = gs_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    return address < 0 && address > -4096 ? NULL : (void *)address;
}

static void unmap_shared(void *memory, size_t size)
{
    if (memory)
        gs_sys_munmap(memory, size);
}

static size_t workers_size(const struct load_run *run)
{
    return worker_total(run) * sizeof *run->workers;
}

static int init_workers(struct load_run *run, const struct load_target *target)
{
    size_t count = worker_total(run);
    run->is_interrupted = map_shared(sizeof *run->is_interrupted);
    run->workers = map_shared(workers_size(run));
    if (!run->is_interrupted || !run->workers)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct load_share share = {.index = i, .count = count};
        int err = gs_load_worker_init(&run->workers[i], run->settings, target, share);
        if (err)
            return err;
    }
    return 0;
}

static int allocate_exports(struct load_run *run)
{
    size_t count = worker_total(run);
    if (run->process_count == 1)
        return 0;
    run->processes = calloc(run->process_count, sizeof *run->processes);
    run->exports = calloc(count, sizeof *run->exports);
    if (!run->processes || !run->exports)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        run->exports[i] = map_shared(gs_load_metrics_export_size(&run->workers[i].metrics));
        if (!run->exports[i])
            return -ENOMEM;
    }
    return 0;
}

static void free_run(struct load_run *run)
{
    for (size_t i = 0; run->workers && i < worker_total(run); i++) {
        if (run->exports)
            unmap_shared(run->exports[i], gs_load_metrics_export_size(&run->workers[i].metrics));
        gs_load_worker_done(&run->workers[i]);
    }
    unmap_shared(run->workers, workers_size(run));
    unmap_shared(run->is_interrupted, sizeof *run->is_interrupted);
    free(run->exports);
    free(run->processes);
}

/* ---- Result ---- */

/* If several processes failed, the last one is named. */
static void report_failed_process(const struct load_run *run, size_t index,
                                  struct load_result *result)
{
    const struct load_process *process = &run->processes[index];
    bool is_signaled = WIFSIGNALED(process->status);
    result->is_invalid = true;
    snprintf(result->invalid_reason, sizeof result->invalid_reason,
             "process %zu of %zu ended early with %s %d; its results are lost", index + 1,
             run->process_count, is_signaled ? "signal" : "status",
             is_signaled ? WTERMSIG(process->status) : WEXITSTATUS(process->status));
}

/* Collect the workers of the processes that succeeded. Returns their number. */
static size_t collect_workers(const struct load_run *run, struct load_worker **workers,
                              struct load_result *result)
{
    size_t count = 0;
    for (size_t i = 0; i < worker_total(run); i++) {
        size_t process = i / run->worker_count;
        if (run->processes && run->processes[process].status) {
            report_failed_process(run, process, result);
            continue;
        }
        if (run->exports)
            gs_load_metrics_import(&run->workers[i].metrics, run->exports[i]);
        workers[count++] = &run->workers[i];
    }
    return count;
}

static double utilization(const struct load_worker *worker)
{
    double total = (double)(worker->ended_ns - worker->start_ns);
    return total > 0 ? 1 - (double)worker->idle_ns / total : 0;
}

static void add_times(struct load_result *result, struct load_worker *const *workers, size_t count)
{
    uint64_t start_ns = UINT64_MAX, ended_ns = 0, cpu_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const struct load_worker *worker = workers[i];
        double busy = utilization(worker);
        start_ns = worker->start_ns < start_ns ? worker->start_ns : start_ns;
        ended_ns = worker->ended_ns > ended_ns ? worker->ended_ns : ended_ns;
        cpu_ns += worker->cpu_ns;
        result->max_utilization = busy > result->max_utilization ? busy : result->max_utilization;
    }
    if (!count)
        start_ns = ended_ns = gs_clock_now();
    result->start_wall_ns = gs_clock_wall() - (gs_clock_now() - start_ns);
    result->seconds = (double)(ended_ns - start_ns) / (double)GS_SECOND;
    result->client_cpu_s = (double)cpu_ns / (double)GS_SECOND;
}

static void add_sent_rates(struct load_result *result, struct load_worker *const *workers,
                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        result->sent_rate_per_s += gs_load_worker_sent_rate(workers[i]);
}

/* A busier worker sends requests late, and reads responses late. */
static const double max_valid_utilization = 0.95;

void gs_load_result_validate(struct load_result *result, const struct load_settings *settings)
{
    const struct gs_histogram *delays = &result->metrics.times[LOAD_TIME_SEND_DELAY];
    uint64_t p99_ns = gs_histogram_percentile(delays, 99);
    if (!gs_load_is_open_loop(settings))
        return;
    if (p99_ns > settings->max_send_delay_ns)
        snprintf(result->invalid_reason, sizeof result->invalid_reason,
                 "the client was the bottleneck: the 99th percentile of the send delay is %.1f us",
                 (double)p99_ns / (double)GS_MICROSECOND);
    else if (result->max_utilization > max_valid_utilization)
        snprintf(result->invalid_reason, sizeof result->invalid_reason,
                 "the client was the bottleneck: its busiest worker was busy %.0f %% of the time",
                 result->max_utilization * 100);
    result->is_invalid = result->invalid_reason[0] != '\0';
}

static int aggregate(const struct load_run *run, struct load_result *result)
{
    struct load_worker **workers = calloc(worker_total(run), sizeof *workers);
    const struct load_metrics **all = calloc(worker_total(run), sizeof *all);
    int err = workers && all ? gs_load_metrics_init(&result->metrics, 0) : -ENOMEM;
    if (err)
        goto free_both;
    size_t count = collect_workers(run, workers, result);
    for (size_t i = 0; i < count; i++)
        all[i] = &workers[i]->metrics;
    add_times(result, workers, count);
    if (gs_load_is_open_loop(run->settings))
        add_sent_rates(result, workers, count);
    result->has_given_up = run->has_given_up;
    result->is_interrupted = atomic_load(run->is_interrupted) && !run->has_given_up;
    err = gs_load_metrics_merge(&result->metrics, all, count);
    if (err)
        gs_load_metrics_done(&result->metrics);
    else if (!result->is_invalid)
        gs_load_result_validate(result, run->settings);

free_both:
    free(all);
    free(workers);
    return err;
}

/* ---- Run ---- */

static int run_all(struct load_run *run, const struct load_target *target)
{
    sigset_t mask;
    int err = init_workers(run, target);
    if (!err)
        err = allocate_exports(run);
    if (err)
        return err;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &mask, &run->saved_mask);
    err = run->processes ? gs_load_run_processes(run) : gs_load_run_process(run, 0, gs_clock_now());
    pthread_sigmask(SIG_SETMASK, &run->saved_mask, NULL);
    return err;
}

int gs_load_run(const struct load_settings *settings, const struct load_target *target,
                struct load_result *ret_result)
{
    struct load_run run = {.settings = settings,
                           .process_count = (size_t)settings->processes,
                           .worker_count = (size_t)settings->workers};
    struct load_result result = {0};
    int err = run_all(&run, target);
    if (!err)
        err = aggregate(&run, &result);
    free_run(&run);
    if (err)
        fprintf(stderr, "%s: the run failed: %s\n", gs_load_command.name, strerror(-err));
    else
        *ret_result = result;
    return err;
}

void gs_load_result_done(struct load_result *result)
{
    gs_load_metrics_done(&result->metrics);
}

double gs_load_measured_load(const struct load_result *result)
{
    if (result->seconds <= 0)
        return 0;
    return result->metrics.busy_ns / (double)GS_SECOND / result->seconds;
}

static const double min_share_of_rate = 0.99;

bool gs_load_misses_rate(const struct load_result *result, const struct load_settings *settings)
{
    return result->sent_rate_per_s < min_share_of_rate * settings->rate;
}
