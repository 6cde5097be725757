#include "serve/gate.h"

#include "serve/acceptor.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

/* What is waited for at a door: that the server goes down, the caller's own, and the listening sockets or a place. */
enum { ENDING, OTHER, FIRST };

static size_t size_of(const struct serve_server *server)
{
    return sizeof(struct serve_gate) + server->door_count * sizeof(struct serve_door);
}

/* Whoever dies while it is his turn leaves it to the next. */
static int init_turn(pthread_mutex_t *turn)
{
    pthread_mutexattr_t attributes;
    int err = pthread_mutexattr_init(&attributes);
    if (err)
        return -err;
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    err = pthread_mutex_init(turn, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return -err;
}

static int init_door(struct serve_gate *gate, unsigned index)
{
    struct serve_door *door = &gate->doors[index];
    door->gate = gate;
    door->index = index;
    door->other_fd = -1;
    door->polls = calloc(FIRST + gate->server->address_count, sizeof *door->polls);
    return door->polls ? init_turn(&door->turn) : -ENOMEM;
}

int serve_gate_new(struct serve_server *server, uint64_t places, struct serve_gate **ret_gate)
{
    struct serve_gate *gate =
        mmap(NULL, size_of(server), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (gate == MAP_FAILED)
        return -ENOMEM;
    int flags = EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC;
    gate->server = server;
    gate->end_ns = GS_NEVER;
    gate->places = places;
    gate->places_fd = gs_sys_eventfd((unsigned)places, flags);
    gate->ending_fd = gs_sys_eventfd(0, flags);
    int err = gate->places_fd < 0 ? gate->places_fd : gate->ending_fd < 0 ? gate->ending_fd : 0;
    for (unsigned i = 0; !err && i < server->door_count; i++)
        err = init_door(gate, i);
    if (err)
        serve_gate_free(gate);
    else
        *ret_gate = gate;
    return err;
}

void serve_gate_free(struct serve_gate *gate)
{
    if (!gate)
        return;
    for (unsigned i = 0; i < gate->server->door_count; i++)
        free(gate->doors[i].polls);
    if (gate->places_fd >= 0)
        gs_sys_close(gate->places_fd);
    if (gate->ending_fd >= 0)
        gs_sys_close(gate->ending_fd);
    munmap(gate, size_of(gate->server));
}

static bool take_place(struct serve_gate *gate)
{
    uint64_t one;
    if (gs_sys_read(gate->places_fd, &one, sizeof one) < 0)
        return false;
    atomic_fetch_add(&gate->inside, 1);
    return true;
}

void serve_gate_leave(struct serve_gate *gate)
{
    static const uint64_t one = 1;
    atomic_fetch_sub(&gate->inside, 1);
    gs_sys_write(gate->places_fd, &one, sizeof one);
}

void serve_gate_drain(struct serve_gate *gate)
{
    static const uint64_t one = 1;
    uint64_t drain_ns = gate->server->options->drain_timeout_ns;
    atomic_store(&gate->end_ns, gs_clock_after(gs_clock_now(), drain_ns));
    gs_sys_write(gate->ending_fd, &one, sizeof one);
}

/* All that it needs is that nobody comes in any more: then each that leaves brings it nearer. */
void serve_gate_wait_empty(struct serve_gate *gate)
{
    uint64_t left = gate->places;
    struct pollfd poll = {.fd = gate->places_fd, .events = POLLIN};
    while (left) {
        uint64_t one;
        if (gs_sys_read(gate->places_fd, &one, sizeof one) > 0)
            left--;
        else
            gs_sys_poll(&poll, 1, GS_NEVER);
    }
    (void)atomic_load(&gate->inside); /* pairs with the subtraction of each who left */
}

/* ---- At a door, by whose turn it is ---- */

/* Wait for the first `count` of the polls. */
static int wait_for(struct serve_door *door, unsigned count, uint64_t timeout_ns)
{
    bool is_draining = serve_gate_is_draining(door->gate);
    door->polls[ENDING] =
        (struct pollfd){.fd = is_draining ? -1 : door->gate->ending_fd, .events = POLLIN};
    door->polls[OTHER] = (struct pollfd){.fd = door->other_fd, .events = POLLIN};
    int n = gs_sys_poll(door->polls, count, timeout_ns);
    return n > 0 && door->polls[OTHER].revents ? -EINTR : 0;
}

/* No matter how many processes have the sockets open, nobody listens there any more. */
static int close_door(struct serve_door *door)
{
    struct serve_server *server = door->gate->server;
    for (unsigned i = 0; i < server->address_count; i++)
        gs_sys_shutdown(server->listeners[door->index * server->address_count + i], SHUT_RDWR);
    door->is_closed = true;
    return 0;
}

static int wait_for_connection(struct serve_door *door)
{
    struct serve_server *server = door->gate->server;
    for (unsigned i = 0; i < server->address_count; i++)
        door->polls[FIRST + i] = (struct pollfd){
            .fd = server->listeners[door->index * server->address_count + i],
            .events = POLLIN,
        };
    return wait_for(door, FIRST + server->address_count, GS_NEVER);
}

static int wait_for_place(struct serve_door *door)
{
    if (serve_gate_is_draining(door->gate))
        return close_door(door);
    door->polls[FIRST] = (struct pollfd){.fd = door->gate->places_fd, .events = POLLIN};
    return wait_for(door, FIRST + 1, GS_NEVER);
}

/* At each address in turn. Returns the descriptor, or -errno. */
static int accept_any(struct serve_door *door, struct serve_arrival *arrival)
{
    struct serve_server *server = door->gate->server;
    struct sockaddr *address = (struct sockaddr *)&arrival->address;
    arrival->has_address = server->log_fd >= 0;
    int fd = -EAGAIN;
    for (unsigned i = 0; fd == -EAGAIN && i < server->address_count; i++) {
        socklen_t length = sizeof arrival->address;
        fd = gs_sys_accept(server->listeners[door->index * server->address_count + i],
                           arrival->has_address ? address : NULL,
                           arrival->has_address ? &length : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    return fd;
}

/* Nobody was accepted. */
static int go_on_after(struct serve_door *door, int err)
{
    uint64_t end_ns = atomic_load(&door->gate->end_ns), now_ns = gs_clock_now();
    if (serve_accept_concerns_one(err))
        return 0;
    if (now_ns >= end_ns || (err == -EAGAIN && end_ns != GS_NEVER))
        return close_door(door);
    if (err == -EAGAIN)
        return 0;
    serve_accept_complain(&door->said_ns, err, now_ns);
    return wait_for(door, FIRST, SERVE_ACCEPT_PAUSE_NS);
}

/* Returns 1: somebody was accepted; 0; or -errno. */
static int try_once(struct serve_door *door, struct serve_arrival *arrival)
{
    struct serve_gate *gate = door->gate;
    bool is_draining = serve_gate_is_draining(gate);
    if (is_draining && door->taken_last == gate->server->options->backlog)
        return close_door(door);
    int err = is_draining ? 0 : wait_for_connection(door);
    if (err)
        return err;
    if (!take_place(gate))
        return wait_for_place(door);
    arrival->fd = accept_any(door, arrival);
    if (arrival->fd >= 0) {
        door->taken_last += is_draining;
        return 1;
    }
    serve_gate_leave(gate);
    return go_on_after(door, arrival->fd);
}

int serve_door_accept(struct serve_door *door, struct serve_arrival *ret_arrival)
{
    struct serve_arrival arrival;
    int result = 0;
    if (pthread_mutex_lock(&door->turn) == EOWNERDEAD)
        pthread_mutex_consistent(&door->turn);
    while (!result && !door->is_closed)
        result = try_once(door, &arrival);
    pthread_mutex_unlock(&door->turn);
    if (result == 1)
        *ret_arrival = arrival;
    return result == 1 ? 0 : result ? result : -ECANCELED;
}
