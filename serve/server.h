/* The server as its architectures see it: what is to be served, and where. */
#ifndef GS_SERVE_SERVER_H
#define GS_SERVE_SERVER_H

#include "serve/access_log.h"
#include "serve/listener.h"

#include <stdatomic.h>
#include <sys/types.h>

struct gs_stage;

/* In memory that the server's processes share; each worker counts on cache lines of its own. */
struct serve_counts {
    _Alignas(128) struct gs_http_counts http;
};

/* What the processes know about the log, in memory that they share. */
struct serve_log_state {
    atomic_uint turns;      /* how often it was opened anew by the process that waits for signals */
    atomic_bool has_failed; /* and it was said */
};

struct serve_server {
    const struct serve_options *options;
    struct serve_address *addresses; /* one for each --listen */
    unsigned address_count;
    unsigned workers;
    unsigned
        door_count; /* sets of listening sockets: one a worker, or one that the workers share */
    int *listeners; /* door d listens at address a: listeners[d * address_count + a] */
    int root_fd;
    int log_fd;                  /* -1: none */
    struct serve_counts *counts; /* one for each worker */
    struct serve_log_state *log_state;
    atomic_uint log_turns_here; /* how often this process has opened the log anew */

    struct serve_bottleneck bottleneck;
    struct gs_http_maker makers[2]; /* pages that are made */
    unsigned maker_count;

    /* For the metrics; what an architecture sets before it serves, and keeps as long as it does. */
    pid_t pid; /* of the first process */
    struct gs_stage *const *stages;
    unsigned stage_count;
    const char *queue_name; /* NULL: it has none */
    _Atomic(uint64_t) queued;
};

/* Bind, open, and give root up. Returns 0, or -errno after one line on stderr. */
GS_MUST_CHECK int serve_server_init(struct serve_server *server,
                                    const struct serve_options *options);
void serve_server_done(struct serve_server *server);

/* Close a door's listening sockets, so that nobody waits for a server that is going down. */
void serve_stop_listening(struct serve_server *server, unsigned door);

/* Say that all are ready, and wait until a signal asks to end; others are dealt with. For the thread or process that the
 * program began with, after the workers were started. Returns 0 or -errno. */
int serve_wait(struct serve_server *server);

/* Have serve_wait return, now or when it is called: the server cannot go on. Any kernel thread. */
void serve_end_wait(void);

/* What the process that waits for signals tells of, for those that have children; with data. */
struct serve_children {
    void (*ended)(void *data);      /* some may have */
    void (*log_opened)(void *data); /* anew */
    void *data;
};

/* Like serve_wait. */
int serve_wait_with_children(struct serve_server *server, const struct serve_children *children);

/* In a process that does not wait for signals itself: open the log anew if the one that does has done so. May be called by a handler
 * of signals, and be interrupted by one that does so. */
void serve_follow_log(struct serve_server *server);

/* Block the signals that serve_wait takes, before a kernel thread is started, which then inherits that. A log or a client
 * that is gone is an error of the write, never a signal. */
void serve_block_signals(void);

#endif
