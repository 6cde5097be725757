#include "load/processes.h"

#include "load/idle_spin.h"
#include "load/monitor.h"

#include <gossamer/io.h>
#include <gossamer/sys.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct load_counts sum_counts(const struct load_worker *workers, size_t count)
{
    struct load_counts sum = {0};
    for (size_t i = 0; i < count; i++) {
        uint64_t requests, errors;
        gs_load_metrics_read_counts(&workers[i].metrics, &requests, &errors);
        sum.requests += requests;
        sum.errors += errors;
        sum.has_answer |= atomic_load_explicit(&workers[i].has_answer, memory_order_relaxed);
    }
    return sum;
}

/* A response may take the timeout, so that no run gives up earlier. */
static uint64_t give_up_ns(const struct load_settings *settings)
{
    uint64_t least_ns = settings->timeout_ns == GS_NEVER ? 0 : settings->timeout_ns;
    return settings->give_up_ns && settings->give_up_ns < least_ns ? least_ns
                                                                   : settings->give_up_ns;
}

/* ---- One process: its workers are kernel threads of the runtime ---- */

/* A worker that is kept for longer by one client is reported. */
#define STUCK_NS (100 * GS_MILLISECOND)

/* The user thread that runs a worker. It has high priority, as thousands of clients are in the same
 * run queue. */
struct worker_thread {
    struct process *process;
    struct gs_thread *thread;
    unsigned number; /* of the worker, from 1 */
    int err;
};

struct process {
    struct load_run *run;
    struct load_worker *workers;
    struct worker_thread *threads;
    size_t started;
    uint64_t start_ns;
    int err;
};

static void *run_worker(void *argument)
{
    struct worker_thread *thread = argument;
    struct process *process = thread->process;
    struct load_worker *worker = &process->workers[thread->number - 1];
    thread->err = gs_load_worker_run(worker, thread->number, process->start_ns);
    return NULL;
}

/* Replaces the runtime's wait for events. A worker that the runtime added on its own has no
 * clients. */
static int wait_for_events(struct gs_loop *loop, unsigned number, void *data)
{
    struct process *process = data;
    if (number > process->run->worker_count)
        return gs_loop_run_once(loop, GS_NEVER);
    return gs_load_busy_poll_wait(&process->workers[number - 1].poll, loop);
}

static void cancel_workers(struct process *process)
{
    for (size_t i = 0; i < process->started; i++)
        gs_thread_cancel(process->threads[i].thread);
}

static void interrupt_workers(void *data)
{
    struct process *process = data;
    atomic_store(process->run->is_interrupted, true);
    cancel_workers(process);
}

static void give_up_workers(void *data)
{
    struct process *process = data;
    process->run->has_given_up = true;
    cancel_workers(process);
}

static struct load_counts read_process_counts(void *data)
{
    const struct process *process = data;
    return sum_counts(process->workers, process->run->worker_count);
}

static int start_workers(struct process *process)
{
    size_t *started = &process->started;
    int err = 0;
    while (!err && *started < process->run->worker_count) {
        struct worker_thread *thread = &process->threads[*started];
        thread->process = process;
        thread->number = (unsigned)*started + 1;
        const struct gs_thread_attributes attributes = {
            .name = "worker", .priority = GS_PRIORITY_HIGH, .worker = thread->number};
        err = gs_thread_spawn(&attributes, run_worker, thread, &thread->thread);
        *started += !err;
    }
    return err;
}

static void *run_workers(void *argument)
{
    struct process *process = argument;
    struct load_run *run = process->run;
    bool is_only_process = !run->processes;
    struct load_monitor monitor = {.on_interrupt = interrupt_workers,
                                   .read_counts = is_only_process ? read_process_counts : NULL,
                                   .on_give_up = give_up_workers,
                                   .give_up_ns = give_up_ns(run->settings),
                                   .data = process};
    process->err = gs_load_monitor_start(&monitor, &run->saved_mask);
    if (process->err)
        return NULL;
    process->err = start_workers(process);
    if (process->err)
        cancel_workers(process);
    for (size_t i = 0; i < process->started; i++) {
        (void)!gs_thread_join(process->threads[i].thread, GS_NEVER, NULL);
        if (!process->err)
            process->err = process->threads[i].err;
    }
    gs_load_monitor_stop(&monitor);
    return NULL;
}

int gs_load_run_process(struct load_run *run, size_t index, uint64_t start_ns)
{
    struct process process = {.run = run,
                              .workers = gs_load_process_workers(run, index),
                              .threads = calloc(run->worker_count, sizeof *process.threads),
                              .start_ns = start_ns};
    const struct gs_threads_options options = {.workers = (unsigned)run->worker_count,
                                               .stuck_ns = STUCK_NS,
                                               .wait = wait_for_events,
                                               .wait_data = &process};
    struct load_idle_spin spin;
    if (!process.threads)
        return -ENOMEM;
    int err =
        gs_load_idle_spin_start(&spin, run->settings->spins_when_idle ? run->worker_count : 0);
    if (!err) {
        err = gs_threads_run(&options, run_workers, &process, NULL);
        gs_load_idle_spin_stop(&spin);
    }
    free(process.threads);
    return err ? err : process.err;
}

/* ---- Several processes: the child ---- */

