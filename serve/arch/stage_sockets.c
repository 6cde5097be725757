/* The stage of `stage` that waits for sockets: it runs in a loop's thread, accepts, receives, watches deadlines and closes. */
#include "serve/arch/stage.h"

#include "serve/loops.h"
#include "serve/server.h"

#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>

/* ---- Its end ---- */

static void destroy(struct staged *staged)
{
    struct stage_worker *worker = staged->worker;
    gs_io_stop(&staged->io);
    gs_timer_stop(&staged->timer);
    gs_loop_fd_closed(worker->loop, staged->base.fd);
    serve_connection_done(&staged->base);
    gs_list_remove(&staged->link);
    free(staged);
    serve_places_leave(&worker->site->places);
    if (!--worker->connection_count && worker->is_draining)
        gs_loop_stop(worker->loop);
}

/* ---- Receiving ---- */

/* Bytes, the end or an error are on their way to the stage `http`. False: there is nothing. */
static bool receive(struct staged *staged)
{
    struct stage_worker *worker = staged->worker;
    ssize_t n;
    do
        n = gs_sys_recv(staged->base.fd, worker->buffer, sizeof worker->buffer, 0);
    while (n == -EINTR);
    bool has_more = n == (ssize_t)sizeof worker->buffer || (n > 0 && staged->has_hung_up);
    if (!has_more)
        atomic_fetch_and(&staged->flags, ~(unsigned)STAGED_READABLE);
    if (n == -EAGAIN)
        return false;
    staged->n = n;
    worker->received++;
    if (n > 0) {
        staged->bytes = malloc((size_t)n);
        if (staged->bytes)
            memcpy(staged->bytes, worker->buffer, (size_t)n);
        else
            staged->n = -ENOMEM;
    }
    (void)!gs_outbox_put(gs_stage_outbox(worker->sockets), worker->site->http, &staged->event);
    return true;
}

/* ---- Waiting ---- */

static int watch_deadline(struct staged *staged, uint64_t now_ns)
{
    struct gs_timer *timer = &staged->timer;
    int err = serve_watch_deadline(timer, &staged->base, staged->lacks, now_ns);
    staged->watched_ns = timer->watcher.active ? timer->deadline_ns : GS_NEVER;
    return err;
}

/* Have the loop tell of what the connection will wait for. */
static int watch(struct staged *staged, uint64_t now_ns)
{
    unsigned wants = gs_http_conn_wants(&staged->base.http);
    if (staged->worker->is_by_level)
        gs_io_want(&staged->io, (wants & GS_HTTP_READ ? GS_READ : 0) |
                                    (wants & GS_HTTP_WRITE && !staged->lacks ? GS_WRITE : 0));
    int err = staged->is_watched ? 0 : gs_io_start(&staged->io);
    staged->is_watched = !err;
    return err ? err : watch_deadline(staged, now_ns);
}

/* Once the server is going down: what has come by then is still answered. True: some has come. */
static bool drain(struct staged *staged, uint64_t now_ns)
{
    if (!staged->is_taken && gs_http_conn_wants(&staged->base.http) & GS_HTTP_READ) {
        staged->is_taken = true;
        if (receive(staged)) {
            atomic_fetch_or(&staged->flags, STAGED_ATTENTION);
            return true;
        }
    }
    serve_connection_drain(&staged->base, now_ns);
    staged->is_drained = true;
    return false;
}

/* The connection is the stage's: do what is to be done here, and send it on. */
static void attend(struct staged *staged)
{
    struct stage_worker *worker = staged->worker;
    struct gs_http_conn *http = &staged->base.http;
    uint64_t now_ns = gs_loop_now(worker->loop);
    atomic_fetch_and(&staged->flags, ~(unsigned)STAGED_ATTENTION);
    if (staged->has_failed || atomic_load_explicit(&worker->site->is_over, memory_order_relaxed))
        gs_http_conn_abort(http);
    if (gs_http_conn_deadline(http) <= now_ns)
        serve_connection_expire(&staged->base, now_ns);
    if (worker->is_draining && !staged->is_drained && !(gs_http_conn_wants(http) & GS_HTTP_CLOSE) &&
        drain(staged, now_ns))
        return;
    unsigned wants = gs_http_conn_wants(http), flags = atomic_load(&staged->flags);
    bool may_send = wants & GS_HTTP_WRITE && flags & STAGED_WRITABLE && !staged->lacks;
    if (wants & GS_HTTP_READ && flags & STAGED_READABLE && !may_send && receive(staged))
        return;
    if (wants & GS_HTTP_CLOSE || watch(staged, now_ns)) {
        destroy(staged);
        return;
    }
    stage_go_on(staged, gs_stage_outbox(worker->sockets), now_ns, true);
}

void stage_handle_sockets(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    (void)data;
    while ((event = gs_batch_take(batch)))
        attend(gs_container_of(event, struct staged, event));
}

/* ---- What the loop tells ---- */

/* Note the news; attend to the connection if no stage is busy with it. */
static void claim(struct staged *staged, unsigned news)
{
    if (!(atomic_fetch_or(&staged->flags, STAGED_BUSY | news) & STAGED_BUSY))
        attend(staged);
}

static void on_events(struct gs_io *io, unsigned events)
{
    struct staged *staged = gs_container_of(io, struct staged, io);
    unsigned news = events & GS_READ ? STAGED_READABLE : 0;
    news |= events & GS_WRITE ? STAGED_WRITABLE : 0;
    staged->has_hung_up |= (events & GS_HANGUP) != 0;
    if (events & GS_FAILED) {
        staged->has_failed = true;
        news |= STAGED_ATTENTION;
    }
    if (staged->worker->is_by_level)
        gs_io_want(io, 0);
    claim(staged, news);
}

static void on_deadline(struct gs_timer *timer)
{
    struct staged *staged = gs_container_of(timer, struct staged, timer);
    if (atomic_fetch_or(&staged->flags, STAGED_BUSY | STAGED_ATTENTION) & STAGED_BUSY)
        return;
    staged->lacks = false;
    attend(staged);
}

void stage_accepted(void *data, int fd, const struct sockaddr *address)
{
    struct stage_worker *worker = data;
    struct staged *staged = calloc(1, sizeof *staged);
    if (!staged) {
        serve_places_leave(&worker->site->places);
        gs_sys_close(fd);
        return;
    }
    serve_connection_init(&staged->base, fd, &worker->shard, address, gs_loop_now(worker->loop));
    staged->worker = worker;
    staged->watched_ns = GS_NEVER;
    atomic_init(&staged->flags, STAGED_BUSY | STAGED_READABLE | STAGED_WRITABLE);
    gs_io_init(&staged->io, worker->loop, on_events);
    gs_io_set(&staged->io, fd, GS_READ | GS_WRITE | (worker->is_by_level ? 0 : GS_EDGE));
    gs_timer_init(&staged->timer, worker->loop, on_deadline);
    gs_list_append(&worker->connections, &staged->link);
    worker->connection_count++;
    attend(staged);
}

void stage_sockets_drain(struct stage_worker *worker)
{
    GS_LIST_EACH(link, &worker->connections)
    {
        struct staged *staged = gs_container_of(link, struct staged, link);
        claim(staged, STAGED_ATTENTION);
    }
}
