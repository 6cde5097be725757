/* What the files of the architecture `event` share: event.c has the workers, how connections are
 * accepted and how they end; event_drain.c how a worker ends; event_ready.c and event_ring.c are
 * two transports, which move the bytes of connections; event_disk.c is what would wait for a
 * disk. */
#ifndef GS_SERVE_EVENT_H
#define GS_SERVE_EVENT_H

#include "http/http2.h"

#include "serve/accept/acceptors.h"
#include "serve/accept/evictor.h"
#include "serve/connection/expiry.h"
#include "serve/connection/loops.h"
#include "serve/connection/turn.h"

#include <gossamer/list.h>
#include <gossamer/page_cache.h>
#include <pthread.h>
#include <stdatomic.h>

#define EVENT_RECEIVE_SIZE 65536

/* Steps of one connection in one iteration of the loop. */
#define EVENT_STEPS_MAX 8

/* Each transport's own kind of connection begins with this. */
struct event_worker;
struct event_connection {
    struct serve_connection base;
    bool send_nomem; /* the kernel had no memory for what is to be sent */
    bool is_ending;
    bool is_queued;          /* eager: it waits for its first turn */
    struct event_disk *disk; /* what the pool does for it; NULL: nothing */
    struct gs_timer timer;
    struct gs_list link; /* in the worker's list */
};

struct event_worker {
    struct gs_loop *loop;
    const struct event_transport *transport;
    struct serve_shard shard;
    struct serve_server *server;
    struct serve_acceptors acceptors;

    /* Called when a connection was accepted. The transport's `advance`; or eager.c's, which has the
     * connection wait for its first turn in a queue. */
    void (*first_turn)(struct event_worker *worker, struct event_connection *connection);
    struct gs_list connections; /* the newest first */
    uint64_t connection_count;
    struct serve_slots *slots; /* for connections of all workers */
    struct gs_async drain;
    struct serve_evictor evictor;
    struct serve_expiry expiry;
    struct gs_page_cache page_cache;
    struct gs_list *next_candidate; /* where the next search for one to close starts */
    struct gs_timer drain_end;
    struct gs_prepare flush_log;
    bool is_draining, has_stopped_accepting;
    unsigned drain_passes;
    uint64_t received, received_before; /* how often bytes came; before the last pass of draining */
    bool is_level_triggered;
    struct event_connection *waiting; /* eager: the oldest that has not had its first turn */
    struct gs_async turn;             /* eager: of that one */
    int result;
    pthread_t thread;
    char buffer[EVENT_RECEIVE_SIZE];
};

/* A way of moving the bytes of connections. */
struct event_transport {
    size_t connection_size;
    size_t watcher_offset; /* in a connection, of the watcher that is called when bytes have come */
    void (*init)(struct event_worker *worker, struct event_connection *connection);

    /* Do what the connection wants as far as its socket allows, then have the rest reported, or
     * release it. */
    void (*advance)(struct event_worker *worker, struct event_connection *connection);

    /* Some output was sent, with this result, by the loop or by the pool. */
    void (*sent)(struct event_connection *connection, ssize_t n);

    /* What the kernel had no memory for may be tried again. */
    void (*retry)(struct event_connection *connection);

    /* Receive what the peer has already sent, and answer it as far as the socket allows; the caller
     * then calls `advance`. NULL: the loop delivers that within an iteration. */
    void (*take)(struct event_worker *worker, struct event_connection *connection, uint64_t now_ns);

    /* End what is in progress. Returns false if it ends later, and event_release is to be called
     * again. */
    bool (*end)(struct event_connection *connection);
};

extern const struct event_transport event_by_readiness, event_by_completions;

/* Make the worker ready for gs_async_send(&worker->drain), which ends it: connections that are
 * pending are accepted, requests that were received answered, and then all is closed. */
void event_init_draining(struct event_worker *worker);

/* Load a file, as the connection wants, or send some output and note the result. What would wait
 * for a disk is handed to the pool: then false is returned, and the transport's `advance` is called
 * when it is done. Until then the connection takes no step. */
bool event_load(struct event_worker *worker, struct event_connection *connection);
bool event_send(struct event_worker *worker, struct event_connection *connection);

/* Returns false if the pool is busy with it: then event_release is called when it has ended. */
bool event_end_disk(struct event_connection *connection);

/* A serve_evict_fn, whose data is the worker. */
bool event_evict(void *data);

/* Close the connection and free it, now or once what is in progress has ended. */
void event_release(struct event_worker *worker, struct event_connection *connection);

static inline bool event_is_over(const struct event_connection *connection)
{
    return gs_http_conn_wants(&connection->base.http) & GS_HTTP_CLOSE;
}

/* Whether the connection, which has received something, must wait for another turn (turn.h). A
 * kept one of HTTP/1 without TLS never does. */
static inline bool event_must_wait(const struct event_worker *worker,
                                   const struct event_connection *connection)
{
    const struct serve_connection *base = &connection->base;
    struct gs_loop_counts counts;
    if (!base->is_tls && base->has_answered && !gs_http2_speaks(&base->http))
        return false;
    gs_loop_counts(worker->loop, &counts); /* its time changes when a file was loaded, too */
    return serve_turn_must_wait(base, counts.iterations, gs_loop_now(worker->loop));
}

/* Returns 0 or -ENOMEM. */
static inline int event_watch_deadline(struct event_worker *worker,
                                       struct event_connection *connection)
{
    return serve_watch_deadline(&connection->timer, &connection->base, connection->send_nomem,
                                gs_loop_now(worker->loop));
}

/* ---- For architectures made from this one (eager.c) ---- */

/* The connection that was accepted after this one; NULL: none. */
struct event_connection *event_newer(const struct event_worker *worker,
                                     const struct event_connection *connection);

/* Start and run all workers, until the server ends. init: called for each worker, whose acceptors
 * are not started yet; it may set `first_turn`. NULL: connections are advanced at once. */
GS_MUST_CHECK int event_run(struct serve_server *server, void (*init)(struct event_worker *worker));

#endif
