/* An event loop that accepts eagerly: in each iteration, before any connection is served, all
 * pending ones are accepted into a queue of the program's own, where they wait for their first
 * turn. So the kernel's accept queue hardly ever overflows, however long the requests take, and
 * connections are served in the order in which they came.
 *
 *     listener (one a worker, SO_REUSEPORT)                    sockets
 *        | first of all, until none is pending                  |
 *        v                                                      v
 *     +----------------------- loop of a worker --------------------------+
 *     | accept --> queue --> advance: receive --> HTTP --> send, as far   |
 *     |      no bound    last of all, for    as it goes without waiting   |
 *     |                  a millisecond                                    |
 *     +-------------------------------------------------------------------+
 *
 * All else is as in `event` (event.c), where each connection has its first turn when it is
 * accepted. The queue is the newer part of the list of connections, from `waiting` on. */
#include "serve/arch/arch.h"
#include "serve/arch/event.h"
#include "serve/operations/server.h"

#include <limits.h>

/* How long connections have their first turns before pending ones are accepted again. */
#define TURN_NS GS_MILLISECOND

static void on_turn(struct gs_async *async)
{
    struct event_worker *worker = async->watcher.data;
    uint64_t end_ns = gs_clock_now() + TURN_NS;
    do {
        struct event_connection *connection = worker->waiting;
        if (!connection)
            return;
        worker->waiting = event_newer(worker, connection);
        connection->is_queued = false;
        atomic_fetch_sub_explicit(&worker->server->queued, 1, memory_order_relaxed);
        worker->transport->advance(worker, connection);
    } while (gs_clock_now() < end_ns);
    gs_async_send(async);
}

static void queue_connection(struct event_worker *worker, struct event_connection *connection)
{
    if (!worker->waiting)
        worker->waiting = connection;
    connection->is_queued = true;
    atomic_fetch_add_explicit(&worker->server->queued, 1, memory_order_relaxed);
    gs_async_send(&worker->turn);
}

static void init(struct event_worker *worker)
{
    worker->first_turn = queue_connection;
    for (unsigned i = 0; i < worker->server->address_count; i++) {
        struct serve_acceptor *acceptor = &worker->acceptors.items[i];
        acceptor->max_batch = UINT_MAX;
        gs_watcher_set_priority(&acceptor->io.watcher, 2);
        gs_watcher_set_priority(&acceptor->multishot.io.watcher, 2);
    }
    gs_async_init(&worker->turn, worker->loop, on_turn);
    gs_watcher_set_priority(&worker->turn.watcher, -2);
    worker->turn.watcher.data = worker;
    gs_async_start(&worker->turn);
}

static int run(struct serve_server *server)
{
    server->queue_name = "accepted";
    return event_run(server, init);
}

const struct serve_arch serve_arch_eager = {
    .name = "eager",
    .summary = "event, but all pending connections are accepted before any is served",
    .workers = "kernel threads, each with a loop, a listening socket and a queue",
    .min_workers = 1,
    .poller_reason = "io_uring was not measured",
    .run = run,
};
