/* How a worker of the architecture `event` closes connections to make room for others. */
#include "serve/arch/event.h"
#include "serve/server.h"

#include <gossamer/sys.h>
#include <stdatomic.h>

enum { BUSY, LINGERING, WAITS_FOR_HEAD, IDLE };

static int judge(const struct event_connection *connection)
{
    const struct gs_http_conn *http = &connection->base.http;
    if (connection->is_ending)
        return BUSY;
    if (connection->base.is_shut_down)
        return LINGERING;
    if (!gs_http_conn_awaits_head(http))
        return BUSY;
    return gs_http_conn_is_idle(http) ? IDLE : WAITS_FOR_HEAD;
}

/* The search goes on where the last one has ended. The earliest deadline belongs to the one that
 * has waited longest. NULL: none may be closed. */
static struct event_connection *choose(struct event_worker *worker)
{
    struct event_connection *best = NULL;
    int best_kind = BUSY;
    uint64_t count = worker->connection_count < SERVE_EVICTION_CANDIDATES
                         ? worker->connection_count
                         : SERVE_EVICTION_CANDIDATES;
    while (count--) {
        if (!worker->next_candidate || worker->next_candidate == &worker->connections)
            worker->next_candidate = worker->connections.next;
        struct event_connection *connection =
            gs_container_of(worker->next_candidate, struct event_connection, link);
        worker->next_candidate = worker->next_candidate->next;
        int kind = judge(connection);
        if (kind > best_kind || (kind && kind == best_kind &&
                                 gs_http_conn_deadline(&connection->base.http) <
                                     gs_http_conn_deadline(&best->base.http))) {
            best = connection;
            best_kind = kind;
        }
    }
    return best;
}

/* What has arrived at an idle one meanwhile is answered first: only if it then still waits for a
 * request does it end at once. Where the kernel receives, it delivers what has arrived before the
 * end, which closes the connection. */
static bool evict(struct event_worker *worker)
{
    struct event_connection *connection = choose(worker);
    uint64_t now_ns = gs_loop_now(worker->loop);
    if (!connection)
        return false;
    if (!worker->transport->take) {
        serve_eviction_count(worker->server->evictions);
        gs_sys_shutdown(connection->base.fd, SHUT_RD);
        return true;
    }
    if (gs_http_conn_wants(&connection->base.http) & GS_HTTP_READ)
        worker->transport->take(worker, connection, now_ns);
    int kind = judge(connection);
    if (kind == IDLE)
        serve_connection_drain(&connection->base, now_ns);
    else if (kind != BUSY)
        gs_http_conn_abort(&connection->base.http);
    if (kind != BUSY)
        serve_eviction_count(worker->server->evictions);
    bool makes_room = event_is_over(connection);
    worker->transport->advance(worker, connection);
    return makes_room;
}

/* left: how many workers have not been asked. If two requests meet at a worker, they go on as one:
 * a worker that still lacks a slot after a pause asks again. */
static void ask_next(struct event_worker *worker, unsigned left)
{
    unsigned at = worker->acceptors.index;
    while (left--) {
        at = (at + 1) % worker->server->workers;
        struct event_worker *peer = __atomic_load_n(&worker->peers[at], __ATOMIC_ACQUIRE);
        if (!peer)
            continue;
        atomic_store(&peer->workers_to_ask, left);
        gs_async_send(&peer->evict);
        return;
    }
}

/* A worker without a connection that may be closed asks another one, which asks the next: so one
 * connection is closed. */
void event_make_room(void *data)
{
    struct event_worker *worker = data;
    if (!worker->is_draining && !evict(worker))
        ask_next(worker, worker->server->workers - 1);
}

static void on_evict(struct gs_async *async)
{
    struct event_worker *worker = async->watcher.data;
    unsigned left = atomic_exchange(&worker->workers_to_ask, 0);
    if (!worker->is_draining && !evict(worker))
        ask_next(worker, left);
}

void event_init_evicting(struct event_worker *worker)
{
    gs_async_init(&worker->evict, worker->loop, on_evict);
    worker->evict.watcher.data = worker;
    gs_async_start(&worker->evict);
}
