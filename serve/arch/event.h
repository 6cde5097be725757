/* What the files of the architecture `event` share: event.c has the workers and what all connections go through; event_ready.c
 * and event_ring.c are two ways of moving their bytes. */
#ifndef GS_SERVE_EVENT_H
#define GS_SERVE_EVENT_H

#include "serve/acceptor.h"
#include "serve/connection.h"

#include <pthread.h>

#define EVENT_RECEIVE_SIZE 65536

/* What every connection has; each way begins its own with it. */
struct event_worker;
struct event_connection {
    struct serve_connection base;
    bool lacks; /* the kernel had no memory for what is to be sent */
    bool is_ending;
    struct gs_timer timer;
    struct event_connection *next, **link; /* the worker's, the newest first */
};

/* When connections have their first turn. */
struct event_manner {
    /* Once for each worker, whose acceptors are not started yet. */
    void (*init)(struct event_worker *worker);

    /* This one was accepted: have event_advance called for it, now or in a later turn. */
    void (*accepted)(struct event_worker *worker, struct event_connection *connection);
};

struct event_worker {
    const struct event_manner *manner;
    struct gs_loop *loop;
    const struct event_way *way;
    struct serve_shard shard;
    struct serve_server *server;
    unsigned index;                   /* of this worker */
    struct serve_acceptor *acceptors; /* one for each address */
    struct event_connection *connections;
    uint64_t connection_count;
    struct serve_places *places; /* for connections of all workers */
    struct gs_async drain;
    struct gs_timer drain_end;
    struct gs_prepare flush_log;
    bool draining, has_stopped_accepting;
    unsigned drain_passes;
    uint64_t received, received_before; /* how often bytes came; before the last pass of draining */
    bool is_by_level;                   /* the poller knows no edges */
    struct event_connection *waiting;   /* the oldest of those that have not had their first turn */
    struct gs_async turn;               /* of that one */
    int result;
    pthread_t thread;
    char buffer[EVENT_RECEIVE_SIZE];
};

/* A way of moving the bytes of connections. */
struct event_way {
    size_t connection_size;
    size_t watcher_offset; /* in a connection, of what is called when bytes have come */
    void (*init)(struct event_worker *worker, struct event_connection *connection);

    /* Take one step that needs no waiting. False: there is none. */
    bool (*step)(struct event_worker *worker, struct event_connection *connection, uint64_t now_ns);

    /* Have what it waits for reported. again: it has more to do, once the others had their turn. Returns 0 or -errno. */
    int (*wait)(struct event_worker *worker, struct event_connection *connection, bool again);

    /* What the kernel lacked may be there by now. */
    void (*retry)(struct event_connection *connection);

    /* Take what has come from the peer by now. NULL: that comes of itself, within an iteration. */
    void (*take)(struct event_worker *worker, struct event_connection *connection, uint64_t now_ns);

    /* End what is under way. False: it ends later, and event_release is to be called again. */
    bool (*end)(struct event_connection *connection);
};

extern const struct event_way event_ready, event_ring;

/* Go as far as it goes without waiting, then wait for the rest. */
void event_advance(struct event_worker *worker, struct event_connection *connection);

/* The one that was accepted after this one; NULL: none. */
struct event_connection *event_newer(const struct event_worker *worker,
                                     const struct event_connection *connection);

/* Close the connection and forget it, now or once what is under way has ended. */
void event_release(struct event_worker *worker, struct event_connection *connection);

/* The steps that both ways share: load a file, or shut down the sending side. False: neither is wanted. */
bool event_step(struct event_connection *connection, uint64_t now_ns);

/* Start and run all workers, until the server ends: the whole of an architecture on loops. */
GS_MUST_CHECK int event_run(struct serve_server *server, const struct event_manner *manner);

#endif
