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
    struct gs_http_worker *worker = stream->worker;
    if (worker->sessions->pid != getpid())
        return -ECONNRESET;
    stream->call = what;
    send_mail(worker, &stream->mail);
    int err = gs_semaphore_wait(&stream->answered, deadline_ns);
    if (!err)
        return stream->result;
    bool was_cancelable = gs_thread_set_cancelable(false);
    stream->withdrawn = err;
    send_mail(worker, &stream->withdrawal);
    for (int i = 0; i < 2; i++)
        (void)!gs_semaphore_wait(&stream->answered, GS_NEVER);
    gs_thread_set_cancelable(was_cancelable);
    return stream->result;
}

ssize_t gs_http_stream_read(struct gs_http_stream *stream, void *bytes, size_t n,
                            uint64_t deadline_ns)
{
    stream->into = bytes;
    stream->n = n;
    return call(stream, GS_HTTP_CALL_READ, deadline_ns);
}

int gs_http_stream_write(struct gs_http_stream *stream, const struct gs_http_head *head,
                         struct gs_http_text body, bool is_last)
{
    stream->head = head;
    stream->bytes = body.bytes;
    stream->n = body.n;
    stream->is_last = is_last;
    return (int)call(stream, GS_HTTP_CALL_WRITE, gs_http_write_deadline(stream->connection));
}

int gs_http_stream_continue(struct gs_http_stream *stream)
{
    return (int)call(stream, GS_HTTP_CALL_CONTINUE, gs_http_write_deadline(stream->connection));
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
    stream->call = GS_HTTP_CALL_END;
    send_mail(stream->worker, &stream->mail);
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
