/* What the files of the architecture `quad` share: quad.c, the thread of the application, and how all starts and ends; quad_sockets.c,
 * the threads that read and write. */
#ifndef GS_SERVE_QUAD_H
#define GS_SERVE_QUAD_H

#include "serve/acceptor.h"
#include "serve/connection.h"

#include <gossamer/stage.h>

/* What an event asks for, and what it reports on its way back. */
enum quad_kind {
    QUAD_OPEN, /* accepting -> application: a new connection */
    QUAD_READ, /* application -> reading: some bytes are wanted; -> application: they, the end, or an error */
    QUAD_WRITE, /* application -> writing: send the output; -> application: so much was */
    QUAD_CLOSE, /* application -> reading -> writing -> application: nobody knows the socket any more */
    QUAD_DRAIN, /* accepting -> application -> writing -> application: what could be sent was; -> reading -> application: and what had
                 * come was read */
};

struct quad_event {
    struct gs_event event;
    enum quad_kind kind;
    struct quad_connection *connection;
};

/* One direction of a socket: reading's or writing's own. */
struct quad_side {
    struct gs_io io;
    bool is_ready; /* as far as is known */
    bool is_asked; /* the event is here, and waits for the socket */
    bool has_hung_up;
};

struct quad_connection {
    struct serve_connection base; /* the application's, and what follows */
    struct quad_group *group;
    struct gs_timer timer;
    struct gs_list link;
    bool is_reading, is_writing, is_closing, lacks;
    bool has_address;
    struct sockaddr_storage address;

    struct quad_event read, write, close;
    char *bytes; /* with `read` on its way back: n of them, or the end, or -errno */
    ssize_t n;
    struct serve_output output; /* with `write` */
    ssize_t sent;

    struct quad_side reading, writing;
    struct gs_list reading_link; /* of those whose socket is watched for reading */
};

struct quad_thread {
    struct gs_loop *loop;
    struct gs_stage *stage; /* NULL: no events come to it */
    struct gs_async stop;
    pthread_t thread;
    bool has_thread, is_by_level;
    int result;
};

enum { QUAD_ACCEPTING, QUAD_READING, QUAD_WRITING, QUAD_APPLICATION, QUAD_THREADS };

#define QUAD_RECEIVE_SIZE 65536

/* The four threads. */
struct quad_group {
    struct serve_server *server;
    unsigned index;
    struct quad_thread threads[QUAD_THREADS];
    struct serve_places *places;
    struct serve_shard shard;
    struct serve_acceptor *acceptors;
    struct gs_async drain; /* of the accepting thread */
    struct quad_event draining;
    atomic_bool is_draining;    /* set before the listening sockets are closed */
    struct gs_list connections; /* the application's */
    uint64_t connection_count;
    enum {
        QUAD_SERVES,
        QUAD_WRITES,
        QUAD_READS,
        QUAD_ENDS
    } course; /* where `draining` is; it ends with the last connection */
    struct gs_timer drain_end;
    struct gs_prepare flush_log;
    struct gs_list read; /* connections; the reading thread's */
    char buffer[QUAD_RECEIVE_SIZE];
};

/* gs_stage_fn of the threads; data: the group. */
void quad_handle_reading(struct gs_batch *batch, void *data);
void quad_handle_writing(struct gs_batch *batch, void *data);

void quad_handle_application(struct gs_batch *batch, void *data);

/* In the accepting thread: a serve_accepted_fn. */
void quad_accepted(void *data, int fd, const struct sockaddr *address);

/* In the application's: close all connections, whatever they are doing. */
void quad_end(struct quad_group *group);

/* From the thread `from` to the stage of the thread `to`. */
void quad_send(struct quad_group *group, int from, int to, struct quad_event *event);

#endif
