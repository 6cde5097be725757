/* Accepting by kernel threads and processes that wait for connections by blocking.
 *
 *     while (serve_listener_set_accept(set, &accepted) != -ECANCELED)
 *         ... serve it; in the end: serve_admission_release(admission);
 *
 * The admission counts how many connections are open, of all threads and processes, and tells them
 * that the server drains. Listeners come in sets with one for each address: of the threads that
 * accept from a set one at a time waits at the sockets, and the others for their turn. All of it is
 * in memory that processes share, and may be used by any kernel thread of any process that was
 * forked after it was made. */
#ifndef GS_SERVE_ADMISSION_H
#define GS_SERVE_ADMISSION_H

#include "serve/accept/accept.h"
#include "serve/accept/connection_table.h"
#include "serve/accept/turns.h"
#include "serve/connection/shard.h"
#include "serve/operations/server.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

struct serve_admission;

/* The members are private, except extra_fd and held. */
struct serve_listener_set {
    struct serve_admission *admission;
    unsigned index;   /* of the server's sets */
    int extra_fd;     /* waited for, too; -1: none */
    atomic_uint held; /* slots acquired, and not released by a process that uses the set alone */
    pthread_mutex_t turn;
    struct serve_shard *shard; /* of the process whose turn it is */
    struct pollfd *polls;      /* of each process; used by the thread whose turn it is */
    uint64_t warned_ns;        /* when exhaustion was last reported */
    uint64_t left;             /* to accept while the server drains */
    bool is_draining;
    bool is_shut_down;
};

struct serve_admission {
    struct serve_server *server;
    uint64_t max;
    struct serve_table *table; /* of open connections */
    int slots_fd;              /* an eventfd, whose value is how many slots are free */
    int drain_fd;              /* an eventfd that can be read, for good, once the server drains */
    _Atomic(uint64_t) used;
    _Atomic(uint64_t)
        drain_until_ns; /* when open connections are aborted; GS_NEVER: it is not draining */
    struct serve_turns handshakes; /* of TLS: for each step of one, as many as processors */
    struct serve_listener_set sets[];
};

/* With as many listener sets as the server has. Returns 0 or -errno. */
#define SERVE_ADMISSION_UNLIMITED (UINT32_MAX - 1)
struct serve_admission_options {
    uint64_t max;       /* slots */
    uint64_t places;    /* connections that can be open: slots, or workers if these are less */
    bool has_processes; /* each connection has a process of its own */
};
GS_MUST_CHECK int serve_admission_new(struct serve_server *server,
                                      const struct serve_admission_options *options,
                                      struct serve_admission **ret_admission);

/* When no connection is open and no thread accepts. NULL is accepted. */
void serve_admission_free(struct serve_admission *admission);

/* Wait for a connection, and for a slot for it; meanwhile the shard is tended (serve_shard_tend;
 * NULL: none). Returns 0: both are the caller's; -EINTR: extra_fd
 * can be read; or -ECANCELED: the server drains, and what had connected has been accepted. */
GS_MUST_CHECK int serve_listener_set_accept(struct serve_listener_set *set,
                                            struct serve_shard *shard,
                                            struct serve_accepted *ret_accepted);

/* Give a slot back. */
void serve_admission_release(struct serve_admission *admission);

/* The server begins to drain: what is open has the drain timeout to finish. */
void serve_admission_drain(struct serve_admission *admission);

static inline bool serve_admission_is_draining(const struct serve_admission *admission)
{
    return atomic_load_explicit(&admission->drain_until_ns, memory_order_relaxed) != GS_NEVER;
}

/* Wait until all slots are free, when no more connections are accepted. What was done before a slot
 * was released is seen. */
void serve_admission_wait_empty(struct serve_admission *admission);

#endif
