/* An event loop that accepts eagerly: in each turn, before anybody is served, all who have connected are accepted into a queue of
 * the program's own, where they wait for their first turn. So the kernel's accept queue hardly ever overflows, however long
 * the requests take, and who has to wait is in the order in which all came.
 *
 *     listener (one a worker, SO_REUSEPORT)                    sockets
 *        | first of all, until there is nobody                    |
 *        v                                                        v
 *     +----------------------- loop of a worker --------------------------+
 *     | accept --> queue --> advance: receive --> HTTP --> send, as far   |
 *     |      no bound    last of all, for    as it goes without waiting;  |
 *     |                  a millisecond       files are loaded inline      |
 *     +-------------------------------------------------------------------+
 *
 * All else is as in `event` (event.c), which has each connection go on as soon as it is accepted. The queue is the newer part of
 * the list of connections, from `waiting` on. */
#include "serve/arch/arch.h"
#include "serve/arch/event.h"
#include "serve/server.h"

#include <limits.h>

/* For so long connections have their first turns before the listeners are looked at again. */
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
        atomic_fetch_sub_explicit(&worker->server->queued, 1, memory_order_relaxed);
        event_advance(worker, connection);
    } while (gs_clock_now() < end_ns);
    gs_async_send(async);
}

static void init(struct event_worker *worker)
{
    for (unsigned i = 0; i < worker->server->address_count; i++) {
        worker->acceptors[i].most = UINT_MAX;
        gs_watcher_set_priority(&worker->acceptors[i].io.watcher, 2);
        gs_watcher_set_priority(&worker->acceptors[i].each.io.watcher, 2);
    }
    gs_async_init(&worker->turn, worker->loop, on_turn);
    gs_watcher_set_priority(&worker->turn.watcher, -2);
    worker->turn.watcher.data = worker;
    gs_async_start(&worker->turn);
}

static void accepted(struct event_worker *worker, struct event_connection *connection)
{
    if (!worker->waiting)
        worker->waiting = connection;
    atomic_fetch_add_explicit(&worker->server->queued, 1, memory_order_relaxed);
    gs_async_send(&worker->turn);
}

static int run(struct serve_server *server)
{
    static const struct event_manner eagerly = {.init = init, .accepted = accepted};
    server->queue_name = "accepted";
    return event_run(server, &eagerly);
}

const struct serve_arch serve_arch_eager = {
    .name = "eager",
    .summary = "event, but all who have connected are accepted before anybody is served",
    .workers = "kernel threads, each with a loop, a listening socket and a queue",
    .workers_least = 1,
    .run = run,
};
