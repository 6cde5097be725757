/* A fixed set of processes: each accepts a connection, serves it until it ends, and accepts the next.
 *
 *       listening socket (one an address, for all)          first process
 *        |                                                     | waits for signals, and begins
 *        v                                                     v another in place of one that crashed
 *     +-- door: one process at a time --+
 *     |  accept                         |
 *     +---------------------------------+
 *        |              |              |
 *        v              v              v
 *     process        process        process         each with a page cache of its own
 *     .-> receive --> HTTP --> send --.
 *     `-- the same connection, until it ends, however long it is idle
 *
 * As many connections as there are processes are served at a time; all others wait in the accept queue, unanswered. */
#include "serve/arch/arch.h"
#include "serve/blocking.h"
#include "serve/family.h"

#include <errno.h>

static int serve(void *data, unsigned index)
{
    struct serve_gate *gate = data;
    static struct serve_shard shard;
    struct serve_arrival arrival;
    if (serve_shard_init_own(&shard, gate->server, index))
        return 1;
    while (serve_door_accept(&gate->doors[0], &arrival) != -ECANCELED) {
        struct serve_blocking blocking;
        serve_blocking_init(&blocking, gate, &shard, &arrival);
        serve_blocking_run(&blocking);
        serve_blocking_done(&blocking);
    }
    serve_shard_done(&shard);
    return 0;
}

/* The processes themselves are the places, so that one that crashes leaves none taken. */
static int run(struct serve_server *server)
{
    struct serve_gate *gate;
    serve_block_signals();
    int err = serve_gate_new(server, SERVE_GATE_OPEN, &gate);
    if (err)
        return err;
    struct serve_family family = {
        .gate = gate, .count = server->workers, .serve = serve, .data = gate};
    err = serve_family_run(&family);
    serve_gate_free(gate);
    return err;
}

const struct serve_arch serve_arch_prefork = {
    .name = "prefork",
    .summary = "a fixed set of processes, each of which serves one connection at a time",
    .workers = "processes, by default 150",
    .workers_least = 1,
    .workers_usual = 150,
    .is_one_door = true,
    .has_worker_each = true,
    .run = run,
};
