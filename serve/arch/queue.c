/* Accepting threads and workers around a queue: the former accept connections and push them; a
 * worker pops one, answers a request, and pushes the connection again.
 *
 *     listening socket (one an address, for all)
 *        |
 *        v                                     two-lock queue
 *     accepting threads                   .-----------------------.        workers
 *     +-------------------------------+   |                       |   +--------------------+
 *     | one at a time                 |-->| dummy, first, ... last|-->| receive            |
 *     | acquire a slot, accept        |   |                       |   | HTTP               |--> end
 *     +-------------------------------+   `-----------------------'   | send               |
 *                                           ^                  ^      +--------------------+
 *                                           |                  `---------'  |
 *                                           |         or, with --nonblocking,
 *                                           |         if its client is not ready
 *                                           |                               v
 *                                           `---------------------------- parking: a thread that
 *                                                                         watches sockets
 *
 * A worker waits for its connection's client, and meanwhile serves no other: as many idle clients
 * as there are workers hold up all others, each for 10 seconds, and longer the longer the queue was
 * when it was accepted. With --nonblocking no worker waits. */
#include "serve/accept/parking.h"
#include "serve/arch/arch.h"
#include "serve/connection/two_lock_queue.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>

/* Of one connection, before another gets its turn. */
#define STEPS_MAX 64

/* How long a connection may be idle or queued, and so much longer for each connection that was in
 * the queue when it was accepted. */
#define TIMEOUT_NS (10 * GS_SECOND)
#define TIMEOUT_PER_QUEUED_NS (GS_SECOND / 50)

struct queue_connection {
    struct serve_kernel kernel;
    struct serve_queue_node *node; /* its own while it is not in the queue */
    uint64_t timeout_ns;
    struct serve_parked parked;
    unsigned events; /* that ended its parking */
    bool was_parked;
};

struct queue_server {
    struct serve_admission *admission;
    struct serve_shards shards;
    struct serve_queue items;
    struct serve_parking parking;
    pthread_t *threads;
    unsigned acceptors, started; /* threads; the acceptors come first */
    atomic_uint accepted;        /* connections */
    bool parks;
};

static void enqueue(struct queue_server *queue, struct queue_connection *connection)
{
    serve_queue_push(&queue->items, connection->node, connection);
}

static void on_unparked(void *queue, struct serve_parked *parked, unsigned events)
{
    struct queue_connection *connection = gs_container_of(parked, struct queue_connection, parked);
    connection->events = events;
    connection->was_parked = true;
    enqueue(queue, connection);
}

/* ---- Accepting threads ---- */

static void add_connection(struct queue_server *queue, const struct serve_accepted *accepted)
{
    struct queue_connection *connection = calloc(1, sizeof *connection);
    struct serve_queue_node *node = malloc(sizeof *node);
    if (!connection || !node) {
        free(connection);
        free(node);
        serve_refuse_accepted(accepted->fd);
        serve_admission_release(queue->admission);
        return;
    }
    unsigned shard = atomic_fetch_add(&queue->accepted, 1) % queue->shards.count;
    serve_kernel_init(&connection->kernel, queue->admission, &queue->shards.items[shard], accepted);
    connection->kernel.blocking.never_waits = queue->parks;
    serve_parked_init(&connection->parked, &connection->kernel.blocking);
    connection->node = node;
    connection->timeout_ns = TIMEOUT_NS + serve_queue_length(&queue->items) * TIMEOUT_PER_QUEUED_NS;
    connection->kernel.idle_limit_ns = gs_clock_now() + connection->timeout_ns;
    enqueue(queue, connection);
}

static void *run_acceptor(void *argument)
{
    struct queue_server *queue = argument;
    struct serve_accepted accepted;
    while (serve_listener_set_accept(&queue->admission->sets[0], NULL, &accepted) != -ECANCELED)
        add_connection(queue, &accepted);
    return NULL;
}

/* ---- Workers ---- */

static void end(struct queue_server *queue, struct queue_connection *connection)
{
    serve_kernel_done(&connection->kernel);
    serve_admission_release(queue->admission);
    free(connection->node);
    free(connection);
}

/* Note what has happened to it while it was queued or parked. */
static void catch_up(struct queue_connection *connection)
{
    struct serve_blocking *blocking = &connection->kernel.blocking;
    blocking->has_received = false;
    if (connection->was_parked)
        serve_blocking_ready(blocking, connection->events);
    connection->was_parked = false;
    serve_kernel_check_idle(&connection->kernel, gs_clock_now());
}

