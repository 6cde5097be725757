/* gs_threads_run: the start and the end of the runtime, and its statistics. */
#include "thread/io/descriptors.h"
#include "thread/io/files.h"
#include "thread/report/report.h"
#include "thread/stack/shared_stack.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct runtime gs_runtime;
unsigned gs_threads_mode;

#define STACK_SIZE_DEFAULT ((size_t)56 << 10)
#define STACK_SIZE_SANITIZED ((size_t)256 << 10) /* frames are larger with sanitizers */

static int make_workers(void)
{
    unsigned count = gs_runtime.options.workers;
    gs_runtime.workers = calloc(count + EXTRA_WORKERS_MAX, sizeof *gs_runtime.workers);
    if (!gs_runtime.workers)
        return -ENOMEM;
    for (unsigned i = 0; i < count; i++) {
        int err = gs_worker_new(i, &gs_runtime.workers[i]);
        if (err)
            return err;
        gs_runtime.worker_count = i + 1;
    }
    return 0;
}

static void free_workers(void)
{
    unsigned max = gs_runtime.options.workers + EXTRA_WORKERS_MAX;
    gs_runtime.worker_count = 0;
    for (unsigned i = 0; gs_runtime.workers && i < max; i++)
        gs_worker_free(gs_runtime.workers[i]);
    free(gs_runtime.workers);
    gs_runtime.workers = NULL;
}

/* Nearly all signals are blocked: those of the process are handled by the program's own threads. */
int gs_worker_start(struct worker *worker)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = -pthread_create(&worker->kernel_thread, NULL, gs_worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    worker->is_started = !err;
    return err;
}

/* Start all workers but the first, and the monitor. */
static int start_workers(void)
{
    int err = 0;
    for (unsigned i = 1; !err && i < gs_runtime.options.workers; i++)
        err = gs_worker_start(gs_runtime.workers[i]);
    return err ? err : gs_monitor_start();
}

static void stop_workers(void)
{
    atomic_store(&gs_runtime.is_stopping, true);
    gs_monitor_stop();
    for (unsigned i = 1; i < gs_runtime.worker_count; i++)
        gs_loop_wake(gs_runtime.workers[i]->loop);
    for (unsigned i = 1; i < gs_runtime.worker_count; i++)
        if (gs_runtime.workers[i]->is_started)
            pthread_join(gs_runtime.workers[i]->kernel_thread, NULL);
}

static int result_of_workers(void)
{
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        if (gs_runtime.workers[i]->result)
            return gs_runtime.workers[i]->result;
    return gs_runtime.is_deadlocked ? -EDEADLK : 0;
}

struct first {
    gs_thread_fn *fn;
    void *argument, *result;
};

static void *run_first(void *argument)
{
    struct first *first = argument;
    first->result = first->fn(first->argument);
    return NULL;
}

/* The first thread is spawned before any worker runs. */
static int run(struct first *first)
{
    const struct gs_thread_attributes attributes = {.name = "first", .worker = 1};
    int err = gs_blocking_start();
    if (err)
        return err;
    err = gs_thread_spawn(&attributes, run_first, first, NULL);
    if (!err)
        err = start_workers();
    if (!err)
        gs_worker_main(gs_runtime.workers[0]);
    stop_workers();
    gs_blocking_end();
    /* Kernel threads that are no workers may have just woken a thread, and still use a worker's
     * loop. */
    while (atomic_load(&gs_runtime.entering))
        gs_spin_pause();
    return err ? err : result_of_workers();
}

void gs_runtime_set_multi(bool is_multi)
{
    gs_runtime.is_multi = is_multi;
    gs_threads_mode = is_multi ? GS_THREADS_MULTI : 0;
    if (!gs_runtime.uses_gsbase)
        gs_threads_mode |= GS_THREADS_NO_GS;
    if (!is_multi && atomic_load(&gs_runtime.shares_stacks))
        gs_threads_mode |= GS_THREADS_SHARED_STACKS;
}

