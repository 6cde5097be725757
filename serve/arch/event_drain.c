/* How a worker of the architecture `event` ends. */
#include "serve/arch/event.h"
#include "serve/operations/server.h"

/* Iterations in which to wait for bytes that have arrived to the sockets when the server begins to
 * drain. */
#define DRAIN_PASSES_MAX 100

/* What is answered from now on is the last of its connection; and the kernel is to accept no more
 * connections ahead. */
static void start_draining(struct event_worker *worker)
{
    worker->is_draining = true;
    GS_LIST_FOREACH (link, &worker->connections) {
        struct event_connection *connection = gs_container_of(link, struct event_connection, link);
        serve_connection_announce_end(&connection->base);
    }
    serve_acceptors_cancel(&worker->acceptors);
}

/* Whether bytes that have arrived to the sockets may not have been delivered yet. */
static bool may_have_more(struct event_worker *worker)
{
    bool is_more = !worker->transport->take && worker->received != worker->received_before;
    worker->received_before = worker->received;
    return is_more;
}

/* One pass of collecting what has arrived at the listeners and sockets. Returns false after the
 * last. */
static bool collect_more(struct event_worker *worker)
{
    bool is_patient = worker->drain_passes++ < DRAIN_PASSES_MAX;
    if (is_patient && !serve_acceptors_are_idle(&worker->acceptors))
        return true;
    if (!worker->has_stopped_accepting) {
        serve_acceptors_finish(&worker->acceptors);
        worker->has_stopped_accepting = true;
        worker->received_before = UINT64_MAX;
    }
    return is_patient && may_have_more(worker);
}

static void drain_connections(struct event_worker *worker)
{
    uint64_t now_ns = gs_loop_now(worker->loop);
    GS_LIST_FOREACH (link, &worker->connections) {
        struct event_connection *connection = gs_container_of(link, struct event_connection, link);
        if (connection->is_ending)
            continue;
        if (worker->transport->take)
            worker->transport->take(worker, connection, now_ns);
        serve_connection_drain(&connection->base, now_ns);
        worker->transport->advance(worker, connection);
    }
}

/* Connections that are pending are accepted, requests that were received answered, and then all is
 * closed. */
static void on_drain(struct gs_async *async)
{
    struct event_worker *worker = async->watcher.data;
    if (!worker->is_draining)
        start_draining(worker);
    if (collect_more(worker)) {
        gs_async_send(&worker->drain);
        return;
    }
    drain_connections(worker);
    uint64_t end_ns =
        gs_clock_after(gs_loop_now(worker->loop), worker->server->options->drain_timeout_ns);
    if (!worker->connection_count || gs_timer_start(&worker->drain_end, end_ns))
        gs_loop_stop(worker->loop);
}

static void on_drain_end(struct gs_timer *timer)
{
    gs_loop_stop(timer->watcher.loop);
}

void event_init_draining(struct event_worker *worker)
{
    gs_async_init(&worker->drain, worker->loop, on_drain);
    gs_timer_init(&worker->drain_end, worker->loop, on_drain_end);
    worker->drain.watcher.data = worker;
    gs_async_start(&worker->drain);
}
