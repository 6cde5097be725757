/* Stages, after SEDA and its web server Haboob: each request goes from stage to stage as an event
 * in their queues, and each stage has kernel threads of its own, which handle many events at a
 * time.
 *
 *                 listener (one a worker, SO_REUSEPORT), sockets
 *                                   |
 *                                   v   a loop for each worker
 *       .----------------------> sockets: accept, receive, deadlines, close
 *       |                           | bytes; those of handshakes go to a stage of their own
 *       |                           v   as many threads as workers
 *       |  ready, or at its end   http: requests, file cache, answers <--.
 *       |                           |   |   |                            |
 *       |                           |   |   `--> load: files ------------+   1 to 20 threads, one
 *       |                           |   |         | not in memory        |   request at a time
 *       |                           |   |         v                      |
 *       |                           |   |        disk: waits for it -----+   20 threads
 *       |                           |   |         ^                      |
 *       |                           |   `---------|-> make: bottleneck --'   as load; 503 if it
 *       |                           v             |                          does not admit more
 *       `--- parked: in no stage -- send: as many threads as workers
 *
 * No stage but disk and make ever waits for anything but its queue. The stages come first, then the
 * one that waits for sockets; stage_worker.c runs that one's loop, and stage_life.c starts and ends
 * all. */
#include "serve/arch/stage.h"
#include "serve/accept/accept.h"

#include "serve/connection/file_op.h"
#include "serve/connection/loops.h"
#include "serve/connection/tls.h"
#include "serve/operations/server.h"

#include <gossamer/page_cache.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>

static struct staged *staged_of(struct gs_event *event)
{
    return gs_container_of(event, struct staged, event);
}

/* To a stage whose queue has no limit. */
static void send_to(struct gs_outbox *outbox, struct gs_stage *stage, struct staged *staged)
{
    (void)!gs_outbox_add(outbox, stage, &staged->event);
}

/* Returns false if the stage does not admit it; then the request is answered with 503. */
static bool enqueue_load(struct staged *staged, struct gs_outbox *outbox, uint64_t now_ns)
{
    struct stage_graph *graph = staged->worker->graph;
    struct gs_http_load *load = gs_http_conn_take_load(&staged->base.http);
    const struct gs_http_generator *generator = gs_http_load_generator(load);
    bool is_heavy = generator && generator->data == &graph->server->bottleneck;
    staged->load = load;
    if (!gs_outbox_add(outbox, is_heavy ? graph->make : graph->load, &staged->event))
        return true;
    staged->load = NULL;
    gs_http_load_refuse(load);
    serve_connection_loaded(&staged->base, load, now_ns);
    return false;
}

/* Returns false if something is known to be ready, or the sockets' stage asks for it. */
static bool park(struct staged *staged, unsigned wants)
{
    unsigned needs = STAGED_ATTENTION;
    needs |= wants & GS_HTTP_READ ? STAGED_READABLE : 0;
    needs |= wants & GS_HTTP_WRITE && !staged->send_nomem ? STAGED_WRITABLE : 0;
    unsigned flags = atomic_load(&staged->flags);
    do
        if (flags & needs)
            return false;
    while (!atomic_compare_exchange_weak(&staged->flags, &flags, flags & ~(unsigned)STAGED_BUSY));
    return true;
}

/* Whether the sockets' stage has something to do before the connection may be parked. */
static bool needs_sockets(const struct staged *staged)
{
    return !staged->is_watched || staged->send_nomem || staged->worker->is_level_triggered ||
           gs_http_conn_deadline(&staged->base.http) < staged->watched_ns;
}

/* What has arrived is received before more is sent: of HTTP/2 it may be a reset, or a request that
 * is more urgent than a download whose client reads so fast that there is always room. */
