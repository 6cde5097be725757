/* Connections by completions: the kernel receives and sends, and requests go to it with the system
 * call that waits.
 *
 *     kernel --- bytes, in a buffer of the loop's ---> HTTP --- pages to send ---> kernel
 *        `-------------------- sent --------------------^
 *
 * One request to receive (multishot) lasts as long as the connection, and takes memory only for
 * bytes that have arrived. What comes while HTTP wants nothing is kept, and receiving pauses. Files
 * are sent by sendfile, which waits for room by readiness. What sending needs exists only while
 * something is sent: an idle connection should be small. */
#include "serve/arch/event.h"

#include <stdlib.h>
#include <string.h>

/* Output is being sent, or there is no room for a file. */
struct ring_sending {
    struct ring_connection *ring;
    bool waits_for_room;
    union {
        struct gs_op send;
        struct gs_io room;
    };
    struct serve_output output; /* unless it waits for room */
    struct msghdr message;
};

struct ring_connection {
    struct event_connection connection;
    struct gs_op receive;
    struct ring_sending *sending; /* NULL: nothing */
    char *kept;                   /* received, and not wanted yet */
    size_t kept_n;
    int end; /* how receiving ended: 0 or -errno */
    bool has_ended, is_blocked;
};

static struct ring_connection *ring_of(const struct event_connection *connection)
{
    return gs_container_of(connection, struct ring_connection, connection);
}

static struct event_worker *worker_of(const struct ring_connection *ring)
{
    return ring->connection.timer.watcher.data;
}

static void advance(struct event_worker *worker, struct event_connection *connection);

/* ---- Receiving ---- */

static bool keep(struct ring_connection *ring, const char *bytes, size_t n)
{
    char *kept = realloc(ring->kept, ring->kept_n + n);
    if (!kept)
        return false;
    memcpy(kept + ring->kept_n, bytes, n);
    ring->kept = kept;
    ring->kept_n += n;
    return true;
}

static void take_bytes(struct ring_connection *ring, const char *bytes, size_t n)
{
    struct event_worker *worker = worker_of(ring);
    struct serve_connection *base = &ring->connection.base;
    worker->received++;
    if (!ring->kept_n && serve_connection_wants(base) & GS_HTTP_READ &&
        !event_must_wait(worker, &ring->connection)) {
        serve_connection_received(base, bytes, (ssize_t)n, gs_loop_now(worker->loop));
        return;
    }
    gs_op_cancel(&ring->receive);
    if (!keep(ring, bytes, n))
        gs_http_conn_abort(&base->http);
}

static void on_received(struct gs_op *op, int64_t result)
{
    struct ring_connection *ring = gs_container_of(op, struct ring_connection, receive);
    struct event_connection *connection = &ring->connection;
    if (connection->is_ending) {
        if (result <= 0)
            event_release(worker_of(ring), connection);
        return;
    }
    if (result > 0)
        take_bytes(ring, op->bytes, (size_t)result);
    else if (result != -ECANCELED)
        ring->has_ended = true;
    if (result <= 0)
        ring->end = (int)result;
    advance(worker_of(ring), connection);
}

/* Hand over what was kept, and then the end. */
static void hand_over(struct ring_connection *ring, uint64_t now_ns)
{
    struct serve_connection *base = &ring->connection.base;
    if (!ring->kept_n) {
        ring->has_ended = false;
        serve_connection_received(base, NULL, ring->end, now_ns);
        return;
    }
    serve_connection_received(base, ring->kept, (ssize_t)ring->kept_n, now_ns);
    free(ring->kept);
    ring->kept = NULL;
    ring->kept_n = 0;
}

/* ---- Sending ---- */

static void end_sending(struct ring_connection *ring)
{
    free(ring->sending);
    ring->sending = NULL;
}

static void on_sent(struct gs_op *op, int64_t result)
{
    const struct ring_sending *sending = gs_container_of(op, struct ring_sending, send);
    struct ring_connection *ring = sending->ring;
    struct event_connection *connection = &ring->connection;
    struct event_worker *worker = worker_of(ring);
    if (connection->is_ending) {
        event_release(worker, connection);
        return;
    }
    ssize_t n = result == -EINTR ? -EAGAIN : (ssize_t)result;
    serve_connection_sent(&connection->base, &sending->output, n, gs_loop_now(worker->loop));
    connection->send_nomem = serve_is_nomem(n);
    end_sending(ring);
    advance(worker, connection);
}

static struct ring_sending *begin_sending(struct ring_connection *ring, bool waits_for_room)
{
    struct ring_sending *sending = malloc(sizeof *sending);
    if (!sending)
        return NULL;
    sending->ring = ring;
    sending->waits_for_room = waits_for_room;
    ring->sending = sending;
    return sending;
}

static int start_send(struct ring_sending *sending)
{
    struct serve_output *output = &sending->output;
    int fd = sending->ring->connection.base.fd;
    if (output->count == 1)
        return gs_op_send(&sending->send, fd, output->parts[0].iov_base, output->parts[0].iov_len,
                          output->flags);
    sending->message = (struct msghdr){.msg_iov = output->parts, .msg_iovlen = output->count};
    return gs_op_sendmsg(&sending->send, fd, &sending->message, output->flags);
}

