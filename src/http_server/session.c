#include "http_server/session.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <stdlib.h>

/* Maximum time from the last response until the client closes: as long as bytes keep coming, and
 * altogether. */
#define LINGER_TIMEOUT_NS (5 * GS_SECOND)
#define LINGER_MAX_NS (30 * GS_SECOND)

/* ---- The end of a connection ---- */

static ssize_t discard(void *unused, const void *bytes, size_t n)
{
    (void)unused;
    (void)bytes;
    return (ssize_t)n;
}

/* A reset, which would follow from unread input, could overtake the response (RFC 9112, 9.6). */
static void linger(struct gs_http_session *session)
{
    int fd = session->exchange.fd;
    uint64_t now_ns = gs_clock_now(), end_ns = gs_clock_after(now_ns, LINGER_MAX_NS), deadline_ns;
    if (gs_sys_shutdown(fd, SHUT_WR))
        return;
    do {
        deadline_ns = gs_clock_after(now_ns, LINGER_TIMEOUT_NS);
        if (gs_recv_with(fd, discard, NULL, deadline_ns < end_ns ? deadline_ns : end_ns) <= 0)
            return;
        now_ns = gs_clock_now();
    } while (now_ns < end_ns);
}

static void close_connection(struct gs_http_session *session)
{
    int fd = session->exchange.fd;
    const struct linger reset = {.l_onoff = 1};
    if (session->state == GS_HTTP_RESPONSE_ABORTED)
        gs_sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    else if (session->must_linger || !session->body_done || gs_http_session_input_length(session))
        linger(session);
    gs_close(fd);
}

/* ---- Requests ---- */

/* Refuse a request, and all input behind it. */
static void refuse(struct gs_http_session *session, unsigned status)
{
    session->keep_alive = false;
    session->must_linger = true;
    gs_http_session_respond_status(session, status);
}

/* Returns whether another request may follow. */
static bool serve_request(struct gs_http_session *session)
{
    const struct gs_http_server *options = &session->sessions->options;
    int status = gs_http_session_read_head(session);
    if (status < 0)
        return false;
    if (status) {
        refuse(session, (unsigned)status);
        return false;
    }
    options->handler(&session->exchange, options->data);
    gs_http_session_finish_response(session);
    return session->state == GS_HTTP_RESPONSE_DONE && session->keep_alive &&
           gs_http_session_discard(session);
}

/* ---- The life of a session ---- */

struct gs_http_session *gs_http_session_new(struct gs_http_sessions *sessions, int fd)
{
    struct gs_http_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->sessions = sessions;
    session->exchange.fd = fd;
    session->is_first = true;
    session->date_seconds = -1;
    return session;
}

/* Enter the list by which a draining server finds its sessions. */
static void enter(struct gs_http_session *session)
{
    struct gs_http_sessions *sessions = session->sessions;
    gs_mutex_lock(&sessions->lock, GS_NEVER);
    gs_list_append(&sessions->list, &session->link);
    gs_mutex_unlock(&sessions->lock);
}

static void leave(struct gs_http_session *session)
{
    gs_mutex_lock(&session->sessions->lock, GS_NEVER);
    gs_list_remove(&session->link);
    gs_mutex_unlock(&session->sessions->lock);
}

/* Called when the thread ends, also by a handler that calls gs_thread_exit: a response that it has
 * not completed is broken off. */
static void end(void *argument)
{
    struct gs_http_session *session = argument;
    struct gs_http_sessions *sessions = session->sessions;
    if (session->state == GS_HTTP_RESPONSE_HEAD || session->state == GS_HTTP_RESPONSE_BODY)
        gs_http_abort(&session->exchange);
    leave(session);
    close_connection(session);
    gs_http_session_release(session);
    free(session->input);
    free(session);
    gs_semaphore_post(&sessions->slots);
}

int gs_http_session_run(void *argument)
{
    struct gs_http_session *session = argument;
    gs_cleanup_push(&session->cleanup, end, session);
    enter(session);
    while (serve_request(session))
        gs_http_session_release(session);
    gs_cleanup_pop(true);
    return 0;
}