/* A process may not have as many open files as there are connections. Children are forked before
 * any thread runs; they count in shared memory, and start at the same time. The parent makes no
 * requests: it waits for the children, forwards SIGINT and SIGTERM, and shows the progress. */

/* fd: a pipe that delivers the start time, and is at end of file if the run failed. */
static _Noreturn void run_child(struct load_run *run, size_t index, int fd)
{
    uint64_t start_ns;
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGTERM, 0UL, 0UL, 0UL);
    /* Signals may be sent to the process group or to the parent only, so that a child may receive
     * two: the second is ignored. Both are blocked until the monitor waits for them, and a blocked
     * signal stays pending though it is ignored. Setting SIG_IGN discards a signal that is pending
     * already, which is_interrupted shows. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    if (atomic_load(run->is_interrupted))
        raise(SIGTERM);
    if (gs_sys_read(fd, &start_ns, sizeof start_ns) != sizeof start_ns)
        _exit(EXIT_FAILURE);
    gs_sys_close(fd);
    int err = gs_load_run_process(run, index, start_ns);
    for (size_t i = index * run->worker_count; i < (index + 1) * run->worker_count; i++)
        gs_load_metrics_export(&run->workers[i].metrics, run->exports[i]);
    if (err)
        fprintf(stderr, "%s: process %zu failed: %s\n", gs_load_command.name, index + 1,
                strerror(-err));
    _exit(err ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* ---- Several processes: the parent ---- */

static void interrupt_children(void *data)
{
    struct load_run *run = data;
    atomic_store(run->is_interrupted, true);
    for (size_t i = 0; i < run->process_count; i++) {
        if (!run->processes[i].is_reaped)
            kill(run->processes[i].pid, SIGTERM);
    }
}

static void give_up_children(void *data)
{
    struct load_run *run = data;
    run->has_given_up = true;
    interrupt_children(run);
}

static struct load_counts read_run_counts(void *data)
{
    const struct load_run *run = data;
    return sum_counts(run->workers, run->process_count * run->worker_count);
}

static void *wait_for_child(void *argument)
{
    struct load_process *process = argument;
    process->err = gs_wait_child(process->pid, GS_NEVER, &process->status);
    process->is_reaped = true;
    return NULL;
}

static int wait_for_children(struct load_run *run)
{
    struct gs_thread *threads[LOAD_PROCESSES_MAX];
    size_t started = 0;
    int err = 0;
    while (!err && started < run->process_count) {
        err = gs_thread_spawn(NULL, wait_for_child, &run->processes[started], &threads[started]);
        started += !err;
    }
    if (err)
        interrupt_children(run);
    for (size_t i = 0; i < started; i++)
        (void)!gs_thread_join(threads[i], GS_NEVER, NULL);
    for (size_t i = 0; !err && i < started; i++)
        err = run->processes[i].err;
    return err;
}

struct supervision {
    struct load_run *run;
    int err;
};

static void *supervise(void *argument)
{
    struct supervision *supervision = argument;
    struct load_run *run = supervision->run;
    struct load_monitor monitor = {.on_interrupt = interrupt_children,
                                   .read_counts = read_run_counts,
                                   .on_give_up = give_up_children,
                                   .give_up_ns = give_up_ns(run->settings),
                                   .data = run};
    supervision->err = gs_load_monitor_start(&monitor, &run->saved_mask);
    if (supervision->err) {
        interrupt_children(run);
        return NULL;
    }
    supervision->err = wait_for_children(run);
    gs_load_monitor_stop(&monitor);
    return NULL;
}

/* If fork fails, the children forked before see the end of the pipe, and exit. */
static int fork_children(struct load_run *run, const int pipe[2], size_t *ret_forked)
{
    for (*ret_forked = 0; *ret_forked < run->process_count; ++*ret_forked) {
        pid_t pid = fork();
        if (pid < 0)
            return -errno;
        if (pid == 0) {
            gs_sys_close(pipe[1]);
            run_child(run, *ret_forked, pipe[0]);
        }
        run->processes[*ret_forked].pid = pid;
    }
    return 0;
}

static int start_children(struct load_run *run, int fd)
{
    uint64_t start_ns = gs_clock_now() + run->process_count * GS_MILLISECOND;
    for (size_t i = 0; i < run->process_count; i++) {
        ssize_t n = gs_sys_write(fd, &start_ns, sizeof start_ns);
        if (n != sizeof start_ns)
            return n < 0 ? (int)n : -EIO;
    }
    return 0;
}

int gs_load_run_processes(struct load_run *run)
{
    struct supervision supervision = {.run = run};
    int pipe[2];
    size_t forked;
    int err = gs_sys_pipe2(pipe, O_CLOEXEC);
    if (err)
        return err;
    err = fork_children(run, pipe, &forked);
    gs_sys_close(pipe[0]);
    if (!err)
        err = start_children(run, pipe[1]);
    gs_sys_close(pipe[1]);
    if (!err)
        err = gs_threads_run(NULL, supervise, &supervision, NULL);
    if (!err)
        err = supervision.err;
    for (size_t i = 0; i < forked; i++) {
        struct load_process *process = &run->processes[i];
        if (!process->is_reaped || process->err)
            gs_sys_wait4(process->pid, &process->status, 0);
    }
    return err;
}