void stage_advance(struct staged *staged, struct gs_outbox *outbox, uint64_t now_ns, bool is_here)
{
    struct stage_worker *worker = staged->worker;
    for (;;) {
        unsigned wants = serve_connection_wants(&staged->base);
        unsigned flags = atomic_load_explicit(&staged->flags, memory_order_relaxed);
        if (wants & GS_HTTP_CLOSE || flags & STAGED_ATTENTION) {
            send_to(outbox, worker->sockets, staged);
            return;
        }
        bool may_receive = wants & GS_HTTP_READ && flags & STAGED_READABLE;
        if (wants & GS_HTTP_WRITE && flags & STAGED_WRITABLE && !staged->send_nomem &&
            !may_receive) {
            send_to(outbox, worker->graph->send, staged);
            return;
        }
        if (wants & GS_HTTP_LOAD) {
            if (enqueue_load(staged, outbox, now_ns))
                return;
        } else if (wants & GS_HTTP_SHUTDOWN) {
            serve_connection_shut_down(&staged->base, now_ns);
        } else if (may_receive || (!is_here && needs_sockets(staged))) {
            send_to(outbox, worker->sockets, staged);
            return;
        } else if (park(staged, wants)) {
            return;
        }
    }
}

/* ---- The stages `http` and `handshake` ---- */

void stage_handle_http(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    (void)data;
    while ((event = gs_batch_next(batch))) {
        struct staged *staged = staged_of(event);
        struct gs_http_load *load = staged->load;
        staged->load = NULL;
        if (load) {
            serve_connection_loaded(&staged->base, load, batch->now_ns);
        } else {
            serve_connection_received(&staged->base, staged->bytes, staged->n, batch->now_ns);
            free(staged->bytes);
            staged->bytes = NULL;
        }
        stage_advance(staged, batch->outbox, batch->now_ns, false);
    }
}

/* ---- The stage `send` ---- */

/* On a level-triggered poller nothing is reported until the connection is parked, so there may be
 * bytes for one of HTTP/2 that has more to send. */
static void note_bytes(struct staged *staged)
{
    unsigned both = GS_HTTP_READ | GS_HTTP_WRITE;
    if (staged->worker->is_level_triggered && serve_connection_wants(&staged->base) == both)
        atomic_fetch_or(&staged->flags, STAGED_READABLE);
}

/* After -EAGAIN the flag is cleared and the send tried once more: so no report of room is lost. */
static void send_some(struct staged *staged, uint64_t now_ns)
{
    ssize_t n = serve_connection_send(&staged->base, now_ns);
    if (n == -EAGAIN) {
        atomic_fetch_and(&staged->flags, ~(unsigned)STAGED_WRITABLE);
        n = serve_connection_send(&staged->base, now_ns);
        if (n != -EAGAIN)
            atomic_fetch_or(&staged->flags, STAGED_WRITABLE);
    }
    staged->send_nomem = serve_is_nomem(n);
    note_bytes(staged);
}

static bool may_wait_for_disk(struct staged *staged, uint64_t now_ns)
{
    static _Thread_local struct gs_page_cache known;
    struct serve_output output;
    if (!serve_connection_sends_file(&staged->base))
        return false;
    serve_connection_output(&staged->base, &output);
    return output.is_file && !gs_page_cache_has(&known, output.fd, output.offset, output.n, now_ns);
}

/* What is not in memory is sent by the stage `disk`, if that has room. */
void stage_handle_send(struct gs_batch *batch, void *data)
{
    struct stage_graph *graph = data;
    struct gs_event *event;
    while ((event = gs_batch_next(batch))) {
        struct staged *staged = staged_of(event);
        if (may_wait_for_disk(staged, batch->now_ns) &&
            !gs_outbox_add(batch->outbox, graph->disk, event))
            continue;
        send_some(staged, batch->now_ns);
        stage_advance(staged, batch->outbox, batch->now_ns, false);
    }
}

/* ---- The stages `load` and `make` ---- */

/* Returns false if the next operation would wait for a disk. */
static bool try_load(const struct stage_graph *graph, struct gs_http_load *load)
{
    struct gs_http_file_op op;
    int64_t result;
    bool has_more;
    if (atomic_load_explicit(&graph->is_finished, memory_order_relaxed))
        gs_http_load_refuse(load);
    while ((has_more = gs_http_load_next(load, &op)) && serve_file_op_try(&op, &result))
        gs_http_load_set_result(load, result);
    return !has_more;
}

