#include "http_server/session.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Time after which accepting is tried again when descriptors or memory are exhausted. */
#define PAUSE_NS (20 * GS_MILLISECOND)

/* ---- Options ---- */

#define SET_DEFAULT(member_, value_) ((member_) = (member_) ? (member_) : (value_))

static void set_options(struct gs_http_sessions *sessions, const struct gs_http_server *server)
{
    struct gs_http_server *options = &sessions->options;
    struct gs_http_options *limits = &sessions->limits;
    gs_http_options_default(limits);
    *options = *server;
    SET_DEFAULT(options->max_connections, 10000);
    SET_DEFAULT(options->max_streams, 100);
    SET_DEFAULT(options->header_timeout_ns, limits->header_timeout_ns);
    SET_DEFAULT(options->idle_timeout_ns, limits->idle_timeout_ns);
    SET_DEFAULT(options->body_timeout_ns, 60 * GS_SECOND);
    SET_DEFAULT(options->write_timeout_ns, 60 * GS_SECOND);
    SET_DEFAULT(options->drain_timeout_ns, 10 * GS_SECOND);
    limits->max_request_line = SET_DEFAULT(options->max_request_line, limits->max_request_line);
    limits->max_header = SET_DEFAULT(options->max_header, limits->max_header);
    limits->max_fields = SET_DEFAULT(options->max_fields, limits->max_fields);
    limits->max_body = SET_DEFAULT(options->max_body, limits->max_body);
    sessions->attributes = (struct gs_thread_attributes){
        .name = "http", .stack_size = options->stack_size, .migrates = options->migrates};
    sessions->threads.attributes = &sessions->attributes;
    sessions->slots.count = options->max_connections;
}

/* ---- Accepting ---- */

/* Start a thread for the connection. It has the caller's slot, which is free again after an
 * error. */
static int start_session(struct gs_http_sessions *sessions, int fd)
{
    struct gs_http_connection *connection = gs_http_connection_new(sessions, fd);
    if (!connection) {
        gs_close(fd);
        gs_semaphore_post(&sessions->slots);
        return -ENOMEM;
    }
    int err = gs_scope_spawn(&sessions->threads, gs_http_session_run, connection, GS_NEVER);
    if (err) {
        gs_close(fd);
        gs_http_connection_free(connection);
    }
    return err;
}

/* Accept one connection; the caller has a slot, which is free again after an error. Returns 0 or
 * -errno. */
static int accept_one(struct gs_http_sessions *sessions, int listener, uint64_t deadline_ns)
{
    int fd = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, deadline_ns);
    if (fd >= 0)
        return start_session(sessions, fd);
    gs_semaphore_post(&sessions->slots);
    return fd;
}

/* Whether accepting can never succeed again. */
static bool is_final(int err)
{
    return err == -ECANCELED || err == -EBADF || err == -EINVAL || err == -ENOTSOCK;
}

static bool is_exhaustion(int err)
{
    return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS || err == -EAGAIN;
}

/* While no slot is free and a client waits, connections whose clients are silent give way to it.
 * Returns 0 or -errno. */
static int take_slot(struct gs_http_sessions *sessions, int listener)
{
    int err = gs_semaphore_wait(&sessions->slots, 0);
    while (err == -ETIMEDOUT) {
        err = gs_wait_readable(listener, GS_NEVER);
        if (!err)
            err = gs_semaphore_wait(&sessions->slots, 0); /* one may be free meanwhile */
        if (err != -ETIMEDOUT)
            return err;
        gs_http_workers_evict(sessions);
        err = gs_semaphore_wait(&sessions->slots, gs_clock_now() + PAUSE_NS);
    }
    return err;
}

/* Accept until that fails permanently, or the thread is canceled: while there is always a client,
 * no call waits and notices that. Other errors are those of single connections (accept(2)).
 * Returns the final error. */
static int accept_all(struct gs_http_sessions *sessions, int listener)
{
    for (;;) {
        int err = gs_thread_is_canceled() ? -ECANCELED : take_slot(sessions, listener);
        if (!err)
            err = accept_one(sessions, listener, GS_NEVER);
        /* Without memory for a timer the pause is short. */
        if (is_exhaustion(err) && gs_thread_sleep(gs_clock_now() + PAUSE_NS) == -ECANCELED)
            err = -ECANCELED;
        if (is_final(err))
            return err;
        if (err)
            gs_thread_yield();
    }
}

