#include "http_server/streams.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <sys/socket.h>

/* A connection that has waited for less does not give way: its request may be under way. */
#define EVICTED_AFTER_NS GS_SECOND

/* How often an eviction is awaited before another worker is asked, as this one may be busy with a
 * handler. They are counted because all workers may be late by any time on a busy machine. */
#define EVICTION_ATTEMPTS 50

/* ---- Lists and deadlines ---- */

static struct gs_http_connection *first(struct gs_http_worker *worker, enum gs_http_wait waits_for)
{
    struct gs_list *list = &worker->waiting[waits_for];
    return gs_list_is_empty(list) ? NULL
                                  : gs_container_of(list->next, struct gs_http_connection, link);
}

static void publish_first(struct gs_http_worker *worker, enum gs_http_wait waits_for)
{
    const struct gs_http_connection *connection = first(worker, waits_for);
    atomic_store_explicit(&worker->since_ns[waits_for],
                          connection ? connection->since_ns : GS_NEVER, memory_order_relaxed);
}

static uint64_t deadline_of(const struct gs_http_connection *connection)
{
    const struct gs_http_server *options = &connection->sessions->options;
    const uint64_t timeouts_ns[] = {
        [GS_HTTP_WAITS_FIRST] = options->header_timeout_ns,
        [GS_HTTP_WAITS_NEXT] = options->idle_timeout_ns,
        [GS_HTTP_WAITS_HEAD] = options->header_timeout_ns,
        [GS_HTTP_WAITS_SEND] = options->write_timeout_ns,
        [GS_HTTP_WAITS_CLOSE] = GS_SECOND,
    };
    return gs_clock_after(connection->since_ns, timeouts_ns[connection->waits_for]);
}

static void on_timer(struct gs_timer *timer);

/* Let the timer expire at the deadline, or before. Returns 0, -ENOMEM, or -ECANCELED: in a child of
 * fork the worker has another loop, and no keeper. */
static int expire(struct gs_http_worker *worker, uint64_t deadline_ns)
{
    struct gs_timer *timer = &worker->timer;
    if (!timer->callback)
        gs_timer_init(timer, gs_threads_loop(), on_timer);
    if (timer->watcher.loop != gs_threads_loop())
        return -ECANCELED;
    bool is_early = timer->watcher.active && timer->deadline_ns <= deadline_ns;
    return is_early || deadline_ns == GS_NEVER ? 0 : gs_timer_start(timer, deadline_ns);
}

/* Whether connections that wait for this are closed. */
static bool is_over(struct gs_http_sessions *sessions, enum gs_http_wait waits_for)
{
    return atomic_load(&sessions->phase) >=
           (waits_for >= GS_HTTP_WAITS_HEAD ? GS_HTTP_CANCELED : GS_HTTP_DRAINING);
}

int gs_http_worker_keep(struct gs_http_connection *connection, enum gs_http_wait waits_for)
{
    struct gs_http_worker *worker = connection->worker;
    if (is_over(connection->sessions, waits_for))
        return -ECANCELED;
    if (connection->state == GS_HTTP_CONNECTION_WAITING) {
        if (connection->waits_for == waits_for)
            return 0;
        gs_http_worker_remove(connection, GS_HTTP_CONNECTION_SERVED);
    }
    connection->since_ns = gs_clock_now();
    connection->waits_for = (unsigned char)waits_for;
    int err = expire(worker, deadline_of(connection));
    if (err)
        return err;
    gs_list_append(&worker->waiting[waits_for], &connection->link);
    connection->state = GS_HTTP_CONNECTION_WAITING;
    if (first(worker, waits_for) == connection)
        publish_first(worker, waits_for);
    return 0;
}

void gs_http_worker_remove(struct gs_http_connection *connection,
                           enum gs_http_connection_state state)
{
    struct gs_http_worker *worker = connection->worker;
    enum gs_http_wait waits_for = connection->waits_for;
    bool was_first = first(worker, waits_for) == connection;
    gs_list_remove(&connection->link);
    connection->state = (unsigned char)state;
    if (was_first)
        publish_first(worker, waits_for);
}

/* Its resumable does the rest. */
static void take(struct gs_http_connection *connection, enum gs_http_connection_state state)
{
    gs_http_worker_remove(connection, state);
    gs_resumable_wake(&connection->resumable);
}

static void on_timer(struct gs_timer *timer)
{
    struct gs_http_worker *worker = gs_container_of(timer, struct gs_http_worker, timer);
    struct gs_http_connection *connection;
    uint64_t now_ns = gs_clock_now();
    for (unsigned i = 0; i < GS_HTTP_WAITS; i++) {
        while ((connection = first(worker, i)) && deadline_of(connection) <= now_ns)
            take(connection, GS_HTTP_CONNECTION_TIMED_OUT);
        /* It cannot fail: a timer that has just expired has left its place. */
        if (connection)
            (void)!expire(worker, deadline_of(connection));
    }
}

/* ---- Ending connections ---- */

/* Unless a part of a request has arrived, which its resumable will notice. Returns whether it is
 * closed. */
static bool close_if_silent(struct gs_http_connection *connection)
{
    char byte;
    bool is_silent = gs_sys_recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
    if (is_silent)
        take(connection, GS_HTTP_CONNECTION_CLOSING);
    return is_silent;
}

