#include "http_server/connection.h"

#include "http/head_end.h"
#include "http/request.h"
#include "http_server/streams.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>
#include <string.h>

/* ---- The life of a connection ---- */

struct gs_http_connection *gs_http_connection_new(struct gs_http_sessions *sessions, int fd)
{
    struct gs_http_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->sessions = sessions;
    connection->fd = fd;
    connection->is_first = true;
    atomic_fetch_add(&sessions->open, 1);
    return connection;
}

static void *free_connection(void *argument)
{
    struct gs_http_connection *connection = argument;
    struct gs_http_sessions *sessions = connection->sessions;
    gs_http_tls_free(connection);
    free(connection->input);
    free(connection);
    gs_semaphore_post(&sessions->slots);
    /* Pairs with gs_http_workers_enter: the server reads `open` after that. */
    if (atomic_fetch_sub(&sessions->open, 1) == 1 && atomic_load(&sessions->phase))
        gs_semaphore_post(&sessions->all_ended);
    return NULL;
}

void gs_http_connection_free(struct gs_http_connection *connection)
{
    gs_thread_call_on_worker_stack(free_connection, connection);
}

/* ---- The head of a request ---- */

/* Empty lines before a request are ignored (RFC 9112, 2.2). */
static void skip_empty_lines(struct gs_http_connection *connection)
{
    while (gs_http_input_length(connection) >= 2 && !memcmp(gs_http_input(connection), "\r\n", 2))
        gs_http_input_consume(connection, 2);
}

/* The status to refuse an incomplete head with; 0: none. */
static unsigned short size_status(const struct gs_http_connection *connection)
{
    return (unsigned short)gs_http_request_check_size(
        gs_http_input(connection), gs_http_input_length(connection), &connection->sessions->limits);
}

/* Whether the input begins with a complete head, or with one that is to be refused. */
static bool find_head(struct gs_http_connection *connection)
{
    if (connection->head_length || connection->status)
        return true;
    if (!connection->scanned)
        skip_empty_lines(connection);
    size_t n = gs_http_input_length(connection);
    if (!n)
        return false;
    const char *bytes = gs_http_input(connection);
    ssize_t length = gs_http_find_head_end(bytes, n, &connection->scanned);
    connection->has_begun = true;
    if (length > 0)
        connection->head_length = (size_t)length;
    else
        connection->status = length < 0 ? 400 : size_status(connection);
    return length > 0 || connection->status;
}

enum gs_http_progress gs_http_connection_next(struct gs_http_connection *connection)
{
    if (gs_http_tls_has_output(connection) &&
        gs_http_tls_flush(connection, gs_http_write_deadline(connection)))
        return GS_HTTP_ENDED;
    if (find_head(connection))
        return GS_HTTP_READY;
    if (gs_http_tls_has_failed(connection))
        return GS_HTTP_ENDED;
    if (!connection->is_readable && !connection->has_ended &&
        !gs_resumable_may_call(connection->fd, GS_READ))
        return GS_HTTP_INCOMPLETE;
    connection->is_readable = false;
    ssize_t n = gs_http_input_receive(connection, 0);
    if (n == -ETIMEDOUT)
        return GS_HTTP_INCOMPLETE;
    if (n <= 0)
        return GS_HTTP_ENDED;
    connection->has_begun = true;
    return find_head(connection) ? GS_HTTP_READY : GS_HTTP_INCOMPLETE;
}

/* ---- Without a thread ---- */

void gs_http_connection_close(struct gs_http_connection *connection)
{
    gs_http_tls_end_now(connection);
    gs_close(connection->fd);
    free_connection(connection);
}

static void *close_on_worker_stack(void *connection)
{
    gs_http_connection_close(connection);
    return NULL;
}

/* End the resumable. */
static void end(struct gs_http_connection *connection)
{
    gs_resumable_unwatch(&connection->resumable);
    if (connection->state == GS_HTTP_CONNECTION_WAITING)
        gs_http_worker_remove(connection, GS_HTTP_CONNECTION_SERVED);
    connection->state = GS_HTTP_CONNECTION_SERVED;
    gs_resumable_end(&connection->resumable);
}

static enum gs_http_wait wait_of(const struct gs_http_connection *connection)
{
    return connection->has_begun  ? GS_HTTP_WAITS_HEAD
           : connection->is_first ? GS_HTTP_WAITS_FIRST
                                  : GS_HTTP_WAITS_NEXT;
}

