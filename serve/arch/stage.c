/* Stages, after SEDA and its web server Haboob: each request goes from stage to stage as an event in their queues, and each stage
 * has kernel threads of its own, which handle many events at a time.
 *
 *                      listener (one a worker, SO_REUSEPORT), sockets
 *                                        |
 *                                        v   a loop for each worker
 *         .-------------------------> sockets: accept, receive, deadlines, close
 *         |                              | bytes
 *         |                              v   as many threads as workers
 *         |  ready, or at an end       http: requests, page cache, answers <-----.
 *         |                              |    |    |                             |
 *         |                              |    |    `--> load: files  ------------+   1 to 20 threads, a request each
 *         |                              |    `-------> make: bottleneck --------'   the same; 503 if it does not admit more
 *         |                              v   as many threads as workers
 *         `--- parked: at nobody's --- send
 *
 * No stage but load and make ever waits for anything but its queue. */
#include "serve/arch/stage.h"

#include "serve/server.h"

#include <stdlib.h>

static struct staged *staged_of(struct gs_event *event)
{
    return gs_container_of(event, struct staged, event);
}

/* To a stage without a bound. */
static void send_to(struct gs_outbox *outbox, struct gs_stage *stage, struct staged *staged)
{
    (void)!gs_outbox_put(outbox, stage, &staged->event);
}

/* False: the stage does not take it; the request is answered with 503. */
static bool begin_load(struct staged *staged, struct gs_outbox *outbox, uint64_t now_ns)
{
    struct stage_site *site = staged->worker->site;
    struct gs_http_load *load = gs_http_conn_take_load(&staged->base.http);
    const struct gs_http_maker *maker = gs_http_load_maker(load);
    bool is_heavy = maker && maker->data == &site->server->bottleneck;
    staged->load = load;
    if (!gs_outbox_put(outbox, is_heavy ? site->make : site->load, &staged->event))
        return true;
    staged->load = NULL;
    gs_http_load_refuse(load);
    serve_connection_loaded(&staged->base, load, now_ns);
    return false;
}

/* False: something is known to be ready, or the sockets' stage wants it. */
static bool park(struct staged *staged, unsigned wants)
{
    unsigned needs = STAGED_ATTENTION;
    needs |= wants & GS_HTTP_READ ? STAGED_READABLE : 0;
    needs |= wants & GS_HTTP_WRITE && !staged->lacks ? STAGED_WRITABLE : 0;
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
    return !staged->is_watched || staged->lacks || staged->worker->is_by_level ||
           gs_http_conn_deadline(&staged->base.http) < staged->watched_ns;
}

void stage_go_on(struct staged *staged, struct gs_outbox *outbox, uint64_t now_ns, bool is_here)
{
    struct stage_worker *worker = staged->worker;
    for (;;) {
        unsigned wants = gs_http_conn_wants(&staged->base.http);
        unsigned flags = atomic_load_explicit(&staged->flags, memory_order_relaxed);
        if (wants & GS_HTTP_CLOSE || flags & STAGED_ATTENTION) {
            send_to(outbox, worker->sockets, staged);
            return;
        }
        if (wants & GS_HTTP_WRITE && flags & STAGED_WRITABLE && !staged->lacks) {
            send_to(outbox, worker->site->send, staged);
            return;
        }
        if (wants & GS_HTTP_LOAD) {
            if (begin_load(staged, outbox, now_ns))
                return;
        } else if (wants & GS_HTTP_SHUTDOWN) {
            serve_connection_shut_down(&staged->base, now_ns);
        } else if ((wants & GS_HTTP_READ && flags & STAGED_READABLE) ||
                   (!is_here && needs_sockets(staged))) {
            send_to(outbox, worker->sockets, staged);
            return;
        } else if (park(staged, wants)) {
            return;
        }
    }
}

/* ---- What comes from the sockets, or from a load ---- */

void stage_handle_http(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    (void)data;
    while ((event = gs_batch_take(batch))) {
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
        stage_go_on(staged, batch->outbox, batch->now_ns, false);
    }
}

/* ---- Files, and pages that are made ---- */

void stage_handle_load(struct gs_batch *batch, void *data)
{
    struct stage_site *site = data;
    struct gs_event *event;
    while ((event = gs_batch_take(batch))) {
        struct staged *staged = staged_of(event);
        if (atomic_load_explicit(&site->is_over, memory_order_relaxed))
            gs_http_load_refuse(staged->load);
        else
            gs_http_load_run(staged->load);
        send_to(batch->outbox, site->http, staged);
    }
}

/* ---- What goes out ---- */

/* That there is no room is only believed when it is said once more, after it was noted: so no report of room is lost. */
static void send_some(struct staged *staged, uint64_t now_ns)
{
    ssize_t n = serve_connection_send(&staged->base, now_ns);
    if (n == -EAGAIN) {
        atomic_fetch_and(&staged->flags, ~(unsigned)STAGED_WRITABLE);
        n = serve_connection_send(&staged->base, now_ns);
        if (n != -EAGAIN)
            atomic_fetch_or(&staged->flags, STAGED_WRITABLE);
    }
    staged->lacks = serve_connection_lacks(n);
}

void stage_handle_send(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    (void)data;
    while ((event = gs_batch_take(batch))) {
        struct staged *staged = staged_of(event);
        send_some(staged, batch->now_ns);
        stage_go_on(staged, batch->outbox, batch->now_ns, false);
    }
}
