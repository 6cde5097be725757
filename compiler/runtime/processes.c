/* Calls that start other programs, which inherit the signals that the thread blocks: not those that
 * its worker, or a kernel thread of the pool, blocks. */
#include "compiler/runtime/masks.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

FILE *gs_cc_popen_as_is(const char *command, const char *mode)
{
    const sigset_t before = gs_cc_masks_lend();
    FILE *file = popen(command, mode); /* NOLINT(cert-env33-c): the program calls it */
    gs_cc_masks_return(&before);
    return file;
}

int gs_cc_posix_spawn(pid_t *ret_process, const char *path,
                      const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attributes, char *const *arguments,
                      char *const *environment)
{
    const sigset_t before = gs_cc_masks_lend();
    int err = posix_spawn(ret_process, path, actions, attributes, arguments, environment);
    gs_cc_masks_return(&before);
    return err;
}

int gs_cc_posix_spawnp(pid_t *ret_process, const char *file,
                       const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const *arguments,
                       char *const *environment)
{
    const sigset_t before = gs_cc_masks_lend();
    int err = posix_spawnp(ret_process, file, actions, attributes, arguments, environment);
    gs_cc_masks_return(&before);
    return err;
}

/* ---- Commands: a kernel thread of the pool waits for them ----
 * Meanwhile the process ignores SIGINT and SIGQUIT.
 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned running;
static const int ignored[] = {SIGINT, SIGQUIT};
static struct sigaction actions[2];

static void ignore_signals(sigset_t *ret_default)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(ret_default);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 2; i++) {
        if (!running)
            sigaction(ignored[i], &ignore, &actions[i]);
        if (actions[i].sa_handler != SIG_IGN)
            sigaddset(ret_default, ignored[i]);
    }
    running++;
    pthread_mutex_unlock(&lock);
}

static void restore_signals(void)
{
    pthread_mutex_lock(&lock);
    if (!--running)
        for (int i = 0; i < 2; i++)
            sigaction(ignored[i], &actions[i], NULL);
    pthread_mutex_unlock(&lock);
}

static pid_t start(const char *command, const sigset_t *mask, const sigset_t *defaults)
{
    posix_spawnattr_t attributes;
    pid_t child;
    char *arguments[] = {"sh", "-c", "--", (char *)command, NULL};
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setsigdefault(&attributes, defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int err = posix_spawn(&child, "/bin/sh", NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    return err ? -err : child;
}

static int run_command(const char *command, const sigset_t *mask)
{
    enum { NO_SHELL = 127 << 8 };
    sigset_t defaults;
    int status = NO_SHELL;
    pid_t ended = 0;
    ignore_signals(&defaults);
    pid_t child = start(command, mask, &defaults);
    if (child > 0)
        while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR)
            continue;
    int err = child < 0 ? -child : errno;
    restore_signals();
    errno = err;
    return ended < 0 ? -1 : status;
}

struct command {
    const char *text;
    sigset_t mask;
    int status;
};

static void run(void *argument)
{
    struct command *command = argument;
    command->status = run_command(command->text, &command->mask);
}

int gs_cc_system(const char *text)
{
    struct thread *self = thread_self();
    struct command *command = NULL;
    if (!self || !text)
        return system(text); /* NOLINT(cert-env33-c): the program calls it */
    if (gs_cc_test_cancel(self))
        return 0;
    if (self->phase == PHASE_NEW) {
        command = gs_cc_box(sizeof *command);
        *command = (struct command){text, gs_cc_signal_set(gs_cc_mask_of(self)), 0};
    }
    command = gs_cc_in_pool(run, command);
    if (!command)
        return 0;
    int status = command->status;
    gs_cc_box_free(command, sizeof *command);
    return status;
}
