/* A fixed pool of kernel threads: each accepts a connection, serves it until it ends, and accepts the next.
 *
 *       listening socket (one an address, for all)
 *        |
 *        v
 *     +-- door: one thread at a time ---+
 *     |  take a place, accept           |
 *     +---------------------------------+
 *        |              |              |
 *        v              v              v
 *      thread         thread         thread          150 of them
 *     .-> receive --> HTTP --> send --.
 *     `-- the same connection, for 100 requests, however long it is idle
 *                      :
 *                 page caches, one for each processor, which the threads share
 *
 * As many connections as there are threads are served at a time; all others wait in the accept queue, unanswered. That a connection
 * ends after so many requests is what gives them their turn. */
#include "serve/arch/arch.h"
#include "serve/blocking.h"

#include <errno.h>
#include <stdlib.h>

#define STACK_SIZE (256 << 10)

struct worker {
    struct serve_gate *gate;
    struct serve_shard *shard;
    pthread_t thread;
};

static void *serve(void *argument)
{
    struct worker *worker = argument;
    struct serve_arrival arrival;
    while (serve_door_accept(&worker->gate->doors[0], &arrival) != -ECANCELED) {
        struct serve_blocking blocking;
        serve_blocking_init(&blocking, worker->gate, worker->shard, &arrival);
        serve_blocking_run(&blocking);
        serve_blocking_done(&blocking);
    }
    return NULL;
}

/* Returns how many were started. */
static unsigned start(struct worker *workers, unsigned count, struct serve_gate *gate,
                      struct serve_shards *shards)
{
    pthread_attr_t attributes;
    unsigned started = 0;
    if (pthread_attr_init(&attributes))
        return 0;
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    for (; started < count; started++) {
        struct worker *worker = &workers[started];
        *worker = (struct worker){.gate = gate, .shard = &shards->items[started % shards->count]};
        if (pthread_create(&worker->thread, &attributes, serve, worker))
            break;
    }
    pthread_attr_destroy(&attributes);
    return started;
}

static int run(struct serve_server *server)
{
    struct serve_gate *gate = NULL;
    struct serve_shards shards = {0};
    struct worker *workers = calloc(server->workers, sizeof *workers);
    unsigned started = 0;
    serve_block_signals();
    int err = workers ? serve_gate_new(server, server->options->connections_most, &gate) : -ENOMEM;
    if (!err)
        err = serve_shards_init(&shards, server);
    if (!err) {
        started = start(workers, server->workers, gate, &shards);
        err = started == server->workers ? serve_wait(server) : -EAGAIN;
    }
    if (gate)
        serve_gate_drain(gate);
    for (unsigned i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    serve_shards_done(&shards);
    serve_gate_free(gate);
    free(workers);
    return err;
}

const struct serve_arch serve_arch_pool = {
    .name = "pool",
    .summary = "a fixed pool of kernel threads, each of which serves one connection at a time",
    .workers = "kernel threads, by default 150",
    .workers_least = 1,
    .workers_usual = 150,
    .requests_usual = 100,
    .is_one_door = true,
    .run = run,
};
