/* All workers of a run, in one process or several. */
#ifndef GS_LOAD_CREW_H
#define GS_LOAD_CREW_H

#include "load/watch.h"
#include "load/worker.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

/* One process of a run of several. */
struct load_process {
    pid_t pid;
    int status;   /* as waitpid gives it */
    bool is_gone; /* it has ended, or was not to be waited for: */
    int err;      /* -errno */
};

struct load_crew {
    const struct load_settings *settings;
    size_t process_count, worker_count; /* processes, and workers of each */
    struct load_process *processes;     /* NULL: this one only */
    sigset_t signals_before;            /* SIGINT and SIGTERM are blocked until they are watched */
    struct load_worker *workers;        /* those of a process in a row; shared by processes */
    void **stores;                      /* of the workers' tallies; NULL: one process only */
    _Atomic(bool) *is_interrupted;      /* shared, too */
};

static inline struct load_worker *gs_load_crew_workers(const struct load_crew *crew, size_t process)
{
    return crew->workers + process * crew->worker_count;
}

/* Run the workers of one process, from start_ns on. Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_process_run(struct load_crew *crew, size_t process, uint64_t start_ns,
                                      bool shows_progress);

/* Make the processes, have them begin together, and wait for all of them. Returns 0 or -errno; it is
 * no error of this if some end badly. */
GS_MUST_CHECK int gs_load_processes_run(struct load_crew *crew);

#endif