static bool is_answered(const struct serve_blocking *blocking)
{
    return blocking->has_received && gs_http_conn_is_idle(&blocking->base.http);
}

/* Serve it until a request is answered; or, if it never waits, as far as that needs no waiting.
 * Returns whether it can go on without waiting. */
static bool answer(struct serve_blocking *blocking)
{
    unsigned steps = 0;
    while (!serve_blocking_is_over(blocking) &&
           (blocking->never_waits ? steps++ < STEPS_MAX : !is_answered(blocking)))
        if (!serve_blocking_step(blocking))
            return false;
    return true;
}

static void serve(struct queue_server *queue, struct queue_connection *connection)
{
    struct serve_blocking *blocking = &connection->kernel.blocking;
    catch_up(connection);
    bool has_more = answer(blocking);
    if (is_answered(blocking))
        connection->kernel.idle_limit_ns = gs_clock_now() + connection->timeout_ns;
    if (serve_blocking_is_over(blocking)) {
        end(queue, connection);
    } else if (queue->parks && !has_more) {
        if (serve_park(&queue->parking, &connection->parked))
            end(queue, connection);
    } else {
        serve_shard_flush(blocking->base.shard);
        enqueue(queue, connection);
    }
}

static void *run_worker(void *argument)
{
    struct queue_server *queue = argument;
    struct queue_connection *connection;
    struct serve_queue_node *node;
    while ((connection = serve_queue_pop(&queue->items, &node))) {
        connection->node = node;
        serve(queue, connection);
    }
    return NULL;
}

/* ---- Start and end ---- */

static int start(struct queue_server *queue, unsigned count)
{
    int err = 0;
    for (; !err && queue->started < count; queue->started += !err)
        err = serve_kernel_thread_create(
            &queue->threads[queue->started],
            queue->started < queue->acceptors ? run_acceptor : run_worker, queue);
    return err;
}

/* Accepting threads end when the listeners are shut down, workers when no connection is left. */
static void finish(struct queue_server *queue)
{
    unsigned acceptors = queue->started < queue->acceptors ? queue->started : queue->acceptors;
    serve_admission_drain(queue->admission);
    for (unsigned i = 0; i < acceptors; i++)
        pthread_join(queue->threads[i], NULL);
    if (queue->started > acceptors)
        serve_admission_wait_empty(queue->admission);
    serve_queue_close(&queue->items, queue->started - acceptors);
    for (unsigned i = acceptors; i < queue->started; i++)
        pthread_join(queue->threads[i], NULL);
}

static int run_with_queue(struct queue_server *queue, struct serve_server *server)
{
    int err = 0;
    if (queue->parks)
        err = serve_parking_start(&queue->parking, queue->admission, on_unparked, queue);
    if (err)
        return err;
    err = start(queue, server->workers);
    if (!err)
        err = serve_wait(server);
    finish(queue);
    if (queue->parks)
        serve_parking_stop(&queue->parking);
    return err;
}

static int run(struct serve_server *server)
{
    const struct serve_admission_options admits = {.max = server->options->max_connections,
                                                   .places = server->options->max_connections};
    struct queue_server queue = {
        .parks = server->options->nonblocking,
        .acceptors = server->workers / 2,
        .threads = calloc(server->workers, sizeof *queue.threads),
    };
    serve_block_signals();
    int err = queue.threads ? serve_admission_new(server, &admits, &queue.admission) : -ENOMEM;
    if (!err)
        err = serve_shards_init(&queue.shards, server);
    if (!err)
        err = serve_queue_init(&queue.items);
    if (!err) {
        err = run_with_queue(&queue, server);
        serve_queue_done(&queue.items);
    }
    serve_shards_done(&queue.shards);
    serve_admission_free(queue.admission);
    free(queue.threads);
    return err;
}

const struct serve_arch serve_arch_queue = {
    .name = "queue",
    .summary =
        "kernel threads that accept, and others that take one request at a time from a queue",
    .workers = "kernel threads, half of which accept, by default 25 for each processor",
    .min_workers = 2,
    .workers_per_processor = 25,
    .has_single_listener = true,
    .has_nonblocking = true,
    .run = run,
};
