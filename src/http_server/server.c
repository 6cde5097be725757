#include "http_server/session.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

/* Time after which accepting is tried again when descriptors or memory are exhausted. */
#define PAUSE_NS (20 * GS_MILLISECOND)

/* A connection that has waited for less does not give way: its request may be under way. */
#define EVICTED_AFTER_NS GS_SECOND
#define COMPARED_MAX 256

/* ---- Options ---- */

#define SET_DEFAULT(member_, value_) ((member_) = (member_) ? (member_) : (value_))

static void set_options(struct gs_http_sessions *sessions, const struct gs_http_server *server)
{
    struct gs_http_server *options = &sessions->options;
    struct gs_http_options *limits = &sessions->limits;
    gs_http_options_default(limits);
    *options = *server;
    SET_DEFAULT(options->max_connections, 10000);
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
    gs_list_init(&sessions->list);
}

/* ---- Accepting ---- */

/* Start a thread for the connection. The caller has a slot, which the thread takes over. */
static int start_session(struct gs_http_sessions *sessions, int fd)
{
    struct gs_http_session *session = gs_http_session_new(sessions, fd);
    int err = session ? gs_scope_spawn(&sessions->threads, gs_http_session_run, session, GS_NEVER)
                      : -ENOMEM;
    if (err) {
        free(session);
        gs_close(fd);
    }
    return err;
}

/* Accept one connection; the caller has a slot, which is free again after an error. Returns 0 or
 * -errno. */
static int accept_one(struct gs_http_sessions *sessions, int listener, uint64_t deadline_ns)
{
    int fd = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, deadline_ns);
    int err = fd < 0 ? fd : start_session(sessions, fd);
    if (err)
        gs_semaphore_post(&sessions->slots);
    return err;
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

/* Whether a part of a request has arrived, which the session will notice. */
static bool has_input(int fd)
{
    char byte;
    return gs_sys_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* End the input of a session that waits for such input, if none has arrived. What arrives now is
 * not received: the body behind it could be cut off. The sessions are locked. */
static void end_input(struct gs_http_session *session, int waits)
{
    if (!atomic_compare_exchange_strong(&session->input_owner, &waits, GS_HTTP_INPUT_DRAINED) ||
        has_input(session->exchange.fd))
        return;
    atomic_store(&session->input_owner, GS_HTTP_INPUT_ENDED);
    gs_sys_shutdown(session->exchange.fd, SHUT_RD);
}

/* Which session gives way: what it waits for, and since when. */
struct choice {
    struct gs_http_session *session; /* NULL: none */
    int waits;
    uint64_t since_ns;
};

static void compare(struct choice *choice, struct gs_http_session *session, uint64_t until_ns)
{
    /* It may become busy meanwhile, which end_input() notices. */
    int waits = atomic_load(&session->input_owner);
    uint64_t since_ns = atomic_load_explicit(&session->since_ns, memory_order_relaxed);
    if ((waits != GS_HTTP_INPUT_IDLE && waits != GS_HTTP_INPUT_HEAD) || since_ns > until_ns)
        return;
    if (!choice->session || waits < choice->waits ||
        (waits == choice->waits && since_ns < choice->since_ns))
        *choice = (struct choice){session, waits, since_ns};
}

/* Among those that are compared, and that have waited since until_ns at least: one that waits for a
 * request, or else for the rest of a head; the one that has waited longest. What was compared goes
 * to the end of the list. */
static struct choice choose(struct gs_http_sessions *sessions, uint64_t until_ns)
{
    struct choice choice = {0};
    struct gs_list *last = sessions->list.previous;
    for (unsigned i = 0; i < COMPARED_MAX && !gs_list_is_empty(&sessions->list); i++) {
        struct gs_list *link = sessions->list.next;
        gs_list_remove(link);
        gs_list_append(&sessions->list, link);
        compare(&choice, gs_container_of(link, struct gs_http_session, link), until_ns);
        if (link == last)
            break;
    }
    return choice;
}

static void evict(struct gs_http_sessions *sessions)
{
    uint64_t now_ns = gs_clock_now();
    if (now_ns <= EVICTED_AFTER_NS)
        return;
    gs_mutex_lock(&sessions->lock, GS_NEVER);
    struct choice choice = choose(sessions, now_ns - EVICTED_AFTER_NS);
    if (choice.session)
        end_input(choice.session, choice.waits);
    gs_mutex_unlock(&sessions->lock);
}

/* While no slot is free and a client waits, connections whose clients are silent give way to it.
 * Returns 0 or -errno. */
static int take_slot(struct gs_http_sessions *sessions, int listener)
{
    int err = gs_semaphore_wait(&sessions->slots, 0);
    while (err == -ETIMEDOUT) {
        err = gs_wait_readable(listener, GS_NEVER);
        if (err)
            return err;
        evict(sessions);
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

/* End the input of the sessions that wait for a request; a body that is still to come would be cut
 * off. The accesses pair with those of wait_for_request in head.c. */
static void drain(struct gs_http_sessions *sessions)
{
    atomic_store(&sessions->is_draining, true);
    gs_mutex_lock(&sessions->lock, GS_NEVER);
    GS_LIST_FOREACH (link, &sessions->list) {
        struct gs_http_session *session = gs_container_of(link, struct gs_http_session, link);
        end_input(session, GS_HTTP_INPUT_IDLE);
    }
    gs_mutex_unlock(&sessions->lock);
}

static void finish(struct gs_http_sessions *sessions, int listener, bool is_listening)
{
    bool was_cancelable = gs_thread_set_cancelable(false);
    uint64_t end_ns = gs_clock_after(gs_clock_now(), sessions->options.drain_timeout_ns);
    drain(sessions);
    if (is_listening)
        accept_pending(sessions, listener, end_ns);
    (void)!gs_scope_wait(&sessions->threads, end_ns);
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
    struct gs_http_sessions *sessions = calloc(1, sizeof *sessions);
    if (!sessions)
        return -ENOMEM;
    set_options(sessions, server);
    err = serve(sessions, listener);
    free(sessions);
    return err;
}
