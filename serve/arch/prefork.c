/* A fixed set of processes: each accepts a connection, serves it until it ends, and accepts the
 * next.
 *
 *       listening socket (one an address, for all)          first process
 *        |                                                     | waits for signals, and
 *        v                                                     v replaces a process that crashed
 *     +-- one process at a time --------+
 *     |  accept                         |
 *     +---------------------------------+
 *        |              |              |
 *        v              v              v
 *     process        process        process         each with a file cache of its own
 *     .-> receive --> HTTP --> send --.
 *     `-- the same connection, until it ends, however long it is idle
 *
 * As many connections as there are processes are served at a time; all others wait in the accept
 * queue, unanswered. */
#include "serve/arch/arch.h"
#include "serve/connection/blocking.h"
#include "serve/operations/children.h"

#include <errno.h>

static int serve(void *data, unsigned index)
{
    struct serve_admission *admission = data;
    static struct serve_shard shard;
    struct serve_accepted accepted;
    if (serve_shard_init_own(&shard, admission->server, index))
        return 1;
    while (serve_listener_set_accept(&admission->sets[0], &shard, &accepted) != -ECANCELED) {
        serve_certificates_follow(&admission->server->certificates);
        serve_kernel_run(admission, &shard, &accepted);
        serve_admission_release(admission);
    }
    serve_shard_done(&shard);
    return 0;
}

/* The processes themselves are the slots, so that one that crashes leaves none in use. */
static int run(struct serve_server *server)
{
    const struct serve_admission_options admits = {
        .max = SERVE_ADMISSION_UNLIMITED, .places = server->workers, .has_processes = true};
    struct serve_admission *admission;
    serve_block_signals();
    int err = serve_admission_new(server, &admits, &admission);
    if (err)
        return err;
    struct serve_children_group group = {
        .admission = admission, .count = server->workers, .serve = serve, .data = admission};
    err = serve_children_run(&group);
    serve_admission_free(admission);
    return err;
}

const struct serve_arch serve_arch_prefork = {
    .name = "prefork",
    .summary = "a fixed set of processes, each of which serves one connection at a time",
    .workers = "processes, by default 150",
    .min_workers = 1,
    .default_workers = 150,
    .has_single_listener = true,
    .has_worker_per_connection = true,
    .has_processes = true,
    .run = run,
};
