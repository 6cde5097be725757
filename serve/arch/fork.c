/* A process for each connection: it is forked when the connection is accepted, serves it alone, and
 * ends with it.
 *
 *     listening sockets (one a worker and address, SO_REUSEPORT)     first process
 *        |                                                              | waits for signals,
 *        v                                                              v replaces crashed ones
 *     accepting process (a worker)        process of a connection
 *     +----------------------------+      +------------------------------------+
 *     | acquire a slot             | fork | .-> receive --> HTTP --> send --.  |
 *     | accept                     |----->| |                               |  |
 *     | release the slot of a      |      | `-------------------------------'  |
 *     |   process that ended       |<-----|                                    |
 *     +----------------------------+ ends +------------------------------------+
 *
 * No two connections share memory: each process reads its pages itself, as the accepting one has
 * none cached. */
#include "serve/accept/accept.h"
#include "serve/arch/arch.h"
#include "serve/connection/blocking.h"
#include "serve/operations/children.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Between two tries while the kernel refuses a process. */
#define RETRY_NS (50 * GS_MILLISECOND)

static struct serve_shard shard;

/* In this order, so that no slot is lost if the process is killed between the two. */
static void release_slot(struct serve_listener_set *set)
{
    serve_admission_release(set->admission);
    atomic_fetch_sub(&set->held, 1);
}

/* Release the slots of processes that have ended. Returns false when there is no child left. */
static bool reap(struct serve_listener_set *set)
{
    bool has_crashed;
    pid_t pid;
    while ((pid = serve_reap_child(&has_crashed)) > 0)
        release_slot(set);
    return !pid;
}

_Noreturn static void serve(struct serve_listener_set *set, const struct serve_accepted *accepted)
{
    struct serve_server *server = set->admission->server;
    for (unsigned i = 0; i < server->set_count; i++)
        serve_stop_listening(server, i);
    gs_sys_close(set->extra_fd);
    serve_kernel_run(set->admission, &shard, accepted);
    serve_log_finish(&shard.log);
    _exit(0);
}

/* While the kernel refuses a process, the connection waits. */
static void serve_in_child(struct serve_listener_set *set, const struct serve_accepted *accepted)
{
    static uint64_t warned_ns;
    pid_t pid = serve_fork_child();
    while (pid < 0 && gs_clock_now() < atomic_load(&set->admission->drain_until_ns)) {
        serve_warn_waiting("can't fork", pid, &warned_ns, gs_clock_now());
        serve_wait_for_child(gs_clock_now() + RETRY_NS);
        reap(set);
        pid = serve_fork_child();
    }
    if (!pid)
        serve(set, accepted);
    gs_sys_close(accepted->fd);
    if (pid < 0)
        release_slot(set);
}

static int accept_all(void *data, unsigned index)
{
    struct serve_admission *admission = data;
    struct serve_listener_set *set = &admission->sets[index];
    struct serve_accepted accepted;
    int err;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    set->extra_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (set->extra_fd < 0 || serve_shard_init_own(&shard, admission->server, index))
        return 1;
    while ((err = serve_listener_set_accept(set, NULL, &accepted)) != -ECANCELED) {
        struct signalfd_siginfo ended;
        if (err == -EINTR)
            gs_sys_read(set->extra_fd, &ended, sizeof ended);
        serve_reopen_log(admission->server);
        reap(set);
        serve_certificates_follow(&admission->server->certificates);
        if (!err)
            serve_in_child(set, &accepted);
    }
    while (reap(set))
        serve_wait_for_child(GS_NEVER);
    serve_shard_done(&shard);
    return 0;
}

/* Its own children end with it. */
static void on_crash(void *data, unsigned index)
{
    struct serve_admission *admission = data;
    struct serve_listener_set *set = &admission->sets[index];
    for (unsigned held = atomic_load(&set->held); held; held--)
        release_slot(set);
}

static int run(struct serve_server *server)
{
    const struct serve_admission_options admits = {.max = server->options->max_connections,
                                                   .places = server->options->max_connections,
                                                   .has_processes = true};
    struct serve_admission *admission;
    serve_block_signals();
    int err = serve_admission_new(server, &admits, &admission);
    if (err)
        return err;
    struct serve_children_group group = {
        .admission = admission,
        .count = server->workers,
        .serve = accept_all,
        .crashed = on_crash,
        .data = admission,
    };
    err = serve_children_run(&group);
    serve_admission_free(admission);
    return err;
}

const struct serve_arch serve_arch_fork = {
    .name = "fork",
    .summary = "a process for each connection",
    .workers = "processes that accept, each with a listening socket",
    .min_workers = 1,
    .has_processes = true,
    .run = run,
};