static int send_memory(struct ring_connection *ring)
{
    struct ring_sending *sending = begin_sending(ring, false);
    if (!sending)
        return -ENOMEM;
    gs_op_init(&sending->send, worker_of(ring)->loop, on_sent);
    serve_connection_output(&ring->connection.base, &sending->output);
    int err = start_send(sending);
    if (err)
        end_sending(ring);
    return err;
}

/* Returns false if the pool sends. */
static bool send_some(struct ring_connection *ring)
{
    struct event_connection *connection = &ring->connection;
    if (connection->base.tls || serve_connection_sends_file(&connection->base))
        return event_send(worker_of(ring), connection);
    if (send_memory(ring))
        gs_http_conn_abort(&connection->base.http);
    return true;
}

static void on_room(struct gs_io *io, unsigned events)
{
    struct ring_connection *ring = gs_container_of(io, struct ring_sending, room)->ring;
    if (events & GS_FAILED)
        gs_http_conn_abort(&ring->connection.base.http);
    gs_io_stop(io);
    end_sending(ring);
    ring->is_blocked = false;
    advance(worker_of(ring), &ring->connection);
}

static int watch_room(struct ring_connection *ring)
{
    struct ring_sending *sending = begin_sending(ring, true);
    if (!sending)
        return -ENOMEM;
    gs_io_init(&sending->room, worker_of(ring)->loop, on_room);
    gs_io_set(&sending->room, ring->connection.base.fd, GS_WRITE);
    return gs_io_start(&sending->room);
}

/* ---- The transport ---- */

static void init(struct event_worker *worker, struct event_connection *connection)
{
    struct ring_connection *ring = ring_of(connection);
    gs_op_init(&ring->receive, worker->loop, on_received);
    ring->sending = NULL;
    ring->kept = NULL;
    ring->kept_n = 0;
    ring->end = 0;
    ring->has_ended = ring->is_blocked = false;
}

static void sent(struct event_connection *connection, ssize_t n)
{
    ring_of(connection)->is_blocked = n == -EAGAIN;
}

/* Do one thing that the socket allows. Returns false if there is none. */
static bool step(struct event_worker *worker, struct event_connection *connection, uint64_t now_ns)
{
    struct ring_connection *ring = ring_of(connection);
    unsigned wants = serve_connection_wants(&connection->base);
    bool may_send = !ring->sending && !ring->is_blocked && !connection->send_nomem;
    if (connection->disk)
        return false;
    if (wants & GS_HTTP_WRITE && may_send)
        return send_some(ring);
    if (wants & GS_HTTP_LOAD)
        return event_load(worker, connection);
    if (wants & GS_HTTP_SHUTDOWN)
        serve_connection_shut_down(&connection->base, now_ns);
    else if (wants & GS_HTTP_READ && (ring->kept_n || ring->has_ended))
        hand_over(ring, now_ns);
    else
        return false;
    return true;
}

/* Have what it waits for reported; again: it has more to do after the others' turn. Returns 0 or
 * -errno. */
static int watch(struct event_worker *worker, struct event_connection *connection, bool again)
{
    struct ring_connection *ring = ring_of(connection);
    bool is_wanted = serve_connection_wants(&connection->base) & GS_HTTP_READ;
    int err = 0;
    if (is_wanted && !ring->has_ended && !gs_op_is_active(&ring->receive))
        err = gs_op_recv_multishot(&ring->receive, connection->base.fd);
    if (!err && ring->is_blocked && !ring->sending)
        err = watch_room(ring);
    if (!err && again)
        err = gs_timer_start(&connection->timer, gs_loop_now(worker->loop));
    if (!err && again)
        gs_watcher_feed(&connection->timer.watcher, 0); /* before what is reported next */
    return err;
}

/* What has ended or failed is freed in its turn, too. */
static bool must_wait(const struct event_worker *worker, const struct event_connection *connection)
{
    const struct ring_connection *ring = ring_of(connection);
    bool has_come = ring->kept_n || ring->has_ended || event_is_over(connection);
    return has_come && event_must_wait(worker, connection);
}

static void advance(struct event_worker *worker, struct event_connection *connection)
{
    unsigned steps = 0;
    if (connection->is_ending)
        return;
    if (must_wait(worker, connection)) {
        if (watch(worker, connection, true))
            event_release(worker, connection);
        return;
    }
    while (steps < EVENT_STEPS_MAX && step(worker, connection, gs_loop_now(worker->loop)))
        steps++;
    if (event_is_over(connection) || event_watch_deadline(worker, connection) ||
        watch(worker, connection, steps == EVENT_STEPS_MAX))
        event_release(worker, connection);
}

static void retry(struct event_connection *connection)
{
    connection->send_nomem = false;
}

static bool end(struct event_connection *connection)
{
    struct ring_connection *ring = ring_of(connection);
    struct ring_sending *sending = ring->sending;
    bool sends = sending && !sending->waits_for_room;
    if (sends)
        gs_op_cancel(&sending->send);
    else if (sending)
        gs_io_stop(&sending->room);
    gs_op_cancel(&ring->receive);
    if (gs_op_is_active(&ring->receive) || (sends && gs_op_is_active(&sending->send)))
        return false;
    end_sending(ring);
    free(ring->kept);
    return true;
}

const struct event_transport event_by_completions = {
    .connection_size = sizeof(struct ring_connection),
    .watcher_offset = offsetof(struct ring_connection, receive),
    .init = init,
    .advance = advance,
    .sent = sent,
    .retry = retry,
    .end = end,
};
