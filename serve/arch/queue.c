/* Greeters and workers around a queue: greeters accept connections and put them into it; a worker takes one, answers a request, and puts
 * the connection back.
 *
 *     listening socket (one an address, for all)
 *        |
 *        v                                     two-lock queue
 *     greeters                            .-----------------------.        workers
 *     +-------------------------------+   |                       |   +--------------------+
 *     | door: one at a time           |-->| dummy, first, ... last|-->| receive            |
 *     | take a place, accept          |   |                       |   | HTTP               |--> over
 *     +-------------------------------+   `-----------------------'   | send               |
 *                                           ^                  ^      +--------------------+
 *                                           |                  `---------'  |
 *                                           |         or, with --nonblocking,
 *                                           |         if its client is not ready
 *                                           |                               v
 *                                           `---------------------------- parking: a thread that watches sockets
 *
 * A worker waits for its connection's client, and meanwhile serves nobody else: as many idle clients as there are workers hold up all
 * others, each for 10 seconds, and longer the longer the queue was when it was accepted. With --nonblocking no worker waits. */
#include "serve/arch/arch.h"
#include "serve/parking.h"
#include "serve/two_lock_queue.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>

#define STACK_SIZE (256 << 10)

/* How long a connection may take for a request, and be in the queue. */
#define TIMEOUT_NS (10 * GS_SECOND)
#define TIMEOUT_OF_EACH_NS (GS_SECOND / 50) /* in the queue when it was accepted */

struct client {
    struct serve_blocking blocking;
    struct serve_queue_node *node; /* while it is not in the queue */
    uint64_t timeout_ns;
    struct serve_parked parked;
    unsigned events; /* for which it was handed on */
    bool was_parked;
};

struct site {
    struct serve_gate *gate;
    struct serve_shards shards;
    struct serve_queue queue;
    struct serve_parking parking;
    pthread_t *threads;
    unsigned greeters, started;
    atomic_uint accepted;
    bool parks;
};

static void enqueue(struct site *site, struct client *client)
{
    serve_queue_put(&site->queue, client->node, client);
}

static void on_unparked(void *site, struct serve_parked *parked, unsigned events)
{
    struct client *client = gs_container_of(parked, struct client, parked);
    client->events = events;
    client->was_parked = true;
    enqueue(site, client);
}

/* ---- Greeters ---- */

static void greet(struct site *site, const struct serve_arrival *arrival)
{
    struct client *client = calloc(1, sizeof *client);
    struct serve_queue_node *node = malloc(sizeof *node);
    if (!client || !node) {
        free(client);
        free(node);
        gs_sys_close(arrival->fd);
        serve_gate_leave(site->gate);
        return;
    }
    unsigned shard = atomic_fetch_add(&site->accepted, 1) % site->shards.count;
    serve_blocking_init(&client->blocking, site->gate, &site->shards.items[shard], arrival);
    serve_parked_init(&client->parked, &client->blocking);
    client->node = node;
    client->timeout_ns = TIMEOUT_NS + serve_queue_length(&site->queue) * TIMEOUT_OF_EACH_NS;
    client->blocking.limit_ns = gs_clock_now() + client->timeout_ns;
    enqueue(site, client);
}

static void *run_greeter(void *argument)
{
    struct site *site = argument;
    struct serve_arrival arrival;
    while (serve_door_accept(&site->gate->doors[0], &arrival) != -ECANCELED)
        greet(site, &arrival);
    return NULL;
}

/* ---- Workers ---- */

static void end(struct client *client)
{
    serve_blocking_done(&client->blocking);
    free(client->node);
    free(client);
}

/* What has come to it while it was in the queue, or before. */
static void catch_up(struct client *client)
{
    struct serve_blocking *blocking = &client->blocking;
    blocking->has_received = false;
    if (client->was_parked)
        serve_blocking_ready(blocking, client->events);
    client->was_parked = false;
    serve_blocking_limit(blocking, gs_clock_now());
}

static bool is_answered(const struct serve_blocking *blocking)
{
    return blocking->has_received && gs_http_conn_is_idle(&blocking->base.http);
}

