/* Connections by readiness: the kernel reports which sockets have something to read or room to
 * write, and each receive and send is a system call.
 *
 *     on_events --> advance --> step: receive --> HTTP; step: send ...        --> watch
 *                                     (connection.c)    (connection.c)
 *
 * A connection is advanced at once when it is accepted: bytes are usually there. Only if it then
 * has to wait is it registered with the kernel, once, for both directions; on level-triggered
 * pollers, for what it waits for at the time. */
#include "serve/arch/event.h"

struct ready_connection {
    struct event_connection connection;
    bool readable, writable; /* as far as is known */
    bool hung_up;            /* the end comes after what can be read */
    struct gs_io io;
};

static struct ready_connection *ready_of(const struct event_connection *connection)
{
    return gs_container_of(connection, struct ready_connection, connection);
}

/* ---- A request ---- */

/* Do one thing that the socket allows. Returns false if there is none. What has arrived is received
 * before more is sent: of HTTP/2 it may be a reset, or a request that is more urgent than a
 * download whose client reads so fast that there is always room. */
static bool step(struct event_worker *worker, struct ready_connection *ready, uint64_t now_ns)
{
    struct event_connection *connection = &ready->connection;
    struct serve_connection *base = &connection->base;
    unsigned wants = serve_connection_wants(base);
    if (connection->disk)
        return false;
    bool may_receive = wants & GS_HTTP_READ && ready->readable;
    if (wants & GS_HTTP_WRITE && ready->writable && !may_receive) {
        ready->writable = false;
        return event_send(worker, connection);
    }
    if (wants & GS_HTTP_LOAD)
        return event_load(worker, connection);
    if (wants & GS_HTTP_SHUTDOWN) {
        serve_connection_shut_down(base, now_ns);
    } else if (may_receive) {
        ssize_t n = serve_connection_receive(base, worker->buffer, sizeof worker->buffer, now_ns);
        ready->readable = n == (ssize_t)sizeof worker->buffer || (n > 0 && ready->hung_up);
    } else {
        return false;
    }
    return true;
}

/* Have what it waits for reported; again: it has more to do after the others' turn. Returns 0 or
 * -errno. */
static int watch(struct event_worker *worker, struct ready_connection *ready, bool again)
{
    const struct event_connection *connection = &ready->connection;
    if (worker->is_level_triggered) {
        unsigned wants = connection->disk ? 0 : serve_connection_wants(&connection->base);
        gs_io_set_events(&ready->io,
                         (wants & GS_HTTP_READ ? GS_READ : 0) |
                             (wants & GS_HTTP_WRITE && !connection->send_nomem ? GS_WRITE : 0));
    }
    int err = ready->io.watcher.active ? 0 : gs_io_start(&ready->io);
    if (!err && again)
        gs_watcher_feed(&ready->io.watcher, 0);
    return err;
}

/* What has failed is freed in its turn, too. */
static bool must_wait(const struct event_worker *worker, const struct event_connection *connection)
{
    bool has_come = ready_of(connection)->readable || event_is_over(connection);
    return has_come && event_must_wait(worker, connection);
}

static void advance(struct event_worker *worker, struct event_connection *connection)
{
    struct ready_connection *ready = ready_of(connection);
    unsigned steps = 0;
    if (connection->is_ending)
        return;
    if (must_wait(worker, connection)) {
        if (watch(worker, ready, true))
            event_release(worker, connection);
        return;
    }
    while (steps < EVENT_STEPS_MAX && step(worker, ready, gs_loop_now(worker->loop)))
        steps++;
    if (event_is_over(connection) || event_watch_deadline(worker, connection) ||
        watch(worker, ready, steps == EVENT_STEPS_MAX))
        event_release(worker, connection);
}

static void on_events(struct gs_io *io, unsigned events)
{
    struct ready_connection *ready = gs_container_of(io, struct ready_connection, io);
    if (events & GS_FAILED)
        gs_http_conn_abort(&ready->connection.base.http);
    ready->readable |= (events & GS_READ) != 0;
    ready->writable |= (events & GS_WRITE) != 0;
    ready->hung_up |= (events & GS_HANGUP) != 0;
    advance(io->watcher.data, &ready->connection);
}

/* ---- Its start and end ---- */

static void init(struct event_worker *worker, struct event_connection *connection)
{
    struct ready_connection *ready = ready_of(connection);
    ready->readable = ready->writable = true;
    ready->hung_up = false;
    gs_io_init(&ready->io, worker->loop, on_events);
    gs_io_set(&ready->io, connection->base.fd,
              GS_READ | GS_WRITE | (worker->is_level_triggered ? 0 : GS_EDGE));
    ready->io.watcher.data = worker;
}

/* If the pool found no room, there may be some since then: what was reported meanwhile stays. */
static void sent(struct event_connection *connection, ssize_t n)
{
    ready_of(connection)->writable |= n != -EAGAIN && !connection->send_nomem;
}

static void retry(struct event_connection *connection)
{
    ready_of(connection)->writable = true;
}

static void take(struct event_worker *worker, struct event_connection *connection, uint64_t now_ns)
{
    unsigned steps = 0;
    ready_of(connection)->readable = true;
    while (steps < EVENT_STEPS_MAX && step(worker, ready_of(connection), now_ns))
        steps++;
}

static bool end(struct event_connection *connection)
{
    gs_io_stop(&ready_of(connection)->io);
    return true;
}

const struct event_transport event_by_readiness = {
    .connection_size = sizeof(struct ready_connection),
    .watcher_offset = offsetof(struct ready_connection, io),
    .init = init,
    .advance = advance,
    .sent = sent,
    .retry = retry,
    .take = take,
    .end = end,
};