/* What would wait is done by the stage `disk`, if that has room. */
void stage_handle_load(struct gs_batch *batch, void *data)
{
    struct stage_graph *graph = data;
    struct gs_event *event;
    while ((event = gs_batch_next(batch))) {
        struct staged *staged = staged_of(event);
        if (!try_load(graph, staged->load)) {
            if (!gs_outbox_add(batch->outbox, graph->disk, event))
                continue;
            gs_http_load_run(staged->load);
        }
        send_to(batch->outbox, graph->http, staged);
    }
}

/* ---- The stage `disk` ---- */

void stage_handle_disk(struct gs_batch *batch, void *data)
{
    struct stage_graph *graph = data;
    struct gs_event *event;
    while ((event = gs_batch_next(batch))) {
        struct staged *staged = staged_of(event);
        bool is_finished = atomic_load_explicit(&graph->is_finished, memory_order_relaxed);
        if (staged->load) {
            if (is_finished)
                gs_http_load_refuse(staged->load);
            gs_http_load_run(staged->load);
            send_to(batch->outbox, graph->http, staged);
            continue;
        }
        uint64_t now_ns = batch->now_ns;
        if (!is_finished) {
            send_some(staged, now_ns);
            now_ns = gs_clock_now();
            gs_http_conn_restart_rate(&staged->base.http, now_ns);
        }
        stage_advance(staged, batch->outbox, now_ns, false);
    }
}

/* ---- The stage `sockets`, which runs in a loop's thread: the end of a connection ---- */

static void destroy(struct staged *staged)
{
    struct stage_worker *worker = staged->worker;
    gs_io_stop(&staged->io);
    gs_timer_stop(&staged->timer);
    gs_loop_fd_closed(worker->loop, staged->base.fd);
    serve_connection_done(&staged->base);
    gs_list_remove(&staged->link);
    free(staged);
    serve_slots_release(&worker->graph->slots);
    if (!--worker->connection_count && worker->is_draining)
        gs_loop_stop(worker->loop);
}

/* ---- Receiving ---- */

/* Handshakes take long: in a stage of their own, requests do not wait behind them. */
static struct gs_stage *stage_of_bytes(const struct staged *staged)
{
    const struct stage_graph *graph = staged->worker->graph;
    bool is_handshake = staged->base.is_tls && serve_tls_makes_handshake(&staged->base);
    return is_handshake ? graph->handshake : graph->http;
}

/* Send bytes, the end or an error to the stage `http`. Returns false if there is nothing. */
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
    send_to(gs_stage_outbox(worker->sockets), stage_of_bytes(staged), staged);
    return true;
}

/* ---- Waiting ---- */

static int watch_deadline(struct staged *staged, uint64_t now_ns)
{
    struct gs_timer *timer = &staged->timer;
    int err = serve_watch_deadline(timer, &staged->base, staged->send_nomem, now_ns);
    staged->watched_ns = timer->watcher.active ? timer->deadline_ns : GS_NEVER;
    return err;
}

/* Have the loop report what the connection will wait for. */
static int watch(struct staged *staged, uint64_t now_ns)
{
    unsigned wants = serve_connection_wants(&staged->base);
    if (staged->worker->is_level_triggered)
        gs_io_set_events(&staged->io,
                         (wants & GS_HTTP_READ ? GS_READ : 0) |
                             (wants & GS_HTTP_WRITE && !staged->send_nomem ? GS_WRITE : 0));
    int err = staged->is_watched ? 0 : gs_io_start(&staged->io);
    staged->is_watched = !err;
    return err ? err : watch_deadline(staged, now_ns);
}

