/* A fixed pool of kernel threads: each accepts a connection, serves it until it ends, and accepts
 * the next.
 *
 *       listening socket (one an address, for all)
 *        |
 *        v
 *     +-- one thread at a time ---------+
 *     |  acquire a slot, accept         |
 *     +---------------------------------+
 *        |              |              |
 *        v              v              v
 *      thread         thread         thread          150 of them
 *     .-> receive --> HTTP --> send --.
 *     `-- the same connection, for 100 requests, however long it is idle
 *                      :
 *                 file caches, one for each processor, which the threads share
 *
 * As many connections as there are threads are served at a time; all others wait in the accept
 * queue, unanswered. They get their turn because a connection ends after so many requests. */
#include "serve/arch/arch.h"
#include "serve/connection/blocking.h"

#include <errno.h>
#include <stdlib.h>

struct worker {
    struct serve_admission *admission;
    struct serve_shard *shard;
    pthread_t thread;
};

static void *serve(void *argument)
{
    struct worker *worker = argument;
    struct serve_accepted accepted;
    while (serve_listener_set_accept(&worker->admission->sets[0], NULL, &accepted) != -ECANCELED) {
        serve_kernel_run(worker->admission, worker->shard, &accepted);
        serve_admission_release(worker->admission);
    }
    return NULL;
}

/* Returns how many were started. */
static unsigned start(struct worker *workers, unsigned count, struct serve_admission *admission,
                      struct serve_shards *shards)
{
    unsigned started = 0;
    for (; started < count; started++) {
        struct worker *worker = &workers[started];
        *worker = (struct worker){.admission = admission,
                                  .shard = &shards->items[started % shards->count]};
        if (serve_kernel_thread_create(&worker->thread, serve, worker))
            break;
    }
    return started;
}

static int run(struct serve_server *server)
{
    const uint64_t max = server->options->max_connections;
    const struct serve_admission_options admits = {
        .max = max, .places = max < server->workers ? max : server->workers};
    struct serve_admission *admission = NULL;
    struct serve_shards shards = {0};
    struct worker *workers = calloc(server->workers, sizeof *workers);
    unsigned started = 0;
    serve_block_signals();
    int err = workers ? serve_admission_new(server, &admits, &admission) : -ENOMEM;
    if (!err)
        err = serve_shards_init(&shards, server);
    if (!err) {
        started = start(workers, server->workers, admission, &shards);
        err = started == server->workers ? serve_wait(server) : -EAGAIN;
    }
    if (admission)
        serve_admission_drain(admission);
    for (unsigned i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    serve_shards_done(&shards);
    serve_admission_free(admission);
    free(workers);
    return err;
}

const struct serve_arch serve_arch_pool = {
    .name = "pool",
    .summary = "a fixed pool of kernel threads, each of which serves one connection at a time",
    .workers = "kernel threads, by default 150",
    .min_workers = 1,
    .default_workers = 150,
    .default_requests = 100,
    .has_single_listener = true,
    .run = run,
};
