/* Four threads that exchange events, after SandStorm's: one accepts, one reads, one writes, and one
 * is the application, which alone knows HTTP.
 *
 *      listener (one a worker)        sockets                            sockets
 *         |                              |                                  ^
 *         v                              v                                  |
 *      accepting                      reading                            writing
 *         | new connection             |   ^ READ          sent |   ^ WRITE |
 *         |                      bytes |   |                    |   |
 *         v                            v   |                    v   |
 *      +------------------------------- application --------------------------------+
 *      |   HTTP, the file cache, deadlines; files are loaded inline                  |
 *      +----------------------------------------------------------------------------+
 *
 * Each thread is a loop with a queue of events. A connection has one event for each direction,
 * which is with the application or on its way: so no member is used by two threads at a time.
 * Here is the application; quad_sockets.c has the threads that read and write, and quad_life.c
 * starts and ends all. */
#include "serve/arch/quad.h"
#include "serve/accept/accept.h"

#include "serve/connection/loops.h"
#include "serve/connection/tls.h"
#include "serve/connection/turn.h"
#include "serve/operations/server.h"

#include <stdlib.h>

void quad_send(struct quad_group *group, int from, int to, struct quad_event *event)
{
    struct gs_stage *stage = group->threads[to].stage;
    (void)!(from == QUAD_ACCEPTING
                ? gs_stage_enqueue(stage, &event->event)
                : gs_outbox_add(gs_stage_outbox(group->threads[from].stage), stage, &event->event));
}

static uint64_t now_of(const struct quad_group *group)
{
    return gs_loop_now(group->threads[QUAD_APPLICATION].loop);
}

static void drop_bytes(struct quad_connection *connection)
{
    if (gs_list_is_linked(&connection->postponed_link))
        gs_list_remove(&connection->postponed_link);
    free(connection->bytes);
    connection->bytes = NULL;
}

/* ---- The application: what a connection wants ---- */

static void start_closing(struct quad_connection *connection)
{
    connection->is_closing = true;
    if (gs_list_is_linked(&connection->postponed_link))
        drop_bytes(connection);
    gs_timer_stop(&connection->timer);
    quad_send(connection->group, QUAD_APPLICATION, QUAD_READING, &connection->close);
}

static void advance(struct quad_connection *connection)
{
    struct serve_connection *base = &connection->base;
    struct quad_group *group = connection->group;
    while (serve_load_or_shut_down(group->threads[QUAD_APPLICATION].loop, base))
        ;
    unsigned wants = serve_connection_wants(base);
    if (wants & GS_HTTP_CLOSE ||
        serve_watch_deadline(&connection->timer, base, connection->send_nomem, now_of(group))) {
        start_closing(connection);
        return;
    }
    if (wants & GS_HTTP_WRITE && !connection->is_writing && !connection->send_nomem) {
        serve_connection_output(base, &connection->output);
        connection->is_writing = true;
        quad_send(group, QUAD_APPLICATION, QUAD_WRITING, &connection->write);
    }
    if (wants & GS_HTTP_READ && !connection->is_reading) {
        connection->is_reading = true;
        quad_send(group, QUAD_APPLICATION, QUAD_READING, &connection->read);
    }
}

static void on_deadline(struct gs_timer *timer)
{
    struct quad_connection *connection = gs_container_of(timer, struct quad_connection, timer);
    uint64_t now_ns = now_of(connection->group);
    connection->send_nomem = false;
    if (gs_http_conn_deadline(&connection->base.http) <= now_ns)
        serve_connection_expire(&connection->base, now_ns);
    advance(connection);
}

/* ---- Events that come to the application ---- */

void quad_accepted(void *data, const struct serve_accepted *accepted)
{
    struct quad_group *group = data;
    struct quad_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        serve_slots_release(group->slots);
        serve_refuse_accepted(accepted->fd);
        return;
    }
    connection->group = group;
    connection->accepted = *accepted;
    connection->writing.is_ready = true;
    connection->read = (struct quad_event){.kind = QUAD_READ, .connection = connection};
    connection->write = (struct quad_event){.kind = QUAD_WRITE, .connection = connection};
    connection->close = (struct quad_event){.kind = QUAD_OPEN, .connection = connection};
    quad_send(group, QUAD_ACCEPTING, QUAD_APPLICATION, &connection->close);
}

static void on_open(struct quad_connection *connection)
{
    struct quad_group *group = connection->group;
    connection->close.kind = QUAD_CLOSE;
    serve_connection_init(&connection->base, &connection->accepted, &group->shard, now_of(group));
    gs_timer_init(&connection->timer, group->threads[QUAD_APPLICATION].loop, on_deadline);
    gs_list_append(&group->connections, &connection->link);
    group->connection_count++;
    advance(connection);
}

/* Whether a part of a request came before the server began to drain. */
static bool is_half_received(const struct serve_connection *base)
{
    return serve_connection_wants(base) == GS_HTTP_READ && !gs_http_conn_is_idle(&base->http);
}

static void take_bytes(struct quad_connection *connection)
{
    struct serve_connection *base = &connection->base;
    uint64_t now_ns = now_of(connection->group);
    connection->is_reading = false;
    /* Its answer says that it is the last, even if the drain has not come to it yet. */
    if (atomic_load(&connection->group->is_draining) && is_half_received(base))
        serve_connection_drain(base, now_ns);
    serve_connection_received(base, connection->bytes, connection->n, now_ns);
    drop_bytes(connection);
}

