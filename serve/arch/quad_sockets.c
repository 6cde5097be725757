/* The reading and the writing thread of the architecture `quad`. Each does for a socket what an
 * event asks, waits for the socket if it must, and sends the event back with the result. */
#include "serve/arch/quad.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>

static bool is_level_triggered(const struct quad_connection *connection, int thread)
{
    return connection->group->threads[thread].is_level_triggered;
}

/* Have the loop report when the socket is ready. Returns 0 or -errno. */
static int wait_for(struct quad_connection *connection, int thread)
{
    struct quad_side *side = thread == QUAD_READING ? &connection->reading : &connection->writing;
    unsigned wanted = thread == QUAD_READING ? GS_READ : GS_WRITE;
    side->is_asked = true;
    if (is_level_triggered(connection, thread))
        gs_io_set_events(&side->io, wanted);
    return side->io.watcher.active ? 0 : gs_io_start(&side->io);
}

static void note(struct quad_side *side, unsigned events, bool is_level)
{
    side->is_ready = true;
    side->has_hung_up |= (events & (GS_HANGUP | GS_FAILED)) != 0;
    if (is_level && !(events & GS_FAILED))
        gs_io_set_events(&side->io, 0);
}

/* ---- Reading ---- */

/* Send bytes, the end or an error back. Returns false if there is nothing to receive. */
static bool read_some(struct quad_connection *connection)
{
    struct quad_group *group = connection->group;
    struct quad_side *side = &connection->reading;
    ssize_t n;
    do
        n = gs_sys_recv(connection->base.fd, group->buffer, sizeof group->buffer, 0);
    while (n == -EINTR);
    side->is_ready = n == (ssize_t)sizeof group->buffer || (n > 0 && side->has_hung_up);
    if (n == -EAGAIN)
        return false;
    connection->n = n;
    connection->bytes = n > 0 ? malloc((size_t)n) : NULL;
    if (connection->bytes)
        memcpy(connection->bytes, group->buffer, (size_t)n);
    else if (n > 0)
        connection->n = -ENOMEM;
    side->is_asked = false;
    quad_send(group, QUAD_READING, QUAD_APPLICATION, &connection->read);
    return true;
}

static void send_back_error(struct quad_connection *connection, int err)
{
    connection->n = err;
    connection->reading.is_asked = false;
    quad_send(connection->group, QUAD_READING, QUAD_APPLICATION, &connection->read);
}

static void read_or_wait(struct quad_connection *connection)
{
    if (connection->reading.is_ready && read_some(connection))
        return;
    int err = wait_for(connection, QUAD_READING);
    if (err)
        send_back_error(connection, err);
}

static void on_readable(struct gs_io *io, unsigned events)
{
    struct quad_connection *connection = gs_container_of(io, struct quad_connection, reading.io);
    bool is_asked = connection->reading.is_asked;
    note(&connection->reading, events, is_level_triggered(connection, QUAD_READING));
    if (is_asked && events & GS_FAILED)
        send_back_error(connection, gs_io_error(io));
    else if (is_asked)
        read_or_wait(connection);
}

static void watch_reading(struct quad_connection *connection)
{
    struct quad_group *group = connection->group;
    gs_io_init(&connection->reading.io, group->threads[QUAD_READING].loop, on_readable);
    gs_io_set(&connection->reading.io, connection->base.fd,
              GS_READ | (is_level_triggered(connection, QUAD_READING) ? 0 : GS_EDGE));
    connection->reading.is_ready = true;
    gs_list_append(&group->reading, &connection->reading_link);
}

static void forget_reading(struct quad_connection *connection)
{
    if (!gs_list_is_linked(&connection->reading_link))
        return;
    gs_io_stop(&connection->reading.io);
    gs_loop_fd_closed(connection->group->threads[QUAD_READING].loop, connection->base.fd);
    gs_list_remove(&connection->reading_link);
}

/* Read all that has already arrived at the sockets. */
static void read_all(struct quad_group *group)
{
    GS_LIST_FOREACH (link, &group->reading) {
        struct quad_connection *connection =
            gs_container_of(link, struct quad_connection, reading_link);
        if (connection->reading.is_asked)
            read_some(connection);
    }
}

void quad_handle_reading(struct gs_batch *batch, void *data)
{
    struct quad_group *group = data;
    struct gs_event *next;
    while ((next = gs_batch_next(batch))) {
        struct quad_event *event = gs_container_of(next, struct quad_event, event);
        if (event->kind == QUAD_READ) {
            if (!gs_list_is_linked(&event->connection->reading_link))
                watch_reading(event->connection);
            read_or_wait(event->connection);
        } else if (event->kind == QUAD_CLOSE) {
            forget_reading(event->connection);
            quad_send(group, QUAD_READING, QUAD_WRITING, event);
        } else {
            read_all(group);
            quad_send(group, QUAD_READING, QUAD_APPLICATION, event);
        }
    }
}

/* ---- Writing ---- */

static void send_back(struct quad_connection *connection, ssize_t sent)
{
    connection->sent = sent;
    connection->writing.is_asked = false;
    quad_send(connection->group, QUAD_WRITING, QUAD_APPLICATION, &connection->write);
}

/* That there is no room is also sent back; it is waited for when the event comes again. */
static void write_some(struct quad_connection *connection)
{
    ssize_t sent = serve_output_send(&connection->output, connection->base.fd);
    connection->writing.is_ready = sent != -EAGAIN;
    send_back(connection, sent);
}

static void on_writable(struct gs_io *io, unsigned events)
{
    struct quad_connection *connection = gs_container_of(io, struct quad_connection, writing.io);
    bool is_asked = connection->writing.is_asked;
    note(&connection->writing, events, is_level_triggered(connection, QUAD_WRITING));
    if (is_asked && events & GS_FAILED)
        send_back(connection, gs_io_error(io));
    else if (is_asked)
        write_some(connection);
}

/* The socket is watched from when it first has no room. */
static void write_or_wait(struct quad_connection *connection)
{
    struct quad_side *side = &connection->writing;
    if (side->is_ready) {
        write_some(connection);
        return;
    }
    if (!side->io.callback) {
        gs_io_init(&side->io, connection->group->threads[QUAD_WRITING].loop, on_writable);
        gs_io_set(&side->io, connection->base.fd,
                  GS_WRITE | (is_level_triggered(connection, QUAD_WRITING) ? 0 : GS_EDGE));
    }
    int err = wait_for(connection, QUAD_WRITING);
    if (err)
        send_back(connection, err);
}

static void forget_writing(struct quad_connection *connection)
{
    struct quad_side *side = &connection->writing;
    if (!side->io.callback)
        return;
    gs_io_stop(&side->io);
    gs_loop_fd_closed(connection->group->threads[QUAD_WRITING].loop, connection->base.fd);
}

void quad_handle_writing(struct gs_batch *batch, void *data)
{
    struct quad_group *group = data;
    struct gs_event *next;
    while ((next = gs_batch_next(batch))) {
        struct quad_event *event = gs_container_of(next, struct quad_event, event);
        if (event->kind == QUAD_WRITE) {
            write_or_wait(event->connection);
            continue;
        }
        if (event->kind == QUAD_CLOSE)
            forget_writing(event->connection);
        quad_send(group, QUAD_WRITING, QUAD_APPLICATION, event);
    }
}
