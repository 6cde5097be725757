/* A fixed set of processes: each accepts a connection, serves it until it ends, and accepts the next.
 *
 *       listening socket (one an address, for all)          first process
 *        |                                                     | waits for signals, and begins
 *        v                                                     v another in place of one that crashed
 *     +-- door: one process at a time --+
 *     |  take a place, accept           |
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
#include <sys/mman.h>

struct site {
    struct serve_gate *gate;
    atomic_bool *serving; /* one for each process, in shared memory: it has a place */
};

static int serve(void *data, unsigned index)
{
    struct site *site = data;
    static struct serve_shard shard;
    struct serve_arrival arrival;
    if (serve_shard_init_own(&shard, site->gate->server, index))
        return 1;
    while (serve_door_accept(&site->gate->doors[0], &arrival) != -ECANCELED) {
        struct serve_blocking blocking;
        atomic_store(&site->serving[index], true);
        serve_blocking_init(&blocking, site->gate, &shard, &arrival);
        serve_blocking_run(&blocking);
        serve_blocking_close(&blocking);
        atomic_store(&site->serving[index], false);
        serve_gate_leave(site->gate);
    }
    serve_shard_done(&shard);
    return 0;
}

static void on_crash(void *data, unsigned index)
{
    struct site *site = data;
    if (atomic_exchange(&site->serving[index], false))
        serve_gate_leave(site->gate);
}

static int run(struct serve_server *server)
{
    size_t size = server->workers * sizeof(atomic_bool);
    struct site site;
    serve_block_signals();
    site.serving = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (site.serving == MAP_FAILED)
        return -ENOMEM;
    int err = serve_gate_new(server, &site.gate);
    if (!err) {
        struct serve_family family = {
            .gate = site.gate,
            .count = server->workers,
            .serve = serve,
            .crashed = on_crash,
            .data = &site,
        };
        err = serve_family_run(&family);
        serve_gate_free(site.gate);
    }
    munmap(site.serving, size);
    return err;
}

const struct serve_arch serve_arch_prefork = {
    .name = "prefork",
    .summary = "a fixed set of processes, each of which serves one connection at a time",
    .workers = "processes, by default 150",
    .workers_least = 1,
    .workers_usual = 150,
    .is_one_door = true,
    .run = run,
};
