/* A concurrency architecture: one way to serve many connections. Each is one file of this folder, and differs from the
 * others in nothing but its concurrency. */
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
    uint64_t workers_least;
    uint64_t workers_usual;       /* without --workers; 0: workers_a_processor for each processor */
    uint64_t workers_a_processor; /* 0: one */
    uint64_t requests_usual; /* of a connection, without --requests-per-connection; 0: no limit */
    /* The workers share one listening socket for each address; otherwise each has its own. */
    bool is_one_door;
    bool
        has_worker_each; /* for each connection: there are no more workers than --max-connections */
    bool has_stages;     /* --controllers and --admission mean something */
    bool has_favor;      /* --favor means something */
    bool has_nonblocking; /* --nonblocking means something */

    /* Start serving, call serve_wait, and return once all connections are drained. Returns 0 or -errno; -errno too when a
     * part of it failed while serving. */
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

/* NULL: there is none of this name. */
const struct serve_arch *serve_arch_find(const char *name);

/* Name, summary and what --workers means, a line each, on stdout. */
void serve_arch_list(void);

#endif