/* The server drains: what has come by now is still answered. Returns true if something has. */
static bool drain(struct staged *staged, uint64_t now_ns)
{
    if (!staged->is_taken && serve_connection_wants(&staged->base) & GS_HTTP_READ) {
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

/* The connection is with this stage: do what is to be done here, and send it on. */
static void attend(struct staged *staged)
{
    struct stage_worker *worker = staged->worker;
    struct gs_http_conn *http = &staged->base.http;
    uint64_t now_ns = gs_loop_now(worker->loop);
    atomic_fetch_and(&staged->flags, ~(unsigned)STAGED_ATTENTION);
    if (staged->has_failed)
        gs_http_conn_abort(http);
    else if (atomic_load_explicit(&worker->graph->is_finished, memory_order_relaxed))
        serve_connection_cut_off(&staged->base);
    if (gs_http_conn_deadline(http) <= now_ns)
        serve_connection_expire(&staged->base, now_ns);
    if (worker->is_draining && !staged->is_drained && !(gs_http_conn_wants(http) & GS_HTTP_CLOSE) &&
        drain(staged, now_ns))
        return;
    unsigned wants = serve_connection_wants(&staged->base), flags = atomic_load(&staged->flags);
    if (wants & GS_HTTP_READ && flags & STAGED_READABLE && receive(staged))
        return;
    if (wants & GS_HTTP_CLOSE || watch(staged, now_ns)) {
        destroy(staged);
        return;
    }
    stage_advance(staged, gs_stage_outbox(worker->sockets), now_ns, true);
}

void stage_handle_sockets(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    (void)data;
    while ((event = gs_batch_next(batch)))
        attend(gs_container_of(event, struct staged, event));
}

/* ---- What the loop reports ---- */

/* Note the flags; attend to the connection if no stage is busy with it. */
static void notify(struct staged *staged, unsigned news)
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
    if (staged->worker->is_level_triggered)
        gs_io_set_events(io, 0);
    notify(staged, news);
}

static void on_deadline(struct gs_timer *timer)
{
    struct staged *staged = gs_container_of(timer, struct staged, timer);
    if (atomic_fetch_or(&staged->flags, STAGED_BUSY | STAGED_ATTENTION) & STAGED_BUSY)
        return;
    staged->send_nomem = false;
    attend(staged);
}

void stage_accepted(void *data, const struct serve_accepted *accepted)
{
    struct stage_worker *worker = data;
    struct staged *staged = calloc(1, sizeof *staged);
    if (!staged) {
        serve_slots_release(&worker->graph->slots);
        serve_refuse_accepted(accepted->fd);
        return;
    }
    serve_connection_init(&staged->base, accepted, &worker->shard, gs_loop_now(worker->loop));
    staged->worker = worker;
    staged->watched_ns = GS_NEVER;
    atomic_init(&staged->flags, STAGED_BUSY | STAGED_READABLE | STAGED_WRITABLE);
    gs_io_init(&staged->io, worker->loop, on_events);
    gs_io_set(&staged->io, accepted->fd,
              GS_READ | GS_WRITE | (worker->is_level_triggered ? 0 : GS_EDGE));
    gs_timer_init(&staged->timer, worker->loop, on_deadline);
    gs_list_append(&worker->connections, &staged->link);
    worker->connection_count++;
    attend(staged);
}

void stage_sockets_drain(struct stage_worker *worker)
{
    GS_LIST_FOREACH (link, &worker->connections) {
        struct staged *staged = gs_container_of(link, struct staged, link);
        notify(staged, STAGED_ATTENTION);
    }
}

/* ---- Making room for others ---- */

/* Only this thread takes a connection that is parked, so it may look at one. */
static uint64_t waits_of(const struct staged *staged)
{
    bool is_parked = !(atomic_load(&staged->flags) & STAGED_BUSY);
    return is_parked ? serve_connection_waits(&staged->base) : SERVE_BUSY;
}

bool stage_evict(void *data)
{
    struct stage_worker *worker = data;
    struct serve_candidates candidates;
    if (worker->is_draining)
        return true;
    serve_candidates_init(&candidates);
    for (unsigned i = 0; i < SERVE_EVICTION_CANDIDATES && i < worker->connection_count; i++) {
        struct gs_list *link = worker->connections.next;
        struct staged *staged = gs_container_of(link, struct staged, link);
        gs_list_remove(link);
        gs_list_append(&worker->connections, link);
        serve_candidates_add(&candidates, staged, serve_connection_address(&staged->base),
                             waits_of(staged));
    }
    struct staged *chosen = serve_candidates_take(&candidates);
    if (!chosen)
        return false;
    serve_eviction_count(worker->graph->server->evictions);
    serve_connection_end_input(&chosen->base);
    return true;
}
