/* The server as its architectures see it: what is served, and where. */
#ifndef GS_SERVE_SERVER_H
#define GS_SERVE_SERVER_H

#include "http/site.h"
#include "serve/accept/eviction.h"
#include "serve/accept/inherited.h"
#include "serve/accept/listener.h"
#include "serve/log/access_log.h"
#include "serve/log/error_log.h"
#include "serve/log/log_relay.h"
#include "serve/operations/certificates.h"
#include "serve/operations/compressor.h"
#include "serve/operations/generation.h"
#include "serve/operations/metrics_listener.h"
#include "serve/operations/notify.h"
#include "serve/operations/sites.h"
#include "serve/operations/watchdog.h"

#include <stdatomic.h>
#include <sys/types.h>

struct gs_stage;
struct serve_expiry;

/* In memory that the server's processes share; each worker has cache lines of its own. */
struct serve_counts {
    _Alignas(128) struct gs_http_counts http;
};

/* The state of both logs, in memory that the server's processes share. */
struct serve_log_state {
    atomic_uint generation; /* how often the first process has reopened it */
    struct serve_log_losses losses;
    struct serve_refusals refusals;
};

struct serve_server {
    const struct serve_options *options;
    struct serve_address *addresses; /* one for each --listen, or more (listening.h) */
    unsigned address_count;
    struct serve_inherited inherited;
    unsigned workers;
    unsigned set_count; /* sets of listeners: one a worker, or one that the workers share */
    int *listeners;     /* set s listens at address a: listeners[s * address_count + a] */
    struct serve_sites sites;
    int proc_fd; /* of the sandbox; -1: none */
    int log_fd;  /* -1: none */
    struct serve_log_relay log_relay;
    struct serve_counts *counts; /* one for each worker */
    struct serve_log_state *log_state;
    struct serve_drain *drain;
    struct serve_evictions *evictions;
    struct serve_certificates certificates;
    struct gs_http_users *users;
    struct gs_http_guard guard; /* of all pages, if there are users */
    char fields[80];            /* of each response; "": none */
    struct serve_watchdog watchdog;
    struct serve_notify notify;
    struct serve_generation generation;
    atomic_uint log_generation; /* how often this process has reopened the log */

    struct serve_compressor *compressor; /* NULL: nothing is compressed */
    struct serve_bottleneck bottleneck;
    struct gs_http_generator generators[3]; /* of generated pages */
    unsigned generator_count;
    struct serve_metrics_listener metrics_listener;

    struct serve_table *table; /* of connections that wait in threads or processes; may be NULL */
    struct serve_expiry *expiries; /* of shards whose kernel threads have no loops */

    /* For the metrics: set by an architecture before it serves, and valid as long as it does. */
    pid_t pid; /* of the first process */
    struct gs_stage *const *stages;
    unsigned stage_count;
    const char *queue_name; /* NULL: it has no queue */
    const char *poller;     /* of its loops; NULL: it has none */
    _Atomic(uint64_t) queued;
};

/* Bind, open, drop privileges, and enter the sandbox. Returns 0, or -errno after one line on
 * stderr. */
GS_MUST_CHECK int serve_server_init(struct serve_server *server,
                                    const struct serve_options *options);
void serve_server_done(struct serve_server *server);

/* The port of the first listener with TLS; 0: there is none. */
uint16_t serve_tls_port(const struct serve_server *server);

/* Whether others accept at the sockets of an address, too: one that hands them to us, or to whom
 * we hand them. They are closed, but never shut down. */
bool serve_listener_is_shared(const struct serve_server *server, unsigned address);

/* Close the listeners of a set, so that no client waits for a server that drains. */
void serve_stop_listening(struct serve_server *server, unsigned set);

/* Report that the server is ready, and wait for SIGTERM or SIGINT; SIGUSR1 and SIGHUP reopen the
 * access log. Called in the main thread, after the workers were started. When it returns, the
 * watchdog has been started, and the caller drains. Returns 0 or -errno. */
int serve_wait(struct serve_server *server);

/* Have serve_wait return, now or when it is called: the server has failed. Any kernel thread. */
void serve_request_end(void);

/* Callbacks of serve_wait_with_children, with data. */
struct serve_children {
    /* Some children may have ended. Returns when it is to be called in any case, or GS_NEVER. */
    uint64_t (*look_after)(void *data);
    void (*log_reopened)(void *data);
    void *data;
};

/* Like serve_wait. */
int serve_wait_with_children(struct serve_server *server, const struct serve_children *children);

/* In a process other than the one that waits for signals: reopen the log if that one has done so.
 * May be called by a signal handler, and be interrupted by one that does so. */
void serve_reopen_log(struct serve_server *server);

/* Block the signals that serve_wait takes. Called before kernel threads are created, which inherit
 * that. SIGPIPE is ignored: a write to a closed log or connection returns an error. */
void serve_block_signals(void);

#endif
