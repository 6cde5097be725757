/* A user-level thread for each connection, in blocking code. One call of gs_recv_with receives,
 * runs HTTP and usually sends the answer. What is left is done by the thread's loop: it loads
 * files, sends them, and waits for room in full sockets.
 *
 *     listener (one a worker and address, SO_REUSEPORT)
 *        |
 *        v
 *     accepting thread            thread of a connection, which may go on on another worker
 *     +------------------+        +-----------------------------------------------------+
 *     | acquire a slot   | spawn  |      gs_recv_with              what is left, if any |
 *     | accept           |------->|  .-> receive, HTTP, send ....> load, send --.       |
 *     +------------------+        |  |      :                       :      :    |       |
 *          ^                      |  `------:-----------------------:------:----'       |
 *          |                      +---------:-----------------------:------:------------+
 *          |                            readable                  file  writable
 *          |                          (or the deadline of what is waited for)
 *          `--- a slot is free again when the connection ends
 *
 * The loop is in serve/connection/blocking.c, its calls in serve/connection/blocking_user.c.
 * gs_recv_with handles what was received on the worker's stack, so the stack of a connection that
 * waits contains little, and nobody else uses it: the threads share stacks (stack_is_shared). */
#include "serve/accept/accept_thread.h"
#include "serve/arch/arch.h"
#include "serve/connection/blocking.h"
#include "serve/connection/loops.h"
#include "serve/connection/shard_thread.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/list.h>
#include <gossamer/sys.h>
#include <stdlib.h>

/* Kernel threads for files, so that a slow disk does not keep those that read another; and one that
 * waits for signals. */
#define POOL_THREADS 33

/* After so long in one system call a worker counts as stuck, and others take over what has not
 * started yet: new connections. Its other connections wait for it, as they share its stacks. */
#define STUCK_NS (100 * GS_MILLISECOND)

struct user_server {
    struct serve_server *server;
    struct gs_semaphore slots;             /* for connections */
    _Atomic(uint64_t) drain_until_ns;      /* GS_NEVER: the server is not draining */
    struct user_shard *shards;             /* one for each worker */
    struct serve_accept_thread *acceptors; /* as server->listeners */
    int result;
};

/* What the connections share that came through one worker's listeners. They may run on other
 * workers. */
struct user_shard {
    struct serve_shard base;
    struct user_server *user;
    pthread_mutex_t connections_lock;
    struct gs_list connections; /* those that were compared last for eviction are at the end */
    unsigned connection_count;
    struct serve_candidates candidates; /* too large for a stack; also locked */
    struct serve_shard_thread tending;
};

/* A connection. It is not on its thread's stack, which others share, because other threads find it
 * in its shard's list: to choose one that gives way, and to cancel all when the server drains. */
struct user_connection {
    union {
        struct { /* until its thread starts */
            struct serve_accepted accepted;
            struct user_shard *start_shard;
        };
        struct serve_blocking blocking;
    };
    struct gs_list link;
    struct gs_thread *thread;
};

/* ---- A connection's thread ---- */

static struct user_shard *shard_of(const struct user_connection *connection)
{
    return gs_container_of(connection->blocking.base.shard, struct user_shard, base);
}

/* Not inline: the copy would stay on the stack of a thread that waits. */
__attribute__((noinline)) static void connection_init(struct user_connection *connection)
{
    const struct serve_accepted accepted = connection->accepted;
    struct user_shard *shard = connection->start_shard;
    connection->thread = gs_thread_self();
    serve_blocking_init(&connection->blocking, &serve_user_calls, &shard->base, &accepted);
    pthread_mutex_lock(&shard->connections_lock);
    gs_list_append(&shard->connections, &connection->link);
    shard->connection_count++;
    pthread_mutex_unlock(&shard->connections_lock);
}

static void *close_connection(void *data)
{
    serve_connection_done(data);
    return NULL;
}

