/* All workers of a run, in one process or several. */
#ifndef GS_LOAD_PROCESSES_H
#define GS_LOAD_PROCESSES_H

#include "load/worker.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

/* A child process of a run with several processes. */
struct load_process {
    pid_t pid;
    int status; /* as returned by waitpid */
    bool is_reaped;
    int err; /* -errno of waiting for it */
};

struct load_run {
    const struct load_settings *settings;
    size_t process_count, worker_count; /* processes, and workers per process */
    struct load_process *processes;     /* NULL: one process only */
    sigset_t saved_mask;                /* SIGINT and SIGTERM are blocked until a monitor waits */
    struct load_worker *workers;        /* shared memory; those of one process are adjacent */
    void **exports;                /* of the workers' metrics, shared; NULL: one process only */
    _Atomic(bool) *is_interrupted; /* shared memory */
    bool has_given_up;             /* no response arrived */
};

static inline struct load_worker *gs_load_process_workers(const struct load_run *run,
                                                          size_t process)
{
    return run->workers + process * run->worker_count;
}

/* Run the workers of one process in the calling process, from start_ns on. Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_run_process(struct load_run *run, size_t process, uint64_t start_ns);

/* Fork all processes, start them at the same time, and wait for them. Returns 0 or -errno; a
 * process that fails is reported by its status only. */
GS_MUST_CHECK int gs_load_run_processes(struct load_run *run);

#endif
