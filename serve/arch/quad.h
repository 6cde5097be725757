/* What the files of the architecture `quad` share: quad.c, the application; quad_sockets.c, the
 * threads that read and write; quad_life.c, how the threads start and end. */
#ifndef GS_SERVE_QUAD_H
#define GS_SERVE_QUAD_H

#include "serve/accept/acceptors.h"
#include "serve/accept/evictor.h"
#include "serve/connection/expiry.h"

#include <gossamer/stage.h>

/* What an event asks for, and what it reports when it returns. */
enum quad_kind {
    QUAD_OPEN,  /* accepting -> application: a new connection */
    QUAD_READ,  /* application -> reading: receive; -> application: bytes, the end, or an error */
    QUAD_WRITE, /* application -> writing: send the output; -> application: how much was sent */
    QUAD_CLOSE, /* application -> reading -> writing -> application: no loop watches the socket */
    /* accepting -> application -> writing -> application: what could be sent was sent;
     * -> reading -> application: and what had come was read */
    QUAD_DRAIN,
};

struct quad_event {
    struct gs_event event;
    enum quad_kind kind;
    struct quad_connection *connection;
};

/* One direction of a socket, used by the reading or the writing thread only. */
struct quad_side {
    struct gs_io io;
    bool is_ready; /* as far as is known */
    bool is_asked; /* the event is with this thread, and waits for the socket */
    bool has_hung_up;
};

struct quad_connection {
    struct serve_connection base; /* the application's, as are the members that follow */
    struct quad_group *group;
    struct gs_timer timer;
    struct gs_list link;
    struct gs_list postponed_link; /* in the group's `postponed`; `bytes` are kept */
    bool is_reading, is_writing, is_closing, send_nomem;
    struct serve_accepted accepted;

    struct quad_event read, write, close;
    char *bytes; /* with `read` when it returns: n of them, or n is 0 (the end) or -errno */
    ssize_t n;
    struct serve_output output; /* with `write` */
    ssize_t sent;

    struct quad_side reading, writing;
    struct gs_list reading_link; /* in the group's `reading`, while the socket is watched */
};

struct quad_thread {
    struct gs_loop *loop;
    struct gs_stage *stage; /* NULL: it receives no events */
    struct gs_async stop;
    pthread_t thread;
    bool has_thread, is_level_triggered;
    _Atomic(int) result; /* of its loop */
};

enum { QUAD_ACCEPTING, QUAD_READING, QUAD_WRITING, QUAD_APPLICATION, QUAD_THREADS };

#define QUAD_RECEIVE_SIZE 65536

/* Where the event `draining` is; in the last phase the application ends with its last
 * connection. */
enum quad_drain_phase { QUAD_SERVES, QUAD_WRITES, QUAD_READS, QUAD_ENDS };

/* The four threads. */
struct quad_group {
    struct serve_server *server;
    unsigned index;
    struct quad_thread threads[QUAD_THREADS];
    struct serve_slots *slots;
    struct serve_shard shard;
    struct serve_acceptors acceptors;
    struct gs_async drain; /* of the accepting thread */
    struct quad_event draining;
    atomic_bool is_draining;      /* set before the listening sockets are closed */
    struct serve_evictor evictor; /* of the application, as is what follows */
    struct gs_list connections;   /* those that were compared last for eviction are at the end */
    struct gs_list postponed;     /* whose handshake waits for a turn, in order */
    struct gs_async turn;         /* of the first of them */
    uint64_t connection_count;
    enum quad_drain_phase drain_phase;
    struct gs_timer drain_end;
    struct gs_prepare flush_log;
    struct serve_expiry expiry;
    struct gs_list reading; /* connections; the reading thread's */
    char buffer[QUAD_RECEIVE_SIZE];
};

/* The threads' gs_stage_fn; data: the group. */
void quad_handle_reading(struct gs_batch *batch, void *data);
void quad_handle_writing(struct gs_batch *batch, void *data);
void quad_handle_application(struct gs_batch *batch, void *data);

/* A serve_accepted_fn, in the accepting thread. */
void quad_accepted(void *data, const struct serve_accepted *accepted);

/* A serve_evict_fn in the application's thread, whose data is the group. */
bool quad_evict(void *data);

/* In the application's thread: hand over what has come to connections that were postponed, as far
 * as they have a turn; is_all: to all. */
void quad_take_postponed(struct quad_group *group, bool is_all);

/* In the application's thread: close all connections, whatever their state. */
void quad_close_all(struct quad_group *group);

/* From the thread `from` to the stage of the thread `to`. */
void quad_send(struct quad_group *group, int from, int to, struct quad_event *event);

#endif