static void set_options(const struct gs_threads_options *options)
{
    gs_runtime.options = options ? *options : (struct gs_threads_options){0};
    gs_runtime.options.workers += !gs_runtime.options.workers;
    atomic_store(&gs_runtime.shares_stacks, false);
    gs_runtime_set_multi(gs_runtime.options.workers > 1);
    gs_runtime.is_worker_in_register = gs_runtime.uses_gsbase;
    gs_runtime.worker_count = 0;
    atomic_store(&gs_runtime.enabled_extra_workers, 0);
    atomic_store(&gs_runtime.is_monitor_asleep, false);
    atomic_store(&gs_runtime.is_any_stuck, false);
    gs_runtime.tells_asan = gs_asan_is_in_program();
    if (!gs_runtime.options.stack_size)
        gs_runtime.options.stack_size =
            GS_ASAN || GS_TSAN || gs_runtime.tells_asan ? STACK_SIZE_SANITIZED : STACK_SIZE_DEFAULT;
    gs_runtime.is_deadlocked = false;
    atomic_store(&gs_runtime.is_stopping, false);
    atomic_store(&gs_runtime.idle, 0);
    atomic_store(&gs_runtime.nonworker_spawns, 0);
    atomic_store(&gs_runtime.canceling_all, 0);
    gs_list_init(&gs_runtime.user_stack_threads);
    pthread_sigmask(SIG_SETMASK, NULL, &gs_runtime.signals);
    CHECKED_REPORT_TO(options && options->report_fd ? options->report_fd : STDERR_FILENO);
}

int gs_threads_run(const struct gs_threads_options *options, gs_thread_fn *fn, void *argument,
                   void **ret_result)
{
    struct first first = {.fn = fn, .argument = argument};
    if (atomic_exchange(&gs_runtime.is_running, true))
        return -EBUSY;
    set_options(options);
    bool is_valid = gs_runtime.options.workers <= WORKERS_MAX &&
                    gs_stacks_class(gs_runtime.options.stack_size) >= 0;
    int err = is_valid ? gs_stacks_init() : -EINVAL;
    if (!err)
        err = make_workers();
    if (!err)
        err = gs_reports_start();
    if (!err) {
        err = run(&first);
        gs_reports_stop();
    }
    free_workers();
    gs_descriptors_done();
    gs_files_reset();
    gs_stacks_reclaim();
    CHECKED_REPORT_TO(STDERR_FILENO);
    gs_runtime.is_worker_in_register = false;
    atomic_store(&gs_runtime.is_running, false);
    if (!err && ret_result)
        *ret_result = first.result;
    return err;
}

static void add_stats(struct worker *worker, struct gs_threads_stats *stats)
{
    stats->spawned += count_read(&worker->spawned);
    stats->switches += count_read(&worker->switches);
    stats->steals += count_read(&worker->steals);
    stats->polls += count_read(&worker->polls);
    stats->ready += count_read(&worker->ready) + atomic_load(&worker->shared.count);
    stats->stuck += count_read(&worker->stuck_count);
    gs_shared_stacks_add_stats(worker, stats);
}

void gs_threads_stats(struct gs_threads_stats *ret_stats)
{
    struct gs_threads_stats stats = {.stacks = gs_stacks_count()};
    uint64_t ended = 0;
    stats.spawned = atomic_load(&gs_runtime.nonworker_spawns);
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        add_stats(gs_runtime.workers[i], &stats);
        ended += count_read(&gs_runtime.workers[i]->ended);
    }
    stats.live = stats.spawned - ended;
    *ret_stats = stats;
}

int gs_threads_worker_stats(unsigned worker, struct gs_threads_stats *ret_stats)
{
    if (!worker || worker > gs_runtime.worker_count)
        return -EINVAL;
    *ret_stats = (struct gs_threads_stats){0};
    add_stats(gs_runtime.workers[worker - 1], ret_stats);
    return 0;
}

const char *gs_threads_poller(void)
{
    CHECKED_WORKER();
    return gs_loop_poller(worker_current()->loop);
}
