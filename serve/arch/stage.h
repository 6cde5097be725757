/* What the files of the architecture `stage` share: stage.c, the stages that a request goes through; stage_sockets.c, the stage that waits
 * for sockets; stage_life.c, how all starts and ends.
 *
 * A connection belongs to one stage at a time, or to nobody while it is parked: it waits for its socket, and whoever finds that ready
 * claims it. `flags` says which:
 *
 *                  on_events, on_deadline, on_drain (the sockets' thread)
 *        parked -----------------------------------------------------------> BUSY: in one stage after the other
 *           ^                                                                  |
 *           `------------------- park: nothing is known to be ready -----------'
 *
 * READABLE and WRITABLE are what is known of the socket; ATTENTION: the sockets' stage wants to see it before it is parked. Whoever is
 * BUSY with a connection may use all of it, but for what is the sockets' own. */
#ifndef GS_SERVE_STAGE_H
#define GS_SERVE_STAGE_H

#include "serve/acceptor.h"
#include "serve/connection.h"

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
    bool lacks;      /* the kernel had no memory for what is to be sent */
    uint64_t watched_ns;
    struct stage_worker *worker;
    struct gs_http_load *load; /* under way */
    char *bytes;               /* that came: n of them, or the end, or -errno */
    ssize_t n;

    struct gs_io io; /* from here on the sockets' own */
    struct gs_timer timer;
    struct gs_list link;
    bool has_hung_up, has_failed;
    bool is_taken, is_drained; /* when the server goes down */
};

struct stage_site {
    struct serve_server *server;
    struct serve_places places;
    struct gs_stage *http, *load, *make, *send; /* make: NULL if no page needs it */
    atomic_bool is_over;                        /* nothing is worth any more work */
    struct stage_worker *workers;
    struct gs_stage **stages; /* all of them */
};

#define STAGE_RECEIVE_SIZE 65536

/* The sockets of one loop. */
struct stage_worker {
    struct stage_site *site;
    unsigned index;
    struct gs_loop *loop;
    struct gs_stage *sockets;
    struct serve_shard shard;
    struct serve_acceptor *acceptors; /* one for each address */
    struct gs_list connections;
    uint64_t connection_count;
    struct gs_async drain, log;
    struct gs_timer drain_end;
    struct gs_prepare before_wait;
    unsigned received; /* messages, since the loop last waited */
    bool is_by_level, is_draining;
    int result;
    bool has_thread;
    pthread_t thread;
    char buffer[STAGE_RECEIVE_SIZE];
};

/* Send a connection that the caller is BUSY with to the stage that it needs next, or park it; is_here: from the sockets' stage, which
 * has done what it can. The connection is not the caller's any more. */
void stage_go_on(struct staged *staged, struct gs_outbox *outbox, uint64_t now_ns, bool is_here);

/* The handlers; data: the site, or of the last the worker. */
void stage_handle_http(struct gs_batch *batch, void *data);
void stage_handle_load(struct gs_batch *batch, void *data);
void stage_handle_send(struct gs_batch *batch, void *data);
void stage_handle_sockets(struct gs_batch *batch, void *data);

/* What the sockets' loop calls back; stage_life.c sets it up. A serve_accepted_fn: */
void stage_accepted(void *data, int fd, const struct sockaddr *address);

/* Attend to all connections, now or when they come back: the server is going down, or all is over. */
void stage_sockets_drain(struct stage_worker *worker);

#endif
