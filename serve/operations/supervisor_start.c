#include "serve/operations/supervisor_state.h"

#include "serve/accept/inherited.h"
#include "serve/log/error_log.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- The environment ---- */

static bool is_named(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(entry, name, n) && entry[n] == '=';
}

/* WATCHDOG_USEC stays: a generation reports as often. */
static bool is_for_one_process(const char *entry)
{
    static const char *const names[] = {
        "LISTEN_PID",    "LISTEN_FDS",   "LISTEN_FDNAMES",          "LISTEN_PIDFDID",
        "NOTIFY_SOCKET", "WATCHDOG_PID", SERVE_GENERATION_VARIABLE, SERVE_SUPERVISOR_VARIABLE};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_named(entry, names[i]))
            return true;
    return false;
}

char **serve_supervisor_make_environment(char *const *environment, char *const *added,
                                         unsigned count)
{
    size_t n = 0, used = 0;
    while (environment[n])
        n++;
    char **made = calloc(n + count + 1, sizeof *made);
    if (!made)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!is_for_one_process(environment[i]))
            made[used++] = environment[i];
    for (unsigned i = 0; i < count; i++)
        made[used++] = added[i];
    return made;
}

/* ---- In the process of the generation, before it executes the program ---- */

/* What a generation inherits: listeners, the control socket and the page, in this order. */
struct start {
    int *fds;
    unsigned count;
    char **environment;
    char pid[32]; /* LISTEN_PID= */
    bool is_upgrade;
};

/* First all of them above the numbers that they get, because they may have these already. */
static int place_descriptors(const struct start *start)
{
    int first = SERVE_INHERITED_FIRST, err = 0;
    for (unsigned i = 0; err >= 0 && i < start->count; i++)
        err = start->fds[i] =
            gs_sys_fcntl(start->fds[i], F_DUPFD_CLOEXEC, first + (int)start->count);
    for (unsigned i = 0; err >= 0 && i < start->count; i++)
        err = gs_sys_dup3(start->fds[i], first + (int)i, 0);
    return err < 0 ? err : 0;
}

/* A process group of its own: a signal from the keyboard goes to the supervisor, which passes it
 * on. */
_Noreturn static void execute(const struct serve_supervisor *supervisor, struct start *start)
{
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    snprintf(start->pid, sizeof start->pid, "LISTEN_PID=%d", (int)getpid());
    int err = place_descriptors(start);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!err && !start->is_upgrade)
        execve("/proc/self/exe", supervisor->arguments, start->environment);
    if (!err)
        execvpe(supervisor->arguments[0], supervisor->arguments, start->environment);
    serve_error("can't execute %s: %s", supervisor->arguments[0], strerror(err ? -err : errno));
    _exit(127);
}

/* ---- In the supervisor ---- */

/* Returns "LISTEN_FDNAMES=NAME:NAME...", or NULL. */
static char *make_names(const struct serve_supervisor *supervisor)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out)
        return NULL;
    fputs("LISTEN_FDNAMES=", out);
    for (unsigned i = 0; i < supervisor->activated.count; i++)
        fprintf(out, "%s:", supervisor->activated.items[i].name);
    for (unsigned i = 0; i < supervisor->bound.count; i++)
        fputs(SERVE_BOUND_NAME ":", out);
    if (!fclose(out))
        return text;
    free(text);
    return NULL;
}

static void list_descriptors(const struct serve_supervisor *supervisor, int control_fd,
                             struct start *start)
{
    for (unsigned i = 0; i < supervisor->activated.count; i++)
        start->fds[start->count++] = supervisor->activated.items[i].fd;
    for (unsigned i = 0; i < supervisor->bound.count; i++)
        start->fds[start->count++] = supervisor->bound.items[i].fd;
    start->fds[start->count++] = control_fd;
    start->fds[start->count++] = supervisor->page_fd;
}

/* Returns the process id or -errno. */
static pid_t start_with(struct serve_supervisor *supervisor, unsigned place, struct start *start)
{
    unsigned listeners = start->count - 2;
    char fds[32], generation[96], *names = make_names(supervisor);
    char *added[] = {start->pid, fds, names, generation};
    snprintf(fds, sizeof fds, "LISTEN_FDS=%u", listeners);
    snprintf(generation, sizeof generation, SERVE_GENERATION_VARIABLE "=%llu:%u:%u:%u",
             (unsigned long long)supervisor->last_number + 1, place,
             SERVE_INHERITED_FIRST + listeners, SERVE_INHERITED_FIRST + listeners + 1);
    start->environment = serve_supervisor_make_environment(supervisor->environment, added, 4);
    pid_t pid = -ENOMEM;
    if (names && start->environment) {
        fflush(NULL);
        pid = fork();
        pid = pid < 0 ? -errno : pid;
    }
    if (!pid)
        execute(supervisor, start);
    free(start->environment);
    free(names);
    return pid;
}

int serve_supervisor_start(struct serve_supervisor *supervisor, unsigned place, bool is_upgrade)
{
    struct start start = {.is_upgrade = is_upgrade};
    int ends[2];
    int err = gs_sys_socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
    if (err)
        return err;
    start.fds =
        calloc(supervisor->activated.count + supervisor->bound.count + 2, sizeof *start.fds);
    pid_t pid = -ENOMEM;
    if (start.fds) {
        list_descriptors(supervisor, ends[1], &start);
        pid = start_with(supervisor, place, &start);
    }
    free(start.fds);
    gs_sys_close(ends[1]);
    if (pid < 0) {
        gs_sys_close(ends[0]);
        return pid;
    }
    supervisor->places[place] = (struct serve_supervised){
        .number = ++supervisor->last_number,
        .pid = pid,
        .control_fd = ends[0],
        .since_ns = gs_clock_now(),
    };
    return 0;
}
