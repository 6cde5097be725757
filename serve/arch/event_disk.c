/* What would wait for a disk. The loop takes the steps that do not wait; the others are taken
 * by kernel threads of the loop's pool, and then the connection goes on:
 *
 *     load: the next operation would wait  --> pool: the rest of the load --> on_done --> advance
 *     send: the part is not in memory      --> pool: sendfile             --> on_done --> advance
 *
 * Until then the connection takes no other step, and is not freed. */
#include "serve/arch/event.h"

#include "http/page.h"
#include "serve/connection/file_op.h"

#include <stdlib.h>

struct event_disk {
    struct gs_work work;
    struct event_connection *connection;
    struct gs_http_load *load; /* NULL: the output is sent */
    struct serve_output output;
    ssize_t sent;
};

static struct event_disk *disk_of(struct gs_work *work)
{
    return gs_container_of(work, struct event_disk, work);
}

static struct event_worker *worker_of(const struct event_connection *connection)
{
    return connection->timer.watcher.data;
}

/* ---- In a kernel thread of the pool ---- */

static void run_load(struct gs_work *work)
{
    gs_http_load_run(disk_of(work)->load);
}

static void run_send(struct gs_work *work)
{
    struct event_disk *disk = disk_of(work);
    disk->sent = serve_output_send(&disk->output, disk->connection->base.fd);
}

/* ---- In the loop ---- */

/* What never started is completed without the disk, except that a file is closed. */
static void finish_load(struct event_worker *worker, struct event_disk *disk, int result)
{
    if (result) {
        gs_http_load_refuse(disk->load);
        gs_http_load_run(disk->load);
    }
    serve_connection_loaded(&disk->connection->base, disk->load, gs_loop_now(worker->loop));
}

static void note_sent(struct event_worker *worker, struct event_connection *connection,
                      const struct serve_output *output, ssize_t n)
{
    connection->send_nomem = serve_is_nomem(n);
    worker->transport->sent(connection, n);
    serve_connection_sent(&connection->base, output, n, gs_loop_now(worker->loop));
}

/* The time that the disk has taken does not count as the peer's. */
static void finish_send(struct event_worker *worker, struct event_disk *disk)
{
    struct serve_connection *base = &disk->connection->base;
    note_sent(worker, disk->connection, &disk->output, disk->sent);
    gs_http_conn_restart_rate(&base->http, gs_loop_now(worker->loop));
}

static void on_done(struct gs_work *work, int result)
{
    struct event_disk *disk = disk_of(work);
    struct event_connection *connection = disk->connection;
    struct event_worker *worker = worker_of(connection);
    connection->disk = NULL;
    if (disk->load)
        finish_load(worker, disk, result);
    else if (!event_is_over(connection) && !connection->is_ending)
        finish_send(worker, disk);
    free(disk);
    if (connection->is_ending)
        event_release(worker, connection);
    else
        worker->transport->advance(worker, connection);
}

/* Hand over a load, or output. Returns false if that fails. */
static bool hand_over(struct event_connection *connection, struct gs_http_load *load,
                      const struct serve_output *output)
{
    struct event_disk *disk = malloc(sizeof *disk);
    if (!disk)
        return false;
    disk->connection = connection;
    disk->load = load;
    if (output)
        disk->output = *output;
    gs_work_init(&disk->work, worker_of(connection)->loop, on_done);
    if (gs_work_start(&disk->work, load ? run_load : run_send)) {
        free(disk);
        return false;
    }
    connection->disk = disk;
    return true;
}

bool event_load(struct event_worker *worker, struct event_connection *connection)
{
    struct gs_http_load *load = gs_http_conn_take_load(&connection->base.http);
    struct gs_http_file_op op;
    bool has_more;
    int64_t result;
    while ((has_more = gs_http_load_next(load, &op)) && serve_file_op_try(&op, &result))
        gs_http_load_set_result(load, result);
    if (has_more && hand_over(connection, load, NULL))
        return false;
    gs_http_load_run(load);
    gs_loop_update_now(worker->loop);
    serve_connection_loaded(&connection->base, load, gs_loop_now(worker->loop));
    return true;
}

static bool may_wait_for_disk(struct event_worker *worker, const struct serve_output *output)
{
    if (!output->is_file)
        return false;
    const struct gs_page_cache_file file = {output->fd, &output->page->stat};
    return !gs_page_cache_has_file(&worker->page_cache, &file, output->offset, output->n,
                                   gs_loop_now(worker->loop));
}

static bool send_file(struct event_worker *worker, struct event_connection *connection)
{
    struct serve_output output;
    serve_connection_output(&connection->base, &output);
    if (may_wait_for_disk(worker, &output) && hand_over(connection, NULL, &output))
        return false;
    note_sent(worker, connection, &output, serve_output_send(&output, connection->base.fd));
    return true;
}

bool event_send(struct event_worker *worker, struct event_connection *connection)
{
    if (serve_connection_sends_file(&connection->base))
        return send_file(worker, connection);
    ssize_t n = serve_connection_send(&connection->base, gs_loop_now(worker->loop));
    connection->send_nomem = serve_is_nomem(n);
    worker->transport->sent(connection, n);
    return true;
}

bool event_end_disk(struct event_connection *connection)
{
    if (connection->disk)
        gs_work_cancel(&connection->disk->work);
    return !connection->disk;
}
