#include "serve/accept/admission.h"

#include "serve/connection/descriptors.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

/* The descriptors that the thread whose turn it is waits for: draining, the caller's own, and from
 * FIRST on the listeners or the slots. */
enum { DRAIN, EXTRA, FIRST };

static size_t size_of(const struct serve_server *server)
{
    return sizeof(struct serve_admission) + server->set_count * sizeof(struct serve_listener_set);
}

static int init_set(struct serve_admission *admission, unsigned index)
{
    struct serve_listener_set *set = &admission->sets[index];
    set->admission = admission;
    set->index = index;
    set->extra_fd = -1;
    set->polls = calloc(FIRST + admission->server->address_count, sizeof *set->polls);
    return set->polls ? serve_turn_init(&set->turn) : -ENOMEM;
}

int serve_admission_new(struct serve_server *server, const struct serve_admission_options *options,
                        struct serve_admission **ret_admission)
{
    struct serve_admission *admission =
        mmap(NULL, size_of(server), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (admission == MAP_FAILED)
        return -ENOMEM;
    int flags = EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC;
    admission->server = server;
    admission->drain_until_ns = GS_NEVER;
    admission->max = options->max;
    if (options->has_processes)
        serve_descriptors_limit(UINT64_MAX); /* each process has its own */
    admission->slots_fd = gs_sys_eventfd((unsigned)options->max, flags);
    admission->drain_fd = gs_sys_eventfd(0, flags);
    int err = admission->slots_fd < 0 ? admission->slots_fd : 0;
    if (!err && admission->drain_fd < 0)
        err = admission->drain_fd;
    if (!err)
        err = serve_turns_init(&admission->handshakes, (unsigned)serve_processors());
    for (unsigned i = 0; !err && i < server->set_count; i++)
        err = init_set(admission, i);
    if (!err)
        err = serve_table_new((unsigned)options->places, options->has_processes, &admission->table);
    if (err) {
        serve_admission_free(admission);
        return err;
    }
    server->table = admission->table;
    *ret_admission = admission;
    return 0;
}

void serve_admission_free(struct serve_admission *admission)
{
    if (!admission)
        return;
    for (unsigned i = 0; i < admission->server->set_count; i++)
        free(admission->sets[i].polls);
    if (admission->slots_fd >= 0)
        gs_sys_close(admission->slots_fd);
    if (admission->drain_fd >= 0)
        gs_sys_close(admission->drain_fd);
    serve_table_free(admission->table);
    admission->server->table = NULL;
    munmap(admission, size_of(admission->server));
}

/* The slot is counted first, so that it is not lost if the process is killed between the two. */
static bool acquire_slot(struct serve_listener_set *set)
{
    struct serve_admission *admission = set->admission;
    uint64_t one;
    atomic_fetch_add(&set->held, 1);
    if (gs_sys_read(admission->slots_fd, &one, sizeof one) < 0) {
        atomic_fetch_sub(&set->held, 1);
        return false;
    }
    atomic_fetch_add(&admission->used, 1);
    return true;
}

void serve_admission_release(struct serve_admission *admission)
{
    static const uint64_t one = 1;
    atomic_fetch_sub(&admission->used, 1);
    gs_sys_write(admission->slots_fd, &one, sizeof one);
}

void serve_admission_drain(struct serve_admission *admission)
{
    static const uint64_t one = 1;
    uint64_t drain_ns = admission->server->options->drain_timeout_ns;
    atomic_store(&admission->drain_until_ns, gs_clock_after(gs_clock_now(), drain_ns));
    gs_sys_write(admission->drain_fd, &one, sizeof one);
}

/* Acquires every slot: as no more connections are accepted, each that is released stays free. */
void serve_admission_wait_empty(struct serve_admission *admission)
{
    uint64_t left = admission->max;
    struct pollfd poll = {.fd = admission->slots_fd, .events = POLLIN};
    while (left) {
        uint64_t one;
        if (gs_sys_read(admission->slots_fd, &one, sizeof one) > 0)
            left--;
        else
            gs_sys_poll(&poll, 1, GS_NEVER);
    }
    (void)atomic_load(&admission->used); /* pairs with the subtraction of each release */
}

/* ---- Accepting, by the thread whose turn it is ---- */

static int listener_at(const struct serve_listener_set *set, unsigned address)
{
    const struct serve_server *server = set->admission->server;
    return server->listeners[set->index * server->address_count + address];
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* The time until the shard is to be tended again. */
static uint64_t tend(struct serve_shard *shard)
{
    uint64_t now_ns = gs_clock_now(), next_ns = serve_shard_tend(shard, now_ns);
    return next_ns == GS_NEVER ? GS_NEVER : next_ns > now_ns ? next_ns - now_ns : 0;
}

/* Wait for the first `count` of the polls. Returns 0 or -EINTR. */
static int wait_for(struct serve_listener_set *set, unsigned count, uint64_t timeout_ns)
{
    bool is_draining = serve_admission_is_draining(set->admission);
    set->polls[DRAIN] =
        (struct pollfd){.fd = is_draining ? -1 : set->admission->drain_fd, .events = POLLIN};
    set->polls[EXTRA] = (struct pollfd){.fd = set->extra_fd, .events = POLLIN};
    int n = gs_sys_poll(set->polls, count, earlier(timeout_ns, tend(set->shard)));
    return n > 0 && set->polls[EXTRA].revents ? -EINTR : 0;
}

/* Ends listening for all processes, no matter which of them have the sockets open. Sockets that
 * other servers accept from stay as they are. */
static int shut_down(struct serve_listener_set *set)
{
    const struct serve_server *server = set->admission->server;
    for (unsigned i = 0; i < server->address_count; i++)
        if (!serve_listener_is_shared(server, i))
            gs_sys_shutdown(listener_at(set, i), SHUT_RDWR);
    set->is_shut_down = true;
    return 0;
}

static int wait_for_connection(struct serve_listener_set *set)
{
    unsigned count = set->admission->server->address_count;
    for (unsigned i = 0; i < count; i++)
        set->polls[FIRST + i] = (struct pollfd){.fd = listener_at(set, i), .events = POLLIN};
    return wait_for(set, FIRST + count, GS_NEVER);
}

static bool is_connection_pending(const struct serve_listener_set *set)
{
    bool is_pending = false;
    for (unsigned i = 0; !is_pending && i < set->admission->server->address_count; i++)
        is_pending = serve_is_connection_pending(listener_at(set, i));
    return is_pending;
}

/* Also while the server drains: those that wait for a slot are served until the drain timeout. */
static int wait_for_slot(struct serve_listener_set *set)
{
    uint64_t until_ns = atomic_load(&set->admission->drain_until_ns), timeout_ns = GS_NEVER;
    if (until_ns != GS_NEVER) {
        uint64_t now_ns = gs_clock_now();
        if (now_ns >= until_ns || !is_connection_pending(set))
            return shut_down(set);
        timeout_ns = until_ns - now_ns;
    }
    set->polls[FIRST] = (struct pollfd){.fd = set->admission->slots_fd, .events = POLLIN};
    return wait_for(set, FIRST + 1, timeout_ns);
}

static int wait_for_descriptors(struct serve_listener_set *set)
{
    serve_table_watch(set->admission->table);
    return wait_for(set, FIRST, SERVE_DESCRIPTORS_PAUSE_NS);
}

/* At each address in turn. Returns the descriptor, or -errno. */
static int accept_any(struct serve_listener_set *set, struct serve_accepted *accepted)
{
    const struct serve_server *server = set->admission->server;
    struct sockaddr *address = (struct sockaddr *)&accepted->address;
    accepted->has_address = server->log_fd >= 0;
    int fd = -EAGAIN;
    for (unsigned i = 0; fd == -EAGAIN && i < server->address_count; i++) {
        socklen_t length = sizeof accepted->address;
        accepted->is_tls = server->addresses[i].is_tls;
        fd = gs_sys_accept(listener_at(set, i), accepted->has_address ? address : NULL,
                           accepted->has_address ? &length : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    return fd;
}

/* When the server ends, another generation may be the first to shut the listeners down. */
static bool is_shut_down_by_another(const struct serve_listener_set *set, int err)
{
    const struct serve_generation *generation = &set->admission->server->generation;
    return err == -EINVAL && generation->page && !serve_generation_hands_over(generation);
}

static int handle_accept_error(struct serve_listener_set *set, int err)
{
    uint64_t drain_until_ns = atomic_load(&set->admission->drain_until_ns), now_ns = gs_clock_now();
    if (is_shut_down_by_another(set, err))
        return drain_until_ns == GS_NEVER ? wait_for(set, FIRST, SERVE_ACCEPT_PAUSE_NS)
                                          : shut_down(set);
    enum serve_accept_action action = serve_accept_failed(err, &set->warned_ns, now_ns);
    if (action == SERVE_ACCEPT_AGAIN)
        return 0;
    if (now_ns >= drain_until_ns || (action == SERVE_ACCEPT_WAIT && drain_until_ns != GS_NEVER))
        return shut_down(set);
    return action == SERVE_ACCEPT_PAUSE ? wait_for(set, FIRST, SERVE_ACCEPT_PAUSE_NS) : 0;
}

/* What waits now is still accepted. */
static void start_draining(struct serve_listener_set *set)
{
    const struct serve_server *server = set->admission->server;
    set->is_draining = true;
    for (unsigned i = 0; i < server->address_count; i++)
        set->left += serve_accept_queue_length(listener_at(set, i), server->options->backlog);
}

/* A slot is acquired once a connection is pending, so that a thread that waits at one listener set
 * does not hold a slot that another set needs. Returns 1: a connection was accepted; 0; or
 * -errno. */
static int try_to_accept(struct serve_listener_set *set, struct serve_accepted *accepted)
{
    struct serve_admission *admission = set->admission;
    bool is_draining = serve_admission_is_draining(admission);
    if (is_draining && !set->is_draining)
        start_draining(set);
    if (is_draining && !set->left)
        return shut_down(set);
    int err = is_draining ? 0 : wait_for_connection(set);
    if (err)
        return err;
    if (!is_draining && serve_descriptors_are_short())
        return wait_for_descriptors(set);
    if (!acquire_slot(set))
        return wait_for_slot(set);
    accepted->fd = accept_any(set, accepted);
    if (accepted->fd >= 0) {
        set->left -= is_draining;
        serve_descriptors_accepted();
        return 1;
    }
    serve_admission_release(admission);
    atomic_fetch_sub(&set->held, 1);
    return handle_accept_error(set, accepted->fd);
}

/* A process that waits for its turn has its cached files expire meanwhile. */
static void take_turn(struct serve_listener_set *set, struct serve_shard *shard)
{
    uint64_t wait_ns;
    int err = ETIMEDOUT;
    while (err == ETIMEDOUT && (wait_ns = tend(shard)) != GS_NEVER) {
        uint64_t until_ns = gs_clock_wall() + wait_ns;
        const struct timespec until = {.tv_sec = (time_t)(until_ns / GS_SECOND),
                                       .tv_nsec = (long)(until_ns % GS_SECOND)};
        err = pthread_mutex_timedlock(&set->turn, &until);
    }
    if (err == ETIMEDOUT)
        err = pthread_mutex_lock(&set->turn);
    if (err == EOWNERDEAD)
        pthread_mutex_consistent(&set->turn);
    set->shard = shard;
}

int serve_listener_set_accept(struct serve_listener_set *set, struct serve_shard *shard,
                              struct serve_accepted *ret_accepted)
{
    struct serve_accepted accepted;
    int result = 0;
    take_turn(set, shard);
    while (!result && !set->is_shut_down)
        result = try_to_accept(set, &accepted);
    pthread_mutex_unlock(&set->turn);
    if (result == 1)
        *ret_accepted = accepted;
    return result == 1 ? 0 : result ? result : -ECANCELED;
}
