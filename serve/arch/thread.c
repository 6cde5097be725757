/* A kernel thread for each connection: it is begun when the connection is accepted, serves it alone, and ends with it.
 *
 *     listening sockets (one a worker and address, SO_REUSEPORT)
 *        |
 *        v
 *     accepting thread (a worker)         thread of a connection
 *     +-------------------------+         +-----------------------------------------+
 *     | take a place            | begin   |  .-> receive --> HTTP --> send --.      |
 *     | accept                  |-------->|  |      :         :         :    |      |
 *     +-------------------------+         |  `------:---------:---------:----'      |
 *          ^                              +---------:---------:---------:-----------+
 *          |                                    readable   the worker's  writable
 *          |                                               page cache
 *          `--- a place is free again when the connection ends
 *
 * There are as many threads as connections, without another limit than --max-connections and the kernel's. */
#include "serve/arch/arch.h"
#include "serve/blocking.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of address space; memory is what is touched of it, a few pages. */
#define STACK_SIZE (256 << 10)

/* Until a thread can be had that the kernel refused. */
#define PAUSE_NS (50 * GS_MILLISECOND)

struct worker {
    struct serve_shard shard;
    struct serve_gate *gate;
    struct serve_door *door;
    pthread_attr_t attributes; /* of the connections' threads */
    pthread_t thread;
};

/* What a connection's thread starts with. */
struct client {
    struct worker *worker;
    struct serve_arrival arrival;
};

static void *serve(void *argument)
{
    struct client *client = argument;
    struct worker *worker = client->worker;
    struct serve_blocking blocking;
    serve_blocking_init(&blocking, worker->gate, &worker->shard, &client->arrival);
    free(client);
    serve_blocking_run(&blocking);
    serve_blocking_done(&blocking);
    return NULL;
}

/* Returns 0 or -errno. */
static int try_to_begin(struct worker *worker, const struct serve_arrival *arrival)
{
    pthread_t thread;
    struct client *client = malloc(sizeof *client);
    if (!client)
        return -ENOMEM;
    client->worker = worker;
    client->arrival = *arrival;
    int err = pthread_create(&thread, &worker->attributes, serve, client);
    if (err)
        free(client);
    return -err;
}

/* When the kernel refuses a thread, the connection waits. */
static void begin(struct worker *worker, const struct serve_arrival *arrival)
{
    bool is_said = false;
    int err = try_to_begin(worker, arrival);
    while (err && gs_clock_now() < atomic_load(&worker->gate->end_ns)) {
        if (!is_said)
            fprintf(stderr, "%s: no thread can be begun, new connections wait: %s\n",
                    serve_command.name, strerror(-err));
        is_said = true;
        gs_sys_poll(NULL, 0, PAUSE_NS);
        err = try_to_begin(worker, arrival);
    }
    if (!err)
        return;
    gs_sys_close(arrival->fd);
    serve_gate_leave(worker->gate);
}

static void *accept_all(void *argument)
{
    struct worker *worker = argument;
    struct serve_arrival arrival;
    while (serve_door_accept(worker->door, &arrival) != -ECANCELED)
        begin(worker, &arrival);
    return NULL;
}

static int start(struct worker *worker, struct serve_gate *gate, unsigned index)
{
    worker->gate = gate;
    worker->door = &gate->doors[index];
    int err = serve_shard_init(&worker->shard, gate->server, index, true);
    if (err)
        return err;
    pthread_attr_init(&worker->attributes);
    pthread_attr_setstacksize(&worker->attributes, STACK_SIZE);
    pthread_attr_setdetachstate(&worker->attributes, PTHREAD_CREATE_DETACHED);
    return -pthread_create(&worker->thread, NULL, accept_all, worker);
}

static int run(struct serve_server *server)
{
    struct serve_gate *gate = NULL;
    struct worker *workers = calloc(server->workers, sizeof *workers);
    unsigned started = 0;
    serve_block_signals();
    int err = workers ? serve_gate_new(server, server->options->connections_most, &gate) : -ENOMEM;
    while (!err && started < server->workers) {
        err = start(&workers[started], gate, started);
        started += !err;
    }
    if (!err)
        err = serve_wait(server);
    if (gate)
        serve_gate_drain(gate);
    for (unsigned i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    if (gate)
        serve_gate_wait_empty(gate);
    for (unsigned i = 0; workers && i < server->workers; i++)
        serve_shard_done(&workers[i].shard);
    serve_gate_free(gate);
    free(workers);
    return err;
}

const struct serve_arch serve_arch_thread = {
    .name = "thread",
    .summary = "a kernel thread for each connection",
    .workers = "kernel threads that accept, each with a listening socket and a page cache",
    .workers_least = 1,
    .run = run,
};