/* Not inline: its registers would be saved on that stack, too. */
__attribute__((noinline)) static void connection_done(struct user_connection *connection)
{
    struct user_shard *shard = shard_of(connection);
    pthread_mutex_lock(&shard->connections_lock);
    gs_list_remove(&connection->link);
    shard->connection_count--;
    pthread_mutex_unlock(&shard->connections_lock);
    gs_forget(connection->blocking.base.fd);
    gs_thread_call_on_worker_stack(close_connection, &connection->blocking.base);
    gs_semaphore_post(&shard->user->slots);
}

static void *serve(void *argument)
{
    struct user_connection *connection = argument;
    connection_init(connection);
    serve_blocking_run(&connection->blocking);
    connection_done(connection);
    free(connection);
    return NULL;
}

static int on_accepted(void *data, const struct serve_accepted *accepted)
{
    struct user_shard *shard = data;
    const struct gs_thread_attributes attributes = {.stack_size = SERVE_USER_STACK_SIZE,
                                                    .stack_is_shared = true};
    struct user_connection *connection = malloc(sizeof *connection);
    if (!connection)
        return -ENOMEM;
    connection->accepted = *accepted;
    connection->start_shard = shard;
    int err = gs_thread_spawn(&attributes, serve, connection, NULL);
    if (err)
        free(connection);
    return err;
}

/* ---- Making room ---- */

/* Those that were compared go to the end of the list. The caller holds the lock. */
static struct user_connection *choose(struct user_shard *shard)
{
    struct serve_candidates *candidates = &shard->candidates;
    serve_candidates_init(candidates);
    for (unsigned i = 0; i < SERVE_EVICTION_CANDIDATES && i < shard->connection_count; i++) {
        struct gs_list *link = shard->connections.next;
        struct user_connection *connection = gs_container_of(link, struct user_connection, link);
        gs_list_remove(link);
        gs_list_append(&shard->connections, link);
        serve_candidates_add(candidates, connection,
                             serve_connection_address(&connection->blocking.base),
                             atomic_load(&connection->blocking.own_waits));
    }
    return serve_candidates_take(candidates);
}

/* A request that has arrived meanwhile is still received and answered, and then its thread sees the
 * end, as if the client had closed. Under the lock the connection is not closed, so its descriptor
 * is no other's. */
static bool evict(struct user_shard *shard)
{
    pthread_mutex_lock(&shard->connections_lock);
    struct user_connection *connection = choose(shard);
    if (connection)
        serve_connection_end_input(&connection->blocking.base);
    pthread_mutex_unlock(&shard->connections_lock);
    return connection;
}

/* Called by an accepting thread: the connections of its own shard come first. Those that it has
 * just accepted enter the list when their threads run. */
static void make_room(void *data)
{
    struct user_shard *shard = data, *shards = shard->user->shards;
    struct serve_server *server = shard->user->server;
    unsigned first = (unsigned)(shard - shards);
    gs_thread_yield();
    for (unsigned i = 0; i < server->workers; i++)
        if (evict(&shards[(first + i) % server->workers])) {
            serve_eviction_count(server->evictions);
            return;
        }
}

/* ---- Start and end ---- */

static int start_threads(struct user_server *user)
{
    struct serve_server *server = user->server;
    int err = 0;
    for (unsigned i = 0; !err && i < server->workers; i++)
        err = serve_shard_thread_start(&user->shards[i].tending, &user->shards[i].base, i + 1);
    for (unsigned i = 0; !err && i < server->workers * server->address_count; i++) {
        struct serve_accept_thread *acceptor = &user->acceptors[i];
        *acceptor = (struct serve_accept_thread){
            .listener = server->listeners[i],
            .wants_address = server->log_fd >= 0,
            .is_tls = server->addresses[i % server->address_count].is_tls,
            .priority = server->options->priority,
            .slots = &user->slots,
            .accepted = on_accepted,
            .make_room = server->options->evicts ? make_room : NULL,
            .data = &user->shards[i / server->address_count],
        };
        err = serve_accept_thread_start(acceptor);
    }
    return err;
}

