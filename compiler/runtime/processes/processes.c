/* Calls that start other programs, which inherit the signals that the thread blocks: not those that
 * its worker, or a kernel thread of the pool, blocks. */
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/threads/pool.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
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

/* ---- Programs in place of this one ---- */

int gs_cc_execve(const char *path, char *const *arguments, char *const *environment)
{
    const sigset_t before = gs_cc_masks_lend();
    int result = execve(path, arguments, environment);
    gs_cc_masks_return(&before);
    return result;
}

int gs_cc_execv(const char *path, char *const *arguments)
{
    return gs_cc_execve(path, arguments, environ);
}

int gs_cc_execvpe(const char *file, char *const *arguments, char *const *environment)
{
    const sigset_t before = gs_cc_masks_lend();
    int result = execvpe(file, arguments, environment);
    gs_cc_masks_return(&before);
    return result;
}

int gs_cc_execvp(const char *file, char *const *arguments)
{
    return gs_cc_execvpe(file, arguments, environ);
}

int gs_cc_fexecve(int fd, char *const *arguments, char *const *environment)
{
    const sigset_t before = gs_cc_masks_lend();
    int result = fexecve(fd, arguments, environment);
    gs_cc_masks_return(&before);
    return result;
}

int gs_cc_execveat(int directory, const char *path, char *const *arguments,
                   char *const *environment, int flags)
{
    const sigset_t before = gs_cc_masks_lend();
    int result = execveat(directory, path, arguments, environment, flags);
    gs_cc_masks_return(&before);
    return result;
}

/* With arguments up to NULL, and the environment behind it. */
static int execute(int (*call)(const char *, char *const *, char *const *), const char *path,
                   const char *first, va_list *others, bool has_environment)
{
    va_list counted;
    size_t n = 1;
    va_copy(counted, *others);
    for (const char *at = first; at; at = va_arg(counted, const char *))
        n++;
    va_end(counted);
    char **arguments = malloc(n * sizeof *arguments);
    if (!arguments)
        return -1;
    arguments[0] = (char *)first;
    for (size_t i = 1; i < n; i++)
        arguments[i] = va_arg(*others, char *);
    int result = call(path, arguments, has_environment ? va_arg(*others, char *const *) : environ);
    int err = errno;
    free(arguments);
    errno = err;
    return result;
}

int gs_cc_execl(const char *path, const char *first, ...)
{
    va_list others;
    va_start(others, first);
    int result = execute(gs_cc_execve, path, first, &others, false);
    va_end(others);
    return result;
}

int gs_cc_execle(const char *path, const char *first, ...)
{
    va_list others;
    va_start(others, first);
    int result = execute(gs_cc_execve, path, first, &others, true);
    va_end(others);
    return result;
}

int gs_cc_execlp(const char *file, const char *first, ...)
{
    va_list others;
    va_start(others, first);
    int result = execute(gs_cc_execvpe, file, first, &others, false);
    va_end(others);
    return result;
}

/* ---- Commands: a kernel thread of the pool waits for them ----
 * Meanwhile the process ignores SIGINT and SIGQUIT, and the thread blocks SIGCHLD: a handler might
 * wait for all children that have ended.
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
            if (gs_cc_pool_is_canceled())
                kill(child, SIGKILL);
    int err = child < 0 ? -child : errno;
    restore_signals();
    errno = err;
    return ended < 0 ? -1 : status;
}

struct command {
    const char *text;
    sigset_t mask;
    int status;
    bool is_canceled;
};

static void run(void *argument)
{
    struct command *command = argument;
    command->status = run_command(command->text, &command->mask);
    command->is_canceled = gs_cc_pool_is_canceled();
}

int gs_cc_system(const char *text)
{
    struct thread *self = thread_self();
    struct command *command = NULL;
    if (!self || !text)
        return system(text); /* NOLINT(cert-env33-c): the program calls it */
    if (self->phase == PHASE_NEW) {
        if (gs_cc_test_cancel(self))
            return 0;
        command = gs_cc_box(sizeof *command);
        const uint64_t mask = gs_cc_mask_of(self);
        *command = (struct command){text, gs_cc_signal_set(mask), 0, false};
        gs_cc_mask_set(self, mask | gs_cc_signal_bit(SIGCHLD));
    }
    command = gs_cc_in_pool(run, command, POOL_CANCELS);
    if (!command)
        return 0;
    int status = command->status, err = errno;
    bool is_canceled = command->is_canceled;
    gs_cc_mask_set(self, gs_cc_signal_bits(&command->mask));
    gs_cc_box_free(command, sizeof *command);
    errno = err;
    jump_if_told(self);
    return is_canceled && gs_cc_test_cancel(self) ? 0 : status;
}
