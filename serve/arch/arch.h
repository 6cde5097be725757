/* A concurrency architecture: one way to serve many connections. Architectures differ in nothing
 * but their concurrency; the drawing of each is at the top of the file of its name. */
#ifndef GS_SERVE_ARCH_H
#define GS_SERVE_ARCH_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stdint.h>

struct serve_server;

struct serve_arch {
    const char *name;
    const char *summary;
    const char *workers; /* what --workers means there */
    uint64_t min_workers;
    uint64_t default_workers; /* without --workers; 0: workers_per_processor for each processor */
    uint64_t workers_per_processor; /* 0: one */
    uint64_t default_requests; /* of a connection, without --requests-per-connection; 0: no limit */
    /* The workers share one listening socket for each address; otherwise each has its own. */
    bool has_single_listener;
    /* A worker serves one connection: there are no more workers than --max-connections. */
    bool has_worker_per_connection;
    bool has_processes;   /* it forks; they share no memory: nothing is compressed (--compress) */
    bool has_stages;      /* --controllers and --admission mean something */
    bool has_priority;    /* --favor means something */
    bool has_nonblocking; /* --nonblocking means something */

    /* For --poller auto: what was measured over io_uring and over epoll. NULL: it has no loops. */
    bool is_io_uring_ahead;
    const char *poller_reason;

    /* Start serving, call serve_wait, and return once all connections are drained. Returns 0 or
     * -errno; -errno too when a part of it failed while serving. */
    int (*run)(struct serve_server *server);
};

extern const struct serve_arch serve_arch_user;
extern const struct serve_arch serve_arch_event;
extern const struct serve_arch serve_arch_eager;
extern const struct serve_arch serve_arch_quad;
extern const struct serve_arch serve_arch_stage;
extern const struct serve_arch serve_arch_fork;
extern const struct serve_arch serve_arch_prefork;
extern const struct serve_arch serve_arch_thread;
extern const struct serve_arch serve_arch_pool;
extern const struct serve_arch serve_arch_queue;

/* NULL-terminated; the first is the default. */
extern const struct serve_arch *const serve_archs[];

/* Returns NULL if there is none of this name. */
const struct serve_arch *serve_arch_find(const char *name);

/* Print the name, summary, meaning of --workers and poller of each on stdout. */
void serve_arch_list(void);

#endif
