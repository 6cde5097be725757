/* The thread of a request of HTTP/2. */
#include "http_server/streams.h"

#include <errno.h>
#include <unistd.h>

/* ---- Calls ---- */

/* Release: pairs with the acquire in gs_http_streams_deliver. The mail may be gone as soon as it
 * was pushed. */
static void send_mail(struct gs_http_worker *worker, struct gs_http_mail *mail)
{
    struct gs_http_mail *newest = atomic_load_explicit(&worker->mail, memory_order_relaxed);
    do
        mail->next = newest;
    while (!atomic_compare_exchange_weak_explicit(&worker->mail, &newest, mail,
                                                  memory_order_release, memory_order_relaxed));
    if (!newest) /* otherwise its sender wakes the keeper, which takes both */
        gs_resumable_wake(&worker->keeper);
}

/* Returns the result. */
static ssize_t call(struct gs_http_stream *stream, enum gs_http_call what, uint64_t deadline_ns)
{
    struct gs_http_stream_call *call =
        what == GS_HTTP_CALL_READ ? &stream->reading : &stream->writing;
    struct gs_http_worker *worker = stream->worker;
    if (worker->sessions->pid != getpid())
        return -ECONNRESET;
    call->what = what;
    send_mail(worker, &call->mail);
    int err = gs_semaphore_wait(&call->answered, deadline_ns);
    if (!err)
        return call->result;
    bool was_cancelable = gs_thread_set_cancelable(false);
    call->withdrawn = err;
    send_mail(worker, &call->withdrawal);
    for (int i = 0; i < 2; i++)
        (void)!gs_semaphore_wait(&call->answered, GS_NEVER);
    gs_thread_set_cancelable(was_cancelable);
    return call->result;
}

ssize_t gs_http_stream_read(struct gs_http_stream *stream, void *bytes, size_t n,
                            uint64_t deadline_ns)
{
    stream->reading.into = bytes;
    stream->reading.n = n;
    return call(stream, GS_HTTP_CALL_READ, deadline_ns);
}

static int write_by(struct gs_http_stream *stream, const struct gs_http_head *head,
                    struct gs_http_text body, bool is_last, uint64_t deadline_ns)
{
    stream->head = head;
    stream->writing.bytes = body.bytes;
    stream->writing.n = body.n;
    stream->is_last = is_last;
    return (int)call(stream, GS_HTTP_CALL_WRITE, deadline_ns);
}

int gs_http_stream_write(struct gs_http_stream *stream, const struct gs_http_head *head,
                         struct gs_http_text body, bool is_last)
{
    return write_by(stream, head, body, is_last, gs_http_write_deadline(stream->connection));
}

int gs_http_stream_continue(struct gs_http_stream *stream)
{
    return (int)call(stream, GS_HTTP_CALL_CONTINUE, gs_http_write_deadline(stream->connection));
}

/* ---- A stream that was taken over ---- */

ssize_t gs_http_stream_send(struct gs_http_stream *stream, const void *bytes, size_t n,
                            uint64_t deadline_ns)
{
    int err = n ? write_by(stream, NULL, (struct gs_http_text){bytes, n}, false, deadline_ns) : 0;
    if (err == -EPIPE) /* the call cannot tell why the stream is closed */
        err = -ECONNRESET;
    return err ? err : (ssize_t)n;
}

bool gs_http_stream_has_room(struct gs_http_stream *stream, size_t n)
{
    stream->writing.n = n;
    return call(stream, GS_HTTP_CALL_ROOM, GS_NEVER) > 0;
}

/* Also when the thread was canceled. */
static void end_upgraded(struct gs_http_stream *stream)
{
    bool was_cancelable = gs_thread_set_cancelable(false);
    (void)!gs_http_stream_write(stream, NULL, (struct gs_http_text){0}, true);
    gs_thread_set_cancelable(was_cancelable);
}

/* ---- The life of a request ---- */

/* Called when the thread ends, also by a handler that calls gs_thread_exit: a response that it has
 * not completed is broken off. */
static void end(void *argument)
{
    struct gs_http_session *session = argument;
    struct gs_http_stream *stream = session->stream;
    gs_http_session_release(session);
    if (stream->worker->sessions->pid != getpid())
        return;
    if (stream->upgraded.stream && session->state == GS_HTTP_RESPONSE_DONE)
        end_upgraded(stream);
    stream->writing.what = GS_HTTP_CALL_END;
    send_mail(stream->worker, &stream->writing.mail);
}

int gs_http_stream_run(void *stream)
{
    struct gs_http_session session;
    gs_http_session_init(&session, ((struct gs_http_stream *)stream)->connection, stream);
    gs_cleanup_push(&session.cleanup, end, &session);
    (void)gs_http_session_serve(&session);
    gs_cleanup_pop(true);
    return 0;
}
