/* A kernel thread for each connection: it is created when the connection is accepted, serves it
 * alone, and ends with it.
 *
 *     listening sockets (one a worker and address, SO_REUSEPORT)
 *        |
 *        v
 *     accepting thread (a worker)         thread of a connection
 *     +-------------------------+         +-----------------------------------------+
 *     | acquire a slot          | create  |  .-> receive --> HTTP --> send --.      |
 *     | accept                  |-------->|  |      :         :         :    |      |
 *     +-------------------------+         |  `------:---------:---------:----'      |
 *          ^                              +---------:---------:---------:-----------+
 *          |                                    readable   the worker's  writable
 *          |                                               file cache
 *          `--- a slot is free again when the connection ends
 *
 * There are as many threads as connections, limited only by --max-connections and the kernel. */
#include "serve/accept/accept.h"
#include "serve/arch/arch.h"
#include "serve/connection/blocking.h"
#include "serve/connection/expiry.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>

/* Between two tries while the kernel refuses a thread. */
#define RETRY_NS (50 * GS_MILLISECOND)

struct worker {
    struct serve_shard shard;
    struct serve_expiry expiry;
    struct serve_admission *admission;
    struct serve_listener_set *set;
    pthread_attr_t attributes; /* of the connections' threads */
    pthread_t thread;
    uint64_t warned_ns; /* when it was last reported that the kernel refuses threads */
};

struct connection_start {
    struct worker *worker;
    struct serve_accepted accepted;
};

static void *serve(void *argument)
{
    const struct connection_start start = *(struct connection_start *)argument;
    free(argument);
    serve_kernel_run(start.worker->admission, &start.worker->shard, &start.accepted);
    serve_admission_release(start.worker->admission);
    return NULL;
}

/* Returns 0 or -errno. */
static int create_thread(struct worker *worker, const struct serve_accepted *accepted)
{
    pthread_t thread;
    struct connection_start *start = malloc(sizeof *start);
    if (!start)
        return -ENOMEM;
    *start = (struct connection_start){.worker = worker, .accepted = *accepted};
    int err = pthread_create(&thread, &worker->attributes, serve, start);
    if (err)
        free(start);
    return -err;
}

/* While the kernel refuses a thread, the connection waits. */
static void serve_in_thread(struct worker *worker, const struct serve_accepted *accepted)
{
    int err = create_thread(worker, accepted);
    while (err && gs_clock_now() < atomic_load(&worker->admission->drain_until_ns)) {
        serve_warn_waiting("can't create a thread", err, &worker->warned_ns, gs_clock_now());
        gs_sys_poll(NULL, 0, RETRY_NS);
        err = create_thread(worker, accepted);
    }
    if (!err)
        return;
    serve_refuse_accepted(accepted->fd);
    serve_admission_release(worker->admission);
}

static void *accept_all(void *argument)
{
    struct worker *worker = argument;
    struct serve_accepted accepted;
    while (serve_listener_set_accept(worker->set, NULL, &accepted) != -ECANCELED)
        serve_in_thread(worker, &accepted);
    return NULL;
}

static int start(struct worker *worker, struct serve_admission *admission, unsigned index)
{
    worker->admission = admission;
    worker->set = &admission->sets[index];
    int err = serve_shard_init(&worker->shard, admission->server, index, true);
    if (err)
        return err;
    serve_expiry_by_main(&worker->expiry, &worker->shard, admission->server);
    pthread_attr_init(&worker->attributes);
    pthread_attr_setstacksize(&worker->attributes, SERVE_KERNEL_STACK_SIZE);
    pthread_attr_setdetachstate(&worker->attributes, PTHREAD_CREATE_DETACHED);
    return -pthread_create(&worker->thread, NULL, accept_all, worker);
}

static int run(struct serve_server *server)
{
    const struct serve_admission_options admits = {.max = server->options->max_connections,
                                                   .places = server->options->max_connections};
    struct serve_admission *admission = NULL;
    struct worker *workers = calloc(server->workers, sizeof *workers);
    unsigned started = 0;
    serve_block_signals();
    int err = workers ? serve_admission_new(server, &admits, &admission) : -ENOMEM;
    while (!err && started < server->workers) {
        err = start(&workers[started], admission, started);
        started += !err;
    }
    if (!err)
        err = serve_wait(server);
    if (admission)
        serve_admission_drain(admission);
    for (unsigned i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    if (admission)
        serve_admission_wait_empty(admission);
    for (unsigned i = 0; workers && i < server->workers; i++)
        serve_shard_done(&workers[i].shard);
    serve_admission_free(admission);
    free(workers);
    return err;
}

const struct serve_arch serve_arch_thread = {
    .name = "thread",
    .summary = "a kernel thread for each connection",
    .workers = "kernel threads that accept, each with a listening socket and a file cache",
    .min_workers = 1,
    .run = run,
};
