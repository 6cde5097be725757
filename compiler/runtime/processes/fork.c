/* A fork: in the child the calling thread goes on as the only one. */
#include "compiler/runtime/io/stream.h"
#include "compiler/runtime/locks/shared_mutex.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/threads/attributes.h"

#include <fcntl.h>
#include <gossamer/io.h>
#include <paths.h>
#include <stdlib.h>
#include <unistd.h>

/* Handlers of pthread_atfork run in the thread, as any other function of the program. */
static void before_fork(void *argument)
{
    leave_stack(argument);
}

static void in_parent(void *argument)
{
    return_to_stack(argument);
}

/* The child's runtime has discarded all threads but the one with a stack that has called. */
static void in_child(void *argument)
{
    struct thread *self = argument;
    return_to_stack(self);
    gs_cc_workers = 1;
    if (atomic_load(&self->join) != JOIN_DETACHED)
        atomic_store(&self->join, JOIN_NONE); /* who has waited for it is not there */
    gs_cc_streams_after_fork(self);
    gs_cc_words_after_fork();
    gs_cc_attributes_after_fork(self);
    gs_cc_shared_after_fork(self);
    gs_cc_libraries_after_fork();
    gs_resumable_init(&self->resumable, self->resumable.resume);
    if (gs_resumable_start(&self->resumable, 0))
        abort();
    gs_cc_signals_start(self, true);
}

static pid_t fork_on_stack(struct thread *self)
{
    static const struct gs_fork_functions functions = {before_fork, in_parent, in_child};
    return gs_fork_with(&functions, self);
}

struct fork {
    struct thread *self;
    pid_t pid;
    bool is_daemon, keeps_directory, keeps_files;
};

static void become_daemon(const struct fork *fork)
{
    int null = fork->keeps_files ? -1 : open(_PATH_DEVNULL, O_RDWR);
    if (setsid() < 0)
        _exit(EXIT_FAILURE);
    if (!fork->keeps_directory && chdir("/"))
        _exit(EXIT_FAILURE);
    for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    if (null > STDERR_FILENO)
        close(null);
}

static void run_fork(void *argument)
{
    struct fork *fork = argument;
    fork->pid = fork_on_stack(fork->self);
    if (fork->is_daemon && fork->pid > 0)
        _exit(EXIT_SUCCESS);
    if (fork->is_daemon && !fork->pid)
        become_daemon(fork);
}

/* What it does is kept in the thread's progress meanwhile. */
static pid_t fork_as(const struct fork *wanted)
{
    struct thread *self = wanted->self;
    struct fork *fork = (struct fork *)self->progress;
    if (self->stack || self->phase == PHASE_NEW) {
        fork = gs_cc_box(sizeof *fork);
        *fork = *wanted;
        self->progress = self->stack ? 0 : (size_t)fork;
    }
    gs_cc_call_on_stack(run_fork, fork);
    if (gs_cc_state.suspending)
        return 0;
    pid_t pid = fork->pid;
    gs_cc_box_free(fork, sizeof *fork);
    if (pid >= 0)
        return pid;
    errno = -pid;
    return -1;
}

pid_t gs_cc_fork(void)
{
    struct thread *self = thread_self();
    return self ? fork_as(&(struct fork){.self = self}) : fork();
}

/* The child has memory of its own, and the parent does not wait for it: vfork may do so. */
pid_t gs_cc_vfork(void) ALIAS(gs_cc_fork);

int gs_cc_daemon(int keeps_directory, int keeps_files)
{
    struct thread *self = thread_self();
    if (!self)
        return daemon(keeps_directory, keeps_files);
    return fork_as(&(struct fork){.self = self,
                                  .is_daemon = true,
                                  .keeps_directory = keeps_directory != 0,
                                  .keeps_files = keeps_files != 0}) < 0
               ? -1
               : 0;
}
