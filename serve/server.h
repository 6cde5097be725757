/* The server as its architectures see it: what is to be served, and where. */
#ifndef GS_SERVE_SERVER_H
#define GS_SERVE_SERVER_H

#include "serve/access_log.h"
#include "serve/listener.h"

/* In memory that the server's processes share; each worker counts on cache lines of its own. */
struct serve_counts {
    _Alignas(128) struct gs_http_counts http;
};

struct serve_server {
    const struct serve_options *options;
    struct serve_address *addresses; /* one for each --listen */
    unsigned address_count;
    unsigned workers;
    int *listeners; /* worker w listens at address a: listeners[w * address_count + a] */
    int root_fd;
    int log_fd;                  /* -1: none */
    struct serve_counts *counts; /* one for each worker */
};

/* Bind, open, and give root up. Returns 0, or -errno after one line on stderr. */
GS_MUST_CHECK int serve_server_init(struct serve_server *server,
                                    const struct serve_options *options);
void serve_server_done(struct serve_server *server);

/* Close a worker's listening sockets, so that nobody waits for a server that is going down. */
void serve_stop_listening(struct serve_server *server, unsigned worker);

/* Say that all are ready, and wait until a signal asks to end; others are dealt with. For the thread or process that the
 * program began with, after the workers were started. Returns 0 or -errno. */
int serve_wait(struct serve_server *server);

/* Block the signals that serve_wait takes, before a kernel thread is started, which then inherits that. A log or a client
 * that is gone is an error of the write, never a signal. */
void serve_block_signals(void);

#endif
