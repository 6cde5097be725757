#include "serve/operations/children.h"

#include "serve/log/error_log.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The time between two starts of a child that crashes at once. */
#define RESPAWN_NS (100 * GS_MILLISECOND)

/* At most so often a stopped child is reported. */
#define WARNING_INTERVAL_NS (10 * GS_SECOND)

/* What children have to end after their connections were aborted. */
#define LATE_NS GS_SECOND

pid_t serve_fork_child(void)
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
        serve_error("process %d was killed by signal %d", (int)pid, WTERMSIG(status));
    else
        serve_error("process %d ended with status %d", (int)pid, WEXITSTATUS(status));
}

/* A stopped process would hold up its clients, and those who wait at the sockets with it. */
static void resume(pid_t pid, int status)
{
    static uint64_t warned_ns;
    uint64_t now_ns = gs_clock_now();
    kill(pid, SIGCONT);
    if (warned_ns && now_ns - warned_ns < WARNING_INTERVAL_NS)
        return;
    warned_ns = now_ns;
    serve_warn("process %d was stopped by signal %d, and goes on; the server stops with process %d",
               (int)pid, WSTOPSIG(status), (int)getpid());
}

pid_t serve_reap_child(bool *ret_crashed)
{
    int status;
    pid_t pid;
    while ((pid = gs_sys_wait4(-1, &status, WNOHANG | WUNTRACED)) > 0 && WIFSTOPPED(status))
        resume(pid, status);
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

/* ---- The children of the first process ---- */

static struct serve_server *server_of_child;

static void on_reopen_signal(int number)
{
    (void)number;
    serve_reopen_log(server_of_child);
}

/* A signal reopens the log, also of a child that waits for a connection: so a file that was rotated
 * is not written to any more, and can be deleted. */
static void reopen_log_on_signal(struct serve_server *server)
{
    struct sigaction action = {.sa_handler = on_reopen_signal, .sa_flags = SA_RESTART};
    sigset_t set;
    server_of_child = server;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaction(SIGUSR1, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int start(struct serve_children_group *group, unsigned index)
{
    pid_t pid = serve_fork_child();
    if (!pid) {
        reopen_log_on_signal(group->admission->server);
        _exit(group->serve(group->data, index));
    }
    if (pid < 0)
        return pid;
    group->members[index] = pid;
    group->started_ns[index] = gs_clock_now();
    group->alive++;
    return 0;
}

/* Without any process left, the server ends. */
static void give_up(struct serve_children_group *group, unsigned index, int err)
{
    serve_error("can't fork a process in its place: %s", strerror(-err));
    group->started_ns[index] = GS_NEVER;
    if (++group->given_up < group->count)
        return;
    group->result = err;
    serve_request_end();
}

/* Start it again if it has ended. Returns when that is to be tried again; GS_NEVER: it runs, or was
 * given up, because it can't be forked. */
static uint64_t respawn(struct serve_children_group *group, unsigned index)
{
    if (group->members[index])
        return GS_NEVER;
    uint64_t due_ns = gs_clock_after(group->started_ns[index], RESPAWN_NS);
    if (gs_clock_now() < due_ns)
        return due_ns;
    int err = start(group, index);
    if (err)
        give_up(group, index, err);
    return GS_NEVER;
}

static void note_end(struct serve_children_group *group, pid_t pid, bool has_crashed)
{
    unsigned index = 0;
    while (index < group->count && group->members[index] != pid)
        index++;
    if (index == group->count)
        return;
    group->members[index] = 0;
    group->alive--;
    if (has_crashed && group->crashed)
        group->crashed(group->data, index);
}

static void reap_all(struct serve_children_group *group)
{
    bool has_crashed;
    pid_t pid;
    while ((pid = serve_reap_child(&has_crashed)) > 0)
        note_end(group, pid, has_crashed);
}

static uint64_t look_after(void *data)
{
    struct serve_children_group *group = data;
    uint64_t next_ns = GS_NEVER;
    reap_all(group);
    for (unsigned i = 0; i < group->count; i++) {
        uint64_t due_ns = respawn(group, i);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    return next_ns;
}

static void signal_all(const struct serve_children_group *group, int number)
{
    for (unsigned i = 0; i < group->count; i++)
        if (group->members[i])
            kill(group->members[i], number);
}

static void on_log(void *data)
{
    signal_all(data, SIGUSR1);
}

static void wait_for_all(struct serve_children_group *group)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    uint64_t until_ns = gs_clock_after(atomic_load(&group->admission->drain_until_ns), LATE_NS);
    for (reap_all(group); group->alive; reap_all(group)) {
        if (gs_clock_now() >= until_ns) {
            atomic_fetch_add(&group->admission->server->drain->cut_off,
                             atomic_load(&group->admission->used));
            signal_all(group, SIGKILL);
            until_ns = GS_NEVER;
        }
        serve_wait_for_child(until_ns);
    }
}

int serve_children_run(struct serve_children_group *group)
{
    int err = 0;
    group->members = calloc(group->count, sizeof *group->members);
    group->started_ns = calloc(group->count, sizeof *group->started_ns);
    if (!group->members || !group->started_ns)
        err = -ENOMEM;
    for (unsigned i = 0; !err && i < group->count; i++)
        err = start(group, i);
    if (!err)
        err = serve_wait_with_children(group->admission->server,
                                       &(struct serve_children){.look_after = look_after,
                                                                .log_reopened = on_log,
                                                                .data = group});
    serve_admission_drain(group->admission);
    if (group->members)
        wait_for_all(group);
    free(group->members);
    free(group->started_ns);
    return err ? err : group->result;
}