/* Receive what is there, or else watch the descriptor. Returns as gs_http_input_receive_now. */
static ssize_t receive_or_watch(struct gs_http_connection *connection)
{
    bool may_receive = connection->has_ended || gs_resumable_may_call(connection->fd, GS_READ);
    for (;;) {
        ssize_t n = may_receive ? gs_http_input_receive_now(connection) : -EAGAIN;
        if (n != -EAGAIN && n != -EINTR)
            return n;
        int watched = gs_resumable_watch(&connection->resumable, connection->fd, GS_READ);
        if (watched <= 0)
            return watched ? watched : -EAGAIN;
        may_receive = true;
    }
}

/* The first bytes of a request are received by the thread that will serve it. */
static enum gs_http_progress wait_for_request(struct gs_http_connection *connection)
{
    int watched = 1;
    if (connection->state != GS_HTTP_CONNECTION_WAITING)
        watched = gs_http_worker_keep(connection, wait_of(connection));
    if (!watched)
        watched = gs_resumable_watch(&connection->resumable, connection->fd, GS_READ);
    connection->is_readable = watched > 0;
    return watched > 0 ? GS_HTTP_READY : watched ? GS_HTTP_ENDED : GS_HTTP_INCOMPLETE;
}

/* The rest of a head is received here, so that a client that sends it in small parts costs no
 * threads. After incomplete input others have their turn. */
static enum gs_http_progress receive_head(struct gs_http_connection *connection)
{
    if (find_head(connection))
        return GS_HTTP_READY;
    ssize_t n = receive_or_watch(connection);
    if (gs_http_tls_has_failed(connection))
        return GS_HTTP_READY; /* to a thread, which lingers */
    if (n > 0) {
        if (find_head(connection) || gs_http_tls_has_output(connection))
            return GS_HTTP_READY;
        gs_resumable_again(&connection->resumable);
    }
    bool is_open = n > 0 || n == -EAGAIN;
    return is_open && !gs_http_worker_keep(connection, GS_HTTP_WAITS_HEAD) ? GS_HTTP_INCOMPLETE
                                                                           : GS_HTTP_ENDED;
}

/* A request that has arrived in time is served, although the worker was too busy to see it. */
static enum gs_http_progress time_out(struct gs_http_connection *connection)
{
    if (gs_http_input_receive_now(connection) > 0 && !connection->has_begun) {
        connection->has_begun = true;
        return receive_head(connection);
    }
    if (find_head(connection))
        return GS_HTTP_READY;
    if (!gs_http_input_length(connection))
        return GS_HTTP_ENDED;
    connection->status = 408;
    return GS_HTTP_READY;
}

static void resume(struct gs_resumable *resumable)
{
    struct gs_http_connection *connection =
        gs_container_of(resumable, struct gs_http_connection, resumable);
    enum gs_http_progress progress = GS_HTTP_ENDED;
    struct gs_http_worker *worker = connection->worker;
    bool gives_way = connection->state == GS_HTTP_CONNECTION_CLOSING;
    gs_resumable_unwatch(resumable);
    if (connection->speaks_http2) {
        gs_http_streams_resume(connection);
        if (gives_way)
            atomic_store(&worker->eviction, 0);
        return;
    }
    if (connection->state == GS_HTTP_CONNECTION_TIMED_OUT)
        progress = time_out(connection);
    else if (connection->state <= GS_HTTP_CONNECTION_WAITING)
        progress = connection->has_begun ? receive_head(connection) : wait_for_request(connection);
    if (progress == GS_HTTP_INCOMPLETE)
        return;
    end(connection);
    if (progress == GS_HTTP_ENDED ||
        gs_scope_spawn(&connection->worker->threads, gs_http_session_run, connection, 0))
        gs_http_connection_close(connection);
    if (gives_way)
        atomic_store(&worker->eviction, 0);
}

void gs_http_connection_wait(struct gs_http_connection *connection)
{
    struct gs_http_sessions *sessions = connection->sessions;
    if (!connection->worker) /* workers that the runtime has added are no homes */
        connection->worker = &sessions->workers[(gs_threads_worker() - 1) % sessions->worker_count];
    gs_resumable_init(&connection->resumable, resume);
    if (gs_resumable_start(&connection->resumable, connection->worker->number))
        gs_thread_call_on_worker_stack(close_on_worker_stack, connection);
}