/* are_others: there are some before it. */
static bool must_postpone(const struct quad_connection *connection, bool are_others)
{
    const struct serve_connection *base = &connection->base;
    uint64_t looked_ns = now_of(connection->group);
    return base->is_tls && connection->n > 0 && serve_tls_makes_handshake(base) &&
           ((are_others && !base->tls) || serve_turn_must_wait(base, looked_ns, looked_ns));
}

/* While it is postponed it counts as reading, so that nothing else is read. */
static void on_read(struct quad_connection *connection)
{
    struct quad_group *group = connection->group;
    if (connection->is_closing) {
        drop_bytes(connection);
    } else if (must_postpone(connection, !gs_list_is_empty(&group->postponed))) {
        gs_list_append(&group->postponed, &connection->postponed_link);
        gs_async_send(&group->turn);
    } else {
        take_bytes(connection);
    }
}

void quad_take_postponed(struct quad_group *group, bool is_all)
{
    while (!gs_list_is_empty(&group->postponed)) {
        struct quad_connection *connection =
            gs_container_of(group->postponed.next, struct quad_connection, postponed_link);
        if (!is_all && must_postpone(connection, false)) {
            gs_async_send(&group->turn);
            return;
        }
        take_bytes(connection);
        advance(connection);
    }
}

static void on_written(struct quad_connection *connection)
{
    connection->is_writing = false;
    if (connection->is_closing)
        return;
    connection->send_nomem = serve_is_nomem(connection->sent);
    serve_connection_sent(&connection->base, &connection->output, connection->sent,
                          now_of(connection->group));
}

static void on_closed(struct quad_connection *connection)
{
    struct quad_group *group = connection->group;
    serve_connection_done(&connection->base);
    gs_list_remove(&connection->link);
    free(connection);
    serve_slots_release(group->slots);
    if (!--group->connection_count && group->drain_phase == QUAD_ENDS)
        gs_loop_stop(group->threads[QUAD_APPLICATION].loop);
}

static void drain_connections(struct quad_group *group)
{
    struct gs_loop *loop = group->threads[QUAD_APPLICATION].loop;
    uint64_t end_ns = gs_clock_after(gs_loop_now(loop), group->server->options->drain_timeout_ns);
    quad_take_postponed(group, true);
    GS_LIST_FOREACH (link, &group->connections) {
        struct quad_connection *connection = gs_container_of(link, struct quad_connection, link);
        if (connection->is_closing)
            continue;
        serve_connection_drain(&connection->base, gs_loop_now(loop));
        advance(connection);
    }
    if (!group->connection_count)
        gs_loop_stop(loop);
    else if (gs_timer_start(&group->drain_end, end_ns))
        quad_close_all(group);
}

/* First all that can be written is written, then all that has arrived is read: a client that has
 * its answer may have sent the next request. */
static void on_drain(struct quad_group *group)
{
    group->drain_phase++;
    if (group->drain_phase == QUAD_WRITES)
        quad_send(group, QUAD_APPLICATION, QUAD_WRITING, &group->draining);
    else if (group->drain_phase == QUAD_READS)
        quad_send(group, QUAD_APPLICATION, QUAD_READING, &group->draining);
    else
        drain_connections(group);
}

void quad_close_all(struct quad_group *group)
{
    GS_LIST_FOREACH (link, &group->connections) {
        struct quad_connection *connection = gs_container_of(link, struct quad_connection, link);
        if (!connection->is_closing)
            start_closing(connection);
    }
}

bool quad_evict(void *data)
{
    struct quad_group *group = data;
    struct serve_candidates candidates;
    if (atomic_load(&group->is_draining))
        return true;
    serve_candidates_init(&candidates);
    for (unsigned i = 0; i < SERVE_EVICTION_CANDIDATES && i < group->connection_count; i++) {
        struct gs_list *link = group->connections.next;
        struct quad_connection *connection = gs_container_of(link, struct quad_connection, link);
        gs_list_remove(link);
        gs_list_append(&group->connections, link);
        serve_candidates_add(&candidates, connection, serve_connection_address(&connection->base),
                             connection->is_closing ? SERVE_BUSY
                                                    : serve_connection_waits(&connection->base));
    }
    struct quad_connection *chosen = serve_candidates_take(&candidates);
    if (!chosen)
        return false;
    serve_eviction_count(group->server->evictions);
    serve_connection_end_input(&chosen->base);
    return true;
}

void quad_handle_application(struct gs_batch *batch, void *data)
{
    struct gs_event *next;
    while ((next = gs_batch_next(batch))) {
        struct quad_event *event = gs_container_of(next, struct quad_event, event);
        struct quad_connection *connection = event->connection;
        switch (event->kind) {
        case QUAD_OPEN:
            on_open(connection);
            continue;
        case QUAD_CLOSE:
            on_closed(connection);
            continue;
        case QUAD_DRAIN:
            on_drain(data);
            continue;
        case QUAD_READ:
            on_read(connection);
            break;
        case QUAD_WRITE:
            on_written(connection);
            break;
        }
        if (!connection->is_closing)
            advance(connection);
    }
}
