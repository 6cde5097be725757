/* Where connections come in, for kernel threads and processes that wait for them by blocking.
 *
 *     while (serve_door_accept(door, &arrival) != -ECANCELED)
 *         ... serve it; in the end: serve_gate_leave(gate);
 *
 * The gate knows how many may be inside and whether the server is going down. Each of its doors is a set of listening sockets,
 * one for each address: of those who want to come through a door, one at a time waits at it, and the others for their turn. All of it
 * is in memory that processes share, and may be used by any kernel thread of any process that was begun after it was made. */
#ifndef GS_SERVE_GATE_H
#define GS_SERVE_GATE_H

#include "serve/server.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

struct serve_gate;

/* The members are private, but for two: whoever waits at the door waits for `other_fd`, too (-1: nothing), and `held` is for a process
 * that has the door for itself to note how many places its own have. */
struct serve_door {
    struct serve_gate *gate;
    unsigned index; /* of the server's doors */
    int other_fd;
    atomic_uint held;
    pthread_mutex_t turn;
    struct pollfd *polls; /* of the process; whose turn it is uses them */
    uint64_t said_ns;     /* when a lack of descriptors or memory was last reported */
    uint64_t taken_last;  /* connections, since the server is going down */
    bool is_closed;
};

struct serve_gate {
    struct serve_server *server;
    uint64_t places;
    int places_fd; /* an eventfd, whose value is how many places are free */
    int ending_fd; /* an eventfd that can be read, for good, when the server is going down */
    _Atomic(uint64_t) inside;
    _Atomic(uint64_t) end_ns; /* of what is still under way then; GS_NEVER: it is not going down */
    struct serve_door doors[];
};

/* For so many who may be inside, SERVE_GATE_OPEN at most, and with as many doors as the server has. Returns 0 or -errno. */
#define SERVE_GATE_OPEN (UINT32_MAX - 1)
GS_MUST_CHECK int serve_gate_new(struct serve_server *server, uint64_t places,
                                 struct serve_gate **ret_gate);

/* When nobody is inside or at a door. NULL is accepted. */
void serve_gate_free(struct serve_gate *gate);

struct serve_arrival {
    int fd; /* non-blocking */
    bool has_address;
    struct sockaddr_storage address;
};

/* Wait for a connection, and for a place for it. Returns 0: both are the caller's; -EINTR: other_fd can be read; or -ECANCELED: the
 * server is going down, and who had connected has been accepted. */
GS_MUST_CHECK int serve_door_accept(struct serve_door *door, struct serve_arrival *ret_arrival);

/* A place is free again. */
void serve_gate_leave(struct serve_gate *gate);

/* The server is going down, and whatever is under way has the drain timeout for its end. */
void serve_gate_drain(struct serve_gate *gate);

static inline bool serve_gate_is_draining(const struct serve_gate *gate)
{
    return atomic_load_explicit(&gate->end_ns, memory_order_relaxed) != GS_NEVER;
}

/* Wait until nobody is inside. What they did before they left is seen. */
void serve_gate_wait_empty(struct serve_gate *gate);

#endif
