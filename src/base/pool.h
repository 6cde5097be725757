/* A pool of kernel threads for calls that block. The process has one, which its users share: the
 * runtime of user threads, and each loop that has work. Each kind of job has kernel threads of its
 * own, so that none waits for another: a name server that does not answer keeps no file waiting.
 *
 * A kernel thread is started when a job finds none that is idle, and ends when it has been idle for
 * ten seconds. A new job wakes the one that has become idle last, so that the others can end.
 *
 * A job that can be discarded may be abandoned by the one that waits for it. Its kernel thread
 * leaves the pool then, so that calls that take long keep no others waiting, nor the end of a
 * user. */
#ifndef GS_BASE_POOL_H
#define GS_BASE_POOL_H

#include "base/hidden.h"

#include <gossamer/list.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero at first. */
struct pool_user {
    unsigned max_threads; /* it starts none beyond so many of a kind; 0: what suits the kind */

    /* The pool's, guarded by its lock. */
    unsigned jobs;  /* submitted, and not completed, canceled or abandoned */
    unsigned forks; /* in which process they were submitted */
    bool is_releasing;
};

/* A call to be made by a kernel thread of the pool.
 *
 *     QUEUED -- work --> RUNNING -- work --> FINISHED     known of those with `discard` only
 *     QUEUED -- cancel: it is not made
 *     RUNNING -- cancel --> ABANDONED                     if there is `discard`
 *     LOST: it was submitted before a fork of the process
 */
enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_FINISHED, JOB_ABANDONED, JOB_LOST };

enum job_kind {
    JOB_CALL,       /* a function of the program's */
    JOB_FILE,       /* a call on an open file */
    JOB_PATH,       /* one on a path: a FIFO, or a file of another machine */
    JOB_NAME,       /* a look-up */
    JOB_LOCAL_NAME, /* one that needs no name server (gs_resolution_kind) */
    JOB_STREAM,     /* a call that is interrupted soon (interrupt.h) */
};
#define JOB_KINDS 6

struct job {
    enum job_kind kind;
    void (*fn)(void *argument);
    void *argument;
    /* Called by the kernel thread when fn has returned: the pool does not use the job any more. */
    void (*complete)(struct job *job);
    /* Free the job and the argument: so nobody need wait for the call. NULL: it is waited for. */
    void (*discard)(struct job *job);

    /* The pool's. */
    struct pool_user *user;
    pthread_t runner; /* the kernel thread, once the state is RUNNING */
    enum job_state state;
    bool is_detached; /* the runner no longer belongs to the pool */
    unsigned forks;
    struct gs_list link;
};

extern GS_HIDDEN uint64_t gs_pool_idle_ns; /* tests lower it */

/* How many kernel threads there are at most for a kind. wanted: by the user; 0: the default. */
unsigned gs_pool_max_threads(unsigned wanted, enum job_kind kind);

/* Use the pool. Returns 0 or -ENOMEM. */
int gs_pool_retain(struct pool_user *user);

/* Wait until the user's jobs are completed. The kernel threads end with the last user. */
void gs_pool_release(struct pool_user *user);

/* Returns 0, or -EAGAIN if the kind has no kernel thread at all; then nothing is called. */
int gs_pool_submit(struct pool_user *user, struct job *job);

/* Do not make the call if it has not started, and do not wait for it if it can be discarded.
 * Returns the state: QUEUED if it was not made; if it is ABANDONED, the job must not be used any
 * more. */
enum job_state gs_pool_cancel(struct job *job);

#endif