static void cancel_connections(struct user_shard *shard)
{
    pthread_mutex_lock(&shard->connections_lock);
    GS_LIST_FOREACH (link, &shard->connections)
        gs_thread_cancel(gs_container_of(link, struct user_connection, link)->thread);
    pthread_mutex_unlock(&shard->connections_lock);
}

/* Connections are cancelled before accepting ends, so that those that are idle end, and their slots
 * are free for those that are pending. A connection that comes into a list after that sees
 * drain_until_ns in its first step. Every slot is free again when no connection is left. */
static void finish(struct user_server *user)
{
    struct serve_server *server = user->server;
    uint64_t until_ns = atomic_load(&user->drain_until_ns);
    for (unsigned i = 0; i < server->workers * server->address_count; i++)
        user->acceptors[i].pending =
            serve_accept_queue_length(server->listeners[i], server->options->backlog);
    for (unsigned i = 0; i < server->workers; i++)
        cancel_connections(&user->shards[i]);
    for (unsigned i = 0; i < server->workers * server->address_count; i++)
        if (user->acceptors[i].thread)
            serve_accept_thread_finish(&user->acceptors[i], user->acceptors[i].pending, until_ns);
    for (unsigned i = 0; i < server->workers; i++)
        serve_stop_listening(server, i);
    for (uint64_t i = 0; i < server->options->max_connections; i++)
        (void)!gs_semaphore_wait(&user->slots, GS_NEVER);
    for (unsigned i = 0; i < server->workers; i++)
        serve_shard_thread_stop(&user->shards[i].tending);
}

static void wait_for_signal(void *argument)
{
    struct user_server *user = argument;
    user->result = serve_wait(user->server);
}

static void *main_thread(void *argument)
{
    struct user_server *user = argument;
    serve_report_poller(user->server, gs_threads_poller());
    int err = start_threads(user);
    if (!err)
        err = gs_run_blocking(wait_for_signal, user, GS_NEVER);
    user->result = err ? err : user->result;
    uint64_t drain_ns = user->result ? 0 : user->server->options->drain_timeout_ns;
    atomic_store(&user->drain_until_ns, gs_clock_after(gs_clock_now(), drain_ns));
    finish(user);
    return NULL;
}

static int init(struct user_server *user)
{
    struct serve_server *server = user->server;
    user->shards = calloc(server->workers, sizeof *user->shards);
    user->acceptors =
        calloc((size_t)server->workers * server->address_count, sizeof *user->acceptors);
    int err = user->shards && user->acceptors ? 0 : -ENOMEM;
    for (unsigned i = 0; !err && i < server->workers; i++) {
        user->shards[i].user = user;
        user->shards[i].connections_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        gs_list_init(&user->shards[i].connections);
        user->shards[i].base.drain_until_ns = &user->drain_until_ns;
        err = serve_shard_init(&user->shards[i].base, server, i, server->workers > 1);
    }
    return err;
}

static int run(struct serve_server *server)
{
    struct user_server user = {.server = server,
                               .slots.count = server->options->max_connections,
                               .drain_until_ns = GS_NEVER};
    const struct gs_threads_options options = {.workers = server->workers,
                                               .max_pool_threads = POOL_THREADS,
                                               .stuck_ns = STUCK_NS,
                                               .on_failure = serve_request_end};
    serve_block_signals();
    int err = init(&user);
    if (!err)
        err = gs_threads_run(&options, main_thread, &user, NULL);
    for (unsigned i = 0; user.shards && i < server->workers; i++)
        serve_shard_done(&user.shards[i].base);
    free(user.acceptors);
    free(user.shards);
    return err ? err : user.result;
}

const struct serve_arch serve_arch_user = {
    .name = "user",
    .summary = "a user-level thread for each connection, in plain blocking code",
    .workers = "kernel threads that run user-level threads, each with a listening socket",
    .min_workers = 1,
    .has_priority = true,
    .poller_reason = "threads wait for readiness, for which io_uring took 0.98 to 1.03 of epoll's "
                     "processor time",
    .run = run,
};
