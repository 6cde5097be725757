#include "load/run.h"

#include "load/crew.h"

#include <gossamer/sys.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

static size_t worker_total(const struct load_crew *crew)
{
    return crew->process_count * crew->worker_count;
}

/* ---- Memory ---- */

/* NULL: none was to be had. */
static void *share(size_t size)
{
    long address = gs_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    return address < 0 && address > -4096 ? NULL : (void *)address;
}

static void unshare_memory(void *memory, size_t size)
{
    if (memory)
        gs_sys_munmap(memory, size);
}

static size_t workers_size(const struct load_crew *crew)
{
    return worker_total(crew) * sizeof *crew->workers;
}

static int make_workers(struct load_crew *crew, const struct load_target *target)
{
    size_t count = worker_total(crew);
    crew->is_interrupted = share(sizeof *crew->is_interrupted);
    crew->workers = share(workers_size(crew));
    if (!crew->is_interrupted || !crew->workers)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct load_share part = {.index = i, .count = count};
        int err = gs_load_worker_init(&crew->workers[i], crew->settings, target, part);
        if (err)
            return err;
    }
    return 0;
}

static int make_stores(struct load_crew *crew)
{
    size_t count = worker_total(crew);
    if (crew->process_count == 1)
        return 0;
    crew->processes = calloc(crew->process_count, sizeof *crew->processes);
    crew->stores = calloc(count, sizeof *crew->stores);
    if (!crew->processes || !crew->stores)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        crew->stores[i] = share(gs_load_tally_store_size(&crew->workers[i].tally));
        if (!crew->stores[i])
            return -ENOMEM;
    }
    return 0;
}

static void done(struct load_crew *crew)
{
    for (size_t i = 0; crew->workers && i < worker_total(crew); i++) {
        if (crew->stores)
            unshare_memory(crew->stores[i], gs_load_tally_store_size(&crew->workers[i].tally));
        gs_load_worker_done(&crew->workers[i]);
    }
    unshare_memory(crew->workers, workers_size(crew));
    unshare_memory(crew->is_interrupted, sizeof *crew->is_interrupted);
    free(crew->stores);
    free(crew->processes);
}

/* ---- The sum ---- */

/* The last one that died is named. */
static void judge_process(const struct load_crew *crew, size_t index, struct load_result *result)
{
    const struct load_process *process = &crew->processes[index];
    bool is_killed = WIFSIGNALED(process->status);
    result->is_void = true;
    snprintf(result->void_reason, sizeof result->void_reason,
             "process %zu of %zu ended early, with %s %d; what it counted is lost", index + 1,
             crew->process_count, is_killed ? "signal" : "status",
             is_killed ? WTERMSIG(process->status) : WEXITSTATUS(process->status));
}

/* The tallies of processes that ended as they should. Returns how many tallies. */
static size_t collect(const struct load_crew *crew, struct load_worker **workers,
                      struct load_result *result)
{
    size_t count = 0;
    for (size_t i = 0; i < worker_total(crew); i++) {
        size_t process = i / crew->worker_count;
        if (crew->processes && crew->processes[process].status) {
            judge_process(crew, process, result);
            continue;
        }
        if (crew->stores)
            gs_load_tally_take(&crew->workers[i].tally, crew->stores[i]);
        workers[count++] = &crew->workers[i];
    }
    return count;
}

static double busy_part(const struct load_worker *worker)
{
    double all = (double)(worker->ended_ns - worker->begun_ns);
    return all > 0 ? 1 - (double)worker->idle_ns / all : 0;
}

static void add_times(struct load_result *result, struct load_worker *const *workers, size_t count)
{
    uint64_t begun_ns = UINT64_MAX, ended_ns = 0, cpu_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const struct load_worker *worker = workers[i];
        double busy = busy_part(worker);
        begun_ns = worker->begun_ns < begun_ns ? worker->begun_ns : begun_ns;
        ended_ns = worker->ended_ns > ended_ns ? worker->ended_ns : ended_ns;
        cpu_ns += worker->cpu_ns;
        result->busiest = busy > result->busiest ? busy : result->busiest;
    }
    if (!count)
        begun_ns = ended_ns = gs_clock_now();
    result->begun_wall_ns = gs_clock_wall() - (gs_clock_now() - begun_ns);
    result->seconds = (double)(ended_ns - begun_ns) / (double)GS_SECOND;
    result->client_cpu_s = (double)cpu_ns / (double)GS_SECOND;
}

static int sum_up(const struct load_crew *crew, struct load_result *result)
{
    struct load_worker **workers = calloc(worker_total(crew), sizeof *workers);
    const struct load_tally **tallies = calloc(worker_total(crew), sizeof *tallies);
    int err = workers && tallies ? gs_load_tally_init(&result->tally, 0) : -ENOMEM;
    if (err)
        goto free_both;
    size_t count = collect(crew, workers, result);
    for (size_t i = 0; i < count; i++)
        tallies[i] = &workers[i]->tally;
    add_times(result, workers, count);
    result->is_interrupted = atomic_load(crew->is_interrupted);
    err = gs_load_tally_merge(&result->tally, tallies, count);
    if (err)
        gs_load_tally_done(&result->tally);
    else if (!result->is_void)
        gs_load_result_judge(result, crew->settings);

free_both:
    free(tallies);
    free(workers);
    return err;
}

/* ---- The run ---- */

static int drive(struct load_crew *crew, const struct load_target *target)
{
    sigset_t ending;
    int err = make_workers(crew, target);
    if (!err)
        err = make_stores(crew);
    if (err)
        return err;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ending, &crew->signals_before);
    err = crew->processes ? gs_load_processes_run(crew)
                          : gs_load_process_run(crew, 0, gs_clock_now(), true);
    pthread_sigmask(SIG_SETMASK, &crew->signals_before, NULL);
    return err;
}

int gs_load_run(const struct load_settings *settings, const struct load_target *target,
                struct load_result *ret_result)
{
    struct load_crew crew = {.settings = settings,
                             .process_count = (size_t)settings->processes,
                             .worker_count = (size_t)settings->workers};
    struct load_result result = {0};
    int err = drive(&crew, target);
    if (!err)
        err = sum_up(&crew, &result);
    done(&crew);
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
    return result->tally.busy_ns / (double)GS_SECOND / result->seconds;
}
