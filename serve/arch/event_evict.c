/* How a worker of the architecture `event` closes connections to make room for others. */
#include "serve/arch/event.h"
#include "serve/operations/server.h"

/* The search goes on where the last one has ended. NULL: none may be closed. */
static struct event_connection *choose(struct event_worker *worker)
{
    struct serve_candidates candidates;
    uint64_t count = worker->connection_count < SERVE_EVICTION_CANDIDATES
                         ? worker->connection_count
                         : SERVE_EVICTION_CANDIDATES;
    serve_candidates_init(&candidates);
    while (count--) {
        if (!worker->next_candidate || worker->next_candidate == &worker->connections)
            worker->next_candidate = worker->connections.next;
        struct event_connection *connection =
            gs_container_of(worker->next_candidate, struct event_connection, link);
        worker->next_candidate = worker->next_candidate->next;
        serve_candidates_add(&candidates, connection, serve_connection_address(&connection->base),
                             connection->is_ending ? SERVE_BUSY
                                                   : serve_connection_waits(&connection->base));
    }
    return serve_candidates_take(&candidates);
}

/* What has arrived at an idle one meanwhile is answered first: only if it then still waits for a
 * request does it end at once. */
static bool take_and_end(struct event_worker *worker, struct event_connection *connection)
{
    uint64_t now_ns = gs_loop_now(worker->loop);
    if (serve_connection_wants(&connection->base) & GS_HTTP_READ)
        worker->transport->take(worker, connection, now_ns);
    bool is_waiting = serve_connection_waits(&connection->base) != SERVE_BUSY;
    if (is_waiting && gs_http_conn_is_idle(&connection->base.http))
        serve_connection_drain(&connection->base, now_ns);
    else if (is_waiting)
        gs_http_conn_abort(&connection->base.http);
    if (is_waiting)
        serve_eviction_count(worker->server->evictions);
    bool makes_room = event_is_over(connection);
    worker->transport->advance(worker, connection);
    return makes_room;
}

/* Where the kernel receives, it delivers what has arrived before the end, which closes the
 * connection. */
bool event_evict(void *data)
{
    struct event_worker *worker = data;
    struct event_connection *connection = worker->is_draining ? NULL : choose(worker);
    if (!connection)
        return worker->is_draining;
    if (worker->transport->take)
        return take_and_end(worker, connection);
    serve_eviction_count(worker->server->evictions);
    serve_connection_end_input(&connection->base);
    return true;
}