static void close_all(struct gs_http_worker *worker, enum gs_http_wait waits_for)
{
    GS_LIST_FOREACH (link, &worker->waiting[waits_for])
        (void)close_if_silent(gs_container_of(link, struct gs_http_connection, link));
}

static bool evict_first(struct gs_http_worker *worker, enum gs_http_wait waits_for)
{
    struct gs_http_connection *connection = first(worker, waits_for);
    return connection && gs_clock_now() - connection->since_ns >= EVICTED_AFTER_NS &&
           close_if_silent(connection);
}

static void evict(struct gs_http_worker *worker)
{
    unsigned eviction = atomic_load(&worker->eviction);
    if (!eviction || eviction == GS_HTTP_GIVES_WAY)
        return;
    bool gives_way = evict_first(worker, eviction - 1);
    atomic_store(&worker->eviction, gives_way ? GS_HTTP_GIVES_WAY : 0);
}

/* ---- The keeper ---- */

static void keep(struct gs_resumable *keeper)
{
    struct gs_http_worker *worker = gs_container_of(keeper, struct gs_http_worker, keeper);
    struct gs_http_sessions *sessions = worker->sessions;
    evict(worker);
    gs_http_streams_deliver(worker);
    int phase = atomic_load(&sessions->phase);
    if (phase != worker->phase) {
        worker->phase = phase;
        gs_http_streams_wake(worker);
    }
    for (unsigned i = 0; i < GS_HTTP_WAITS; i++)
        if (is_over(sessions, i))
            close_all(worker, i);
    if (atomic_load(&sessions->phase) != GS_HTTP_STOPPED)
        return;
    if (worker->timer.callback)
        gs_timer_stop(&worker->timer);
    gs_resumable_end(keeper);
    gs_semaphore_post(&sessions->stopped);
}

/* ---- All workers ---- */

static void init(struct gs_http_sessions *sessions, struct gs_http_worker *worker, unsigned number)
{
    worker->sessions = sessions;
    worker->number = number;
    worker->attributes = sessions->attributes;
    /* Threads that do not migrate stay with the connection. */
    if (!worker->attributes.migrates)
        worker->attributes.worker = number;
    worker->threads.attributes = &worker->attributes;
    for (unsigned i = 0; i < GS_HTTP_WAITS; i++) {
        gs_list_init(&worker->waiting[i]);
        atomic_init(&worker->since_ns[i], GS_NEVER);
    }
    gs_list_init(&worker->http2);
    gs_resumable_init(&worker->keeper, keep);
}

void gs_http_workers_start(struct gs_http_sessions *sessions)
{
    for (unsigned i = 0; i < sessions->worker_count; i++) {
        init(sessions, &sessions->workers[i], i + 1);
        (void)!gs_resumable_start(&sessions->workers[i].keeper, i + 1); /* there is such a worker */
    }
}

void gs_http_workers_enter(struct gs_http_sessions *sessions, enum gs_http_phase phase)
{
    atomic_store(&sessions->phase, phase);
    for (unsigned i = 0; i < sessions->worker_count; i++)
        gs_resumable_wake(&sessions->workers[i].keeper);
}

void gs_http_workers_stop(struct gs_http_sessions *sessions)
{
    gs_http_workers_enter(sessions, GS_HTTP_STOPPED);
    for (unsigned i = 0; i < sessions->worker_count; i++)
        (void)!gs_semaphore_wait(&sessions->stopped, GS_NEVER);
}

/* ---- Eviction ---- */

/* Which connection gives way: the first one of a list. */
struct choice {
    struct gs_http_worker *worker; /* NULL: none */
    enum gs_http_wait waits_for;
    uint64_t since_ns;
};

static void compare(struct choice *choice, struct gs_http_worker *worker,
                    enum gs_http_wait waits_for)
{
    uint64_t since_ns = atomic_load_explicit(&worker->since_ns[waits_for], memory_order_relaxed);
    if (!atomic_load(&worker->eviction) && since_ns < choice->since_ns)
        *choice = (struct choice){worker, waits_for, since_ns};
}

/* When it has ended, its place may have become free since the caller has looked for one. */
static bool is_under_way(struct gs_http_sessions *sessions)
{
    if (!sessions->asked)
        return false;
    if (atomic_load(&sessions->asked->eviction))
        return sessions->attempts++ < EVICTION_ATTEMPTS;
    sessions->asked = NULL;
    return true;
}

/* One that waits for a request, or else for the rest of a head. */
void gs_http_workers_evict(struct gs_http_sessions *sessions)
{
    if (is_under_way(sessions))
        return;
    uint64_t now_ns = gs_clock_now();
    struct choice choice = {.since_ns = now_ns > EVICTED_AFTER_NS ? now_ns - EVICTED_AFTER_NS : 0};
    for (unsigned i = 0; i < sessions->worker_count; i++) {
        compare(&choice, &sessions->workers[i], GS_HTTP_WAITS_FIRST);
        compare(&choice, &sessions->workers[i], GS_HTTP_WAITS_NEXT);
    }
    bool is_found = choice.worker;
    for (unsigned i = 0; !is_found && i < sessions->worker_count; i++)
        compare(&choice, &sessions->workers[i], GS_HTTP_WAITS_HEAD);
    if (!choice.worker)
        return;
    sessions->asked = choice.worker;
    sessions->attempts = 0;
    atomic_store(&choice.worker->eviction, choice.waits_for + 1u);
    gs_resumable_wake(&choice.worker->keeper);
}