/* ---- The end ---- */

/* Accept what is pending, as far as there are slots, and no longer than until end_ns: clients may
 * connect as fast as they are accepted. */
static void accept_pending(struct gs_http_sessions *sessions, int listener, uint64_t end_ns)
{
    int err = 0;
    while (!err || (!is_final(err) && !is_exhaustion(err) && err != -ETIMEDOUT)) {
        if (gs_clock_now() >= end_ns || gs_semaphore_wait(&sessions->slots, 0))
            break;
        err = accept_one(sessions, listener, 0);
    }
}

/* Returns 0; or -errno if connections are left when the deadline passes. */
static int wait_for_connections(struct gs_http_sessions *sessions, uint64_t deadline_ns)
{
    int err = 0;
    while (!err && atomic_load(&sessions->open))
        err = gs_semaphore_wait(&sessions->all_ended, deadline_ns);
    return err;
}

static void cancel_threads(struct gs_http_sessions *sessions)
{
    gs_scope_cancel(&sessions->threads);
    for (unsigned i = 0; i < sessions->worker_count; i++)
        gs_scope_cancel(&sessions->workers[i].threads);
}

/* The threads may not have ended yet when their connections have. */
static void wait_for_threads(struct gs_http_sessions *sessions)
{
    gs_scope_wait(&sessions->threads, GS_NEVER);
    for (unsigned i = 0; i < sessions->worker_count; i++)
        gs_scope_wait(&sessions->workers[i].threads, GS_NEVER);
}

static void finish(struct gs_http_sessions *sessions, int listener, bool is_listening)
{
    bool was_cancelable = gs_thread_set_cancelable(false);
    uint64_t end_ns = gs_clock_after(gs_clock_now(), sessions->options.drain_timeout_ns);
    gs_http_workers_enter(sessions, GS_HTTP_DRAINING);
    if (is_listening)
        accept_pending(sessions, listener, end_ns);
    if (wait_for_connections(sessions, end_ns)) {
        gs_http_workers_enter(sessions, GS_HTTP_CANCELED);
        cancel_threads(sessions);
        (void)!wait_for_connections(sessions, GS_NEVER);
    }
    wait_for_threads(sessions);
    gs_http_workers_stop(sessions);
    gs_thread_set_cancelable(was_cancelable);
}

static int serve(struct gs_http_sessions *sessions, int listener)
{
    const int on = 1;
    /* Inherited by the connections, so that parts of a response are not held back; of no
     * consequence for sockets without it. */
    gs_sys_setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int err = accept_all(sessions, listener);
    finish(sessions, listener, err == -ECANCELED);
    return err == -ECANCELED ? 0 : err;
}

/* What the sessions use is not on the stack of the caller, which may be private. */
static struct gs_http_sessions *new_sessions(const struct gs_http_server *server)
{
    unsigned workers = gs_threads_workers();
    size_t size = sizeof(struct gs_http_sessions) + workers * sizeof(struct gs_http_worker);
    struct gs_http_sessions *sessions = aligned_alloc(_Alignof(struct gs_http_sessions), size);
    if (!sessions)
        return NULL;
    memset(sessions, 0, size);
    sessions->worker_count = workers;
    sessions->pid = getpid();
    set_options(sessions, server);
    return sessions;
}

int gs_http_serve(int listener, const struct gs_http_server *server)
{
    int is_listening = 0;
    socklen_t length = sizeof is_listening;
    if (!server->handler)
        return -EINVAL;
    int err = gs_sys_getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &length);
    if (err)
        return err;
    if (!is_listening)
        return -EINVAL;
    struct gs_http_sessions *sessions = new_sessions(server);
    if (!sessions)
        return -ENOMEM;
    gs_http_workers_start(sessions);
    err = serve(sessions, listener);
    for (unsigned i = 0; i < sessions->worker_count; i++)
        free(sessions->workers[i].http2_block);
    free(sessions);
    return err;
}
