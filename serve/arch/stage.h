/* What the files of the architecture `stage` share: stage.c, the stages that a request goes
 * through; stage_worker.c, the loop of a worker's sockets; stage_life.c, how all starts and ends.
 *
 * A connection belongs to one stage at a time, or to none while it is parked: it waits for its
 * socket, and the sockets' thread takes it when that is ready. `flags` says which:
 *
 *              on_events, on_deadline, on_drain (the sockets' thread)
 *     parked -----------------------------------------------------------> BUSY: in one stage after
 *        ^                                                                  |   the other
 *        `------------------- park: nothing is known to be ready -----------'
 *
 * READABLE and WRITABLE are what is known of the socket; ATTENTION: the sockets' stage must have
 * the connection before it is parked. The stage that is BUSY with a connection may use all of it
 * but the members of the sockets' stage. */
#ifndef GS_SERVE_STAGE_H
#define GS_SERVE_STAGE_H

#include "serve/accept/acceptors.h"
#include "serve/accept/evictor.h"
#include "serve/connection/expiry.h"

#include <gossamer/stage.h>

enum {
    STAGED_BUSY = 1,
    STAGED_READABLE = 2,
    STAGED_WRITABLE = 4,
    STAGED_ATTENTION = 8,
};

struct staged {
    struct serve_connection base;
    struct gs_event event;
    _Atomic(unsigned) flags;
    bool is_watched; /* by the loop */
    bool send_nomem; /* the kernel had no memory for what is to be sent */
    uint64_t watched_ns;
    struct stage_worker *worker;
    struct gs_http_load *load; /* in progress */
    char *bytes;               /* received: n of them, or n is 0 (the end) or -errno */
    ssize_t n;

    struct gs_io io; /* from here on used by the sockets' stage only */
    struct gs_timer timer;
    struct gs_list link;
    bool has_hung_up, has_failed;
    bool is_taken, is_drained; /* while the server drains */
};

struct stage_graph {
    struct serve_server *server;
    struct serve_slots slots;
    struct serve_evictors evictors;
    struct gs_stage *http, *load, *disk, *send;
    struct gs_stage *handshake; /* NULL: there is no TLS */
    struct gs_stage *make;      /* NULL: no page needs it */
    atomic_bool is_finished;    /* connections are only closed */
    struct stage_worker *workers;
    struct gs_stage **stages; /* all of them */
};

#define STAGE_RECEIVE_SIZE 65536

/* The sockets of one loop. */
struct stage_worker {
    struct stage_graph *graph;
    unsigned index;
    struct gs_loop *loop;
    struct gs_stage *sockets;
    struct serve_shard shard;
    struct serve_acceptors acceptors;
    struct serve_evictor evictor;
    struct serve_expiry expiry;
    struct gs_list connections; /* those that were compared last for eviction are at the end */
    uint64_t connection_count;
    struct gs_async drain, log;
    struct gs_timer drain_end;
    struct gs_prepare before_wait;
    unsigned received; /* messages, since the loop last waited */
    bool is_level_triggered, is_draining;
    int result;
    bool has_thread;
    pthread_t thread;
    char buffer[STAGE_RECEIVE_SIZE];
};

/* The worker's graph and index are set, and its list is empty. stage_worker_done must be called
 * also if this fails. Returns 0 or -errno. */
GS_MUST_CHECK int stage_worker_init(struct stage_worker *worker);

/* For pthread_create, data: the worker. Run the loop until the server has drained. */
void *stage_worker_run(void *data);
void stage_worker_done(struct stage_worker *worker);

/* Send a connection that the caller is BUSY with to the stage that it needs next, or park it;
 * is_here: the caller is the sockets' stage, which has done what it can. The connection is no
 * longer the caller's. */
void stage_advance(struct staged *staged, struct gs_outbox *outbox, uint64_t now_ns, bool is_here);

/* The stages' handlers; data: the graph, or for the last the worker. */
void stage_handle_http(struct gs_batch *batch, void *data);
void stage_handle_load(struct gs_batch *batch, void *data);
void stage_handle_disk(struct gs_batch *batch, void *data);
void stage_handle_send(struct gs_batch *batch, void *data);
void stage_handle_sockets(struct gs_batch *batch, void *data);

/* A serve_accepted_fn, in the sockets' loop. */
void stage_accepted(void *data, const struct serve_accepted *accepted);

/* A serve_evict_fn, whose data is the worker. */
bool stage_evict(void *data);

/* Attend to all connections, now or when they return to the sockets' stage: the server drains, or
 * all of them are to be closed. */
void stage_sockets_drain(struct stage_worker *worker);

#endif
