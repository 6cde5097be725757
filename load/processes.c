/* A run of several processes, since one may not have as many files open as there are connections.
 * They are forked before any thread runs; what they count stands in memory that all share, and they
 * begin when all are there. This one makes no requests: it waits for the others, passes on the
 * signals that end the run, and shows how far it is. */
#include "load/crew.h"

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

/* ---- In the processes made ---- */

/* fd: a pipe that tells when to begin, and ends if the run does not. */
static _Noreturn void be_process(struct load_crew *crew, size_t index, int fd)
{
    uint64_t start_ns;
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGTERM, 0UL, 0UL, 0UL);
    /* One of them is enough: whoever ends the run may signal all processes, or just the first. Until
     * they are watched they are blocked, and kept though they are to be ignored, but for one that has
     * come before this. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    if (atomic_load(crew->is_interrupted))
        raise(SIGTERM);
    if (gs_sys_read(fd, &start_ns, sizeof start_ns) != sizeof start_ns)
        _exit(EXIT_FAILURE);
    gs_sys_close(fd);
    int err = gs_load_process_run(crew, index, start_ns, false);
    for (size_t i = index * crew->worker_count; i < (index + 1) * crew->worker_count; i++)
        gs_load_tally_put(&crew->workers[i].tally, crew->stores[i]);
    if (err)
        fprintf(stderr, "%s: process %zu failed: %s\n", gs_load_command.name, index + 1,
                strerror(-err));
    _exit(err ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* ---- In the one that makes them ---- */

static void interrupt(void *data)
{
    struct load_crew *crew = data;
    atomic_store(crew->is_interrupted, true);
    for (size_t i = 0; i < crew->process_count; i++) {
        if (!crew->processes[i].is_gone)
            kill(crew->processes[i].pid, SIGTERM);
    }
}

static struct load_counts count_so_far(void *data)
{
    const struct load_crew *crew = data;
    struct load_counts counts = {0};
    for (size_t i = 0; i < crew->process_count * crew->worker_count; i++) {
        uint64_t requests, errors;
        gs_load_tally_count(&crew->workers[i].tally, &requests, &errors);
        counts.requests += requests;
        counts.errors += errors;
    }
    return counts;
}

static void *await_process(void *argument)
{
    struct load_process *process = argument;
    process->err = gs_wait_child(process->pid, GS_NEVER, &process->status);
    process->is_gone = true;
    return NULL;
}

struct supervision {
    struct load_crew *crew;
    int err;
};

static int await_all(struct load_crew *crew)
{
    struct gs_thread *threads[LOAD_MOST_PROCESSES];
    size_t started = 0;
    int err = 0;
    while (!err && started < crew->process_count) {
        err = gs_thread_spawn(NULL, await_process, &crew->processes[started], &threads[started]);
        started += !err;
    }
    if (err)
        interrupt(crew);
    for (size_t i = 0; i < started; i++)
        (void)!gs_thread_join(threads[i], GS_NEVER, NULL);
    for (size_t i = 0; !err && i < started; i++)
        err = crew->processes[i].err;
    return err;
}

static void *supervise(void *argument)
{
    struct supervision *supervision = argument;
    struct load_crew *crew = supervision->crew;
    struct load_watch watch = {.interrupt = interrupt, .count = count_so_far, .data = crew};
    supervision->err = gs_load_watch_start(&watch, &crew->signals_before);
    if (supervision->err) {
        interrupt(crew);
        return NULL;
    }
    supervision->err = await_all(crew);
    gs_load_watch_stop(&watch);
    return NULL;
}

/* Those that were made before one could not be have the pipe to wait for. */
static int fork_all(struct load_crew *crew, const int pipe[2], size_t *ret_made)
{
    for (*ret_made = 0; *ret_made < crew->process_count; ++*ret_made) {
        pid_t pid = fork();
        if (pid < 0)
            return -errno;
        if (pid == 0) {
            gs_sys_close(pipe[1]);
            be_process(crew, *ret_made, pipe[0]);
        }
        crew->processes[*ret_made].pid = pid;
    }
    return 0;
}

static int begin_all(struct load_crew *crew, int fd)
{
    uint64_t start_ns = gs_clock_now() + crew->process_count * GS_MILLISECOND;
    for (size_t i = 0; i < crew->process_count; i++) {
        ssize_t n = gs_sys_write(fd, &start_ns, sizeof start_ns);
        if (n != sizeof start_ns)
            return n < 0 ? (int)n : -EIO;
    }
    return 0;
}

int gs_load_processes_run(struct load_crew *crew)
{
    struct supervision supervision = {.crew = crew};
    int pipe[2];
    size_t made;
    int err = gs_sys_pipe2(pipe, O_CLOEXEC);
    if (err)
        return err;
    err = fork_all(crew, pipe, &made);
    gs_sys_close(pipe[0]);
    if (!err)
        err = begin_all(crew, pipe[1]);
    gs_sys_close(pipe[1]);
    if (!err)
        err = gs_threads_run(NULL, supervise, &supervision, NULL);
    if (!err)
        err = supervision.err;
    for (size_t i = 0; i < made; i++) {
        struct load_process *process = &crew->processes[i];
        if (!process->is_gone || process->err)
            gs_sys_wait4(process->pid, &process->status, 0);
    }
    return err;
}
