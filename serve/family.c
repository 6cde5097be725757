#include "serve/family.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that crashes at once is not begun anew at once. */
#define PAUSE_NS (100 * GS_MILLISECOND)

/* After their connections' end, for what children do then. */
#define LATE_NS GS_SECOND

pid_t serve_begin_child(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t parent = getpid(), pid = fork();
    if (pid) {
        int err = errno;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return pid < 0 ? -err : pid;
    }
    serve_block_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(1);
    return 0;
}

static void report(pid_t pid, int status)
{
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s: process %d was ended by signal %d\n", serve_command.name, (int)pid,
                WTERMSIG(status));
    else
        fprintf(stderr, "%s: process %d ended with status %d\n", serve_command.name, (int)pid,
                WEXITSTATUS(status));
}

pid_t serve_reap_child(bool *ret_crashed)
{
    int status;
    pid_t pid = gs_sys_wait4(-1, &status, WNOHANG);
    if (pid > 0) {
        *ret_crashed = status != 0;
        if (status)
            report(pid, status);
    }
    return pid;
}

void serve_wait_for_child(uint64_t until_ns)
{
    uint64_t now_ns = gs_clock_now(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec timeout = {.tv_sec = (time_t)(left_ns / GS_SECOND),
                               .tv_nsec = (long)(left_ns % GS_SECOND)};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigtimedwait(&set, NULL, until_ns == GS_NEVER ? NULL : &timeout);
}

/* ---- The family of the process that the program began with ---- */

static struct serve_server *following; /* in a member */

static void follow(int number)
{
    (void)number;
    serve_follow_log(following);
}

/* However long nobody comes: so that nothing is written to a file that was put aside, and it takes no place on the disk. */
static void follow_when_told(struct serve_server *server)
{
    struct sigaction action = {.sa_handler = follow, .sa_flags = SA_RESTART};
    sigset_t set;
    following = server;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaction(SIGUSR1, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int begin(struct serve_family *family, unsigned index)
{
    pid_t pid = serve_begin_child();
    if (!pid) {
        follow_when_told(family->gate->server);
        _exit(family->serve(family->data, index));
    }
    if (pid < 0)
        return pid;
    family->members[index] = pid;
    family->begun_ns[index] = gs_clock_now();
    family->alive++;
    return 0;
}

/* One that can't be begun anew stays away. Without any, the server ends. */
static void begin_anew(struct serve_family *family, unsigned index)
{
    if (gs_clock_now() - family->begun_ns[index] < PAUSE_NS)
        gs_sys_poll(NULL, 0, PAUSE_NS);
    int err = begin(family, index);
    if (!err)
        return;
    fprintf(stderr, "%s: no process can be begun in its place: %s\n", serve_command.name,
            strerror(-err));
    if (!family->alive) {
        family->result = err;
        kill(getpid(), SIGTERM);
    }
}

/* Returns false when there is none left that has ended. */
static bool reap(struct serve_family *family)
{
    bool has_crashed;
    pid_t pid = serve_reap_child(&has_crashed);
    if (pid <= 0)
        return false;
    unsigned index = 0;
    while (index < family->count && family->members[index] != pid)
        index++;
    if (index == family->count)
        return true;
    family->members[index] = 0;
    family->alive--;
    if (has_crashed && family->crashed)
        family->crashed(family->data, index);
    if (!serve_gate_is_draining(family->gate))
        begin_anew(family, index);
    return true;
}

static void on_child(void *data)
{
    while (reap(data))
        ;
}

static void tell_all(const struct serve_family *family, int number)
{
    for (unsigned i = 0; i < family->count; i++)
        if (family->members[i])
            kill(family->members[i], number);
}

static void on_log(void *data)
{
    tell_all(data, SIGUSR1);
}

static void wait_for_all(struct serve_family *family)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    uint64_t until_ns = gs_clock_after(atomic_load(&family->gate->end_ns), LATE_NS);
    for (on_child(family); family->alive; on_child(family)) {
        if (gs_clock_now() >= until_ns) {
            tell_all(family, SIGKILL);
            until_ns = GS_NEVER;
        }
        serve_wait_for_child(until_ns);
    }
}

int serve_family_run(struct serve_family *family)
{
    int err = 0;
    family->members = calloc(family->count, sizeof *family->members);
    family->begun_ns = calloc(family->count, sizeof *family->begun_ns);
    if (!family->members || !family->begun_ns)
        err = -ENOMEM;
    for (unsigned i = 0; !err && i < family->count; i++)
        err = begin(family, i);
    if (!err)
        err = serve_wait_with_children(
            family->gate->server,
            &(struct serve_children){.ended = on_child, .log_opened = on_log, .data = family});
    serve_gate_drain(family->gate);
    if (family->members)
        wait_for_all(family);
    free(family->members);
    free(family->begun_ns);
    return err ? err : family->result;
}
