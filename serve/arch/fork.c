/* A process for each connection: it is begun when the connection is accepted, serves it alone, and ends with it.
 *
 *     listening sockets (one a worker and address, SO_REUSEPORT)       first process
 *        |                                                                | waits for signals, and begins another
 *        v                                                                v accepting one in place of one that crashed
 *     accepting process (a worker)        process of a connection
 *     +----------------------------+      +------------------------------------+
 *     | take a place               | fork | .-> receive --> HTTP --> send --.  |
 *     | accept                     |----->| |                               |  |
 *     | give the place of a        |      | `-------------------------------'  |
 *     |   process that ended back  |<-----|                                    |
 *     +----------------------------+ ends +------------------------------------+
 *
 * No two connections share memory: what is cached is what the accepting process had, which is nothing, so that each
 * process reads its pages itself. */
#include "serve/arch/arch.h"
#include "serve/blocking.h"
#include "serve/family.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Until a process can be had that the kernel refused. */
#define PAUSE_NS (50 * GS_MILLISECOND)

static struct serve_shard shard;

static void leave(struct serve_door *door)
{
    atomic_fetch_sub(&door->held, 1);
    serve_gate_leave(door->gate);
}

/* Whoever has ended has left. Returns false when there is nobody to wait for. */
static bool reap(struct serve_door *door)
{
    bool has_crashed;
    pid_t pid;
    while ((pid = serve_reap_child(&has_crashed)) > 0)
        leave(door);
    return !pid;
}

_Noreturn static void serve(struct serve_door *door, const struct serve_arrival *arrival)
{
    struct serve_server *server = door->gate->server;
    struct serve_blocking blocking;
    for (unsigned i = 0; i < server->door_count; i++)
        serve_stop_listening(server, i);
    gs_sys_close(door->other_fd);
    serve_blocking_init(&blocking, door->gate, &shard, arrival);
    serve_blocking_run(&blocking);
    serve_blocking_close(&blocking);
    _exit(0);
}

/* When the kernel refuses a process, the connection waits. */
static void begin(struct serve_door *door, const struct serve_arrival *arrival)
{
    bool is_said = false;
    atomic_fetch_add(&door->held, 1);
    pid_t pid = serve_begin_child();
    while (pid < 0 && gs_clock_now() < atomic_load(&door->gate->end_ns)) {
        if (!is_said)
            fprintf(stderr, "%s: no process can be begun, new connections wait: %s\n",
                    serve_command.name, strerror(-pid));
        is_said = true;
        serve_wait_for_child(gs_clock_now() + PAUSE_NS);
        reap(door);
        pid = serve_begin_child();
    }
    if (!pid)
        serve(door, arrival);
    gs_sys_close(arrival->fd);
    if (pid < 0)
        leave(door);
}

static int accept_all(void *data, unsigned index)
{
    struct serve_gate *gate = data;
    struct serve_door *door = &gate->doors[index];
    struct serve_arrival arrival;
    int err;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    door->other_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (door->other_fd < 0 || serve_shard_init_own(&shard, gate->server, index))
        return 1;
    while ((err = serve_door_accept(door, &arrival)) != -ECANCELED) {
        struct signalfd_siginfo ended;
        if (err == -EINTR)
            gs_sys_read(door->other_fd, &ended, sizeof ended);
        serve_follow_log(gate->server);
        reap(door);
        if (!err)
            begin(door, &arrival);
    }
    while (reap(door))
        serve_wait_for_child(GS_NEVER);
    serve_shard_done(&shard);
    return 0;
}

/* Those that it had begun end with it. */
static void on_crash(void *data, unsigned index)
{
    struct serve_gate *gate = data;
    struct serve_door *door = &gate->doors[index];
    for (unsigned held = atomic_load(&door->held); held; held--)
        leave(door);
}

static int run(struct serve_server *server)
{
    struct serve_gate *gate;
    serve_block_signals();
    int err = serve_gate_new(server, server->options->connections_most, &gate);
    if (err)
        return err;
    struct serve_family family = {
        .gate = gate,
        .count = server->workers,
        .serve = accept_all,
        .crashed = on_crash,
        .data = gate,
    };
    err = serve_family_run(&family);
    serve_gate_free(gate);
    return err;
}

const struct serve_arch serve_arch_fork = {
    .name = "fork",
    .summary = "a process for each connection",
    .workers = "processes that accept, each with a listening socket",
    .workers_least = 1,
    .run = run,
};