/* Go on until what was asked is answered, or else as far as it goes without waiting. Returns whether it could go on at once. */
static bool answer(struct serve_blocking *blocking, bool waits)
{
    bool has_more = true;
    while (!serve_blocking_is_over(blocking)) {
        has_more = serve_blocking_advance(blocking);
        if (!waits || serve_blocking_is_over(blocking) || is_answered(blocking))
            break;
        if (!has_more)
            serve_blocking_wait(blocking);
    }
    return has_more;
}

static void serve(struct site *site, struct client *client)
{
    struct serve_blocking *blocking = &client->blocking;
    catch_up(client);
    bool has_more = answer(blocking, !site->parks);
    if (is_answered(blocking))
        blocking->limit_ns = gs_clock_now() + client->timeout_ns;
    if (serve_blocking_is_over(blocking)) {
        end(client);
    } else if (site->parks && !has_more) {
        if (serve_park(&site->parking, &client->parked))
            end(client);
    } else {
        serve_shard_settle(blocking->base.shard);
        enqueue(site, client);
    }
}

static void *run_worker(void *argument)
{
    struct site *site = argument;
    struct client *client;
    struct serve_queue_node *node;
    while ((client = serve_queue_take(&site->queue, &node))) {
        client->node = node;
        serve(site, client);
    }
    return NULL;
}

/* ---- All of it ---- */

/* The greeters first. Returns 0 or -errno. */
static int start(struct site *site, unsigned count)
{
    pthread_attr_t attributes;
    int err = -pthread_attr_init(&attributes);
    if (err)
        return err;
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    for (; !err && site->started < count; site->started += !err)
        err = -pthread_create(&site->threads[site->started], &attributes,
                              site->started < site->greeters ? run_greeter : run_worker, site);
    pthread_attr_destroy(&attributes);
    return err;
}

/* Greeters end when the door is closed, workers when nobody is left whom they could serve. */
static void finish(struct site *site)
{
    unsigned greeters = site->started < site->greeters ? site->started : site->greeters;
    serve_gate_drain(site->gate);
    for (unsigned i = 0; i < greeters; i++)
        pthread_join(site->threads[i], NULL);
    if (site->started > greeters)
        serve_gate_wait_empty(site->gate);
    serve_queue_close(&site->queue, site->started - greeters);
    for (unsigned i = greeters; i < site->started; i++)
        pthread_join(site->threads[i], NULL);
}

static int run_with_gate(struct site *site, struct serve_server *server)
{
    struct serve_queue_node *dummy = malloc(sizeof *dummy);
    int err = dummy ? 0 : -ENOMEM;
    site->threads = calloc(server->workers, sizeof *site->threads);
    if (!site->threads)
        err = -ENOMEM;
    if (!err)
        err = serve_shards_init(&site->shards, server);
    if (!err && site->parks)
        err = serve_parking_start(&site->parking, site->gate, on_unparked, site);
    if (err) {
        free(dummy);
        return err;
    }
    serve_queue_init(&site->queue, dummy);
    err = start(site, server->workers);
    if (!err)
        err = serve_wait(server);
    finish(site);
    if (site->parks)
        serve_parking_stop(&site->parking);
    serve_queue_done(&site->queue);
    return err;
}

static int run(struct serve_server *server)
{
    struct site site = {
        .parks = server->options->nonblocking,
        .greeters = server->workers / 2,
    };
    serve_block_signals();
    int err = serve_gate_new(server, server->options->connections_most, &site.gate);
    if (err)
        return err;
    err = run_with_gate(&site, server);
    serve_shards_done(&site.shards);
    free(site.threads);
    serve_gate_free(site.gate);
    return err;
}

const struct serve_arch serve_arch_queue = {
    .name = "queue",
    .summary =
        "kernel threads that accept, and others that take one request at a time from a queue",
    .workers = "kernel threads, half of which accept, by default 25 for each processor",
    .workers_least = 2,
    .workers_a_processor = 25,
    .is_one_door = true,
    .has_nonblocking = true,
    .run = run,
};
