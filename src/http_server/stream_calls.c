/* The home's side of the requests of HTTP/2: from libnghttp2 to their threads, and back. */
#include "http/token.h"
#include "http_server/streams_state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>

static struct gs_http_streams *streams_of(struct gs_http2_session *session)
{
    return gs_container_of(session, struct gs_http_streams, session);
}

static void answer_call(struct gs_http_stream_call *call, ssize_t result)
{
    call->pending = GS_HTTP_CALL_NONE;
    call->result = result;
    gs_semaphore_post(&call->answered);
}

static void answer_write(struct gs_http_stream *request, ssize_t result)
{
    if (gs_list_is_linked(&request->head_link))
        gs_list_remove(&request->head_link);
    answer_call(&request->writing, result);
}

static void drop_body(struct gs_http_stream *request)
{
    free(request->body);
    request->body = NULL;
    request->body_start = request->body_end = request->body_size = 0;
}

/* ---- Streams that end before their thread ---- */

/* Its stream is closed, but its thread may go on for some time. What it has not read is lost,
 * unless all of it is there and the response is complete. */
static void leave(struct gs_http_stream *request)
{
    request->http2 = NULL;
    if (!request->body_is_complete || !request->is_sent) {
        drop_body(request);
        request->body_is_complete &= !request->has_body;
    }
    if (request->reading.pending != GS_HTTP_CALL_NONE)
        answer_call(&request->reading, -ECONNRESET);
    if (request->writing.pending != GS_HTTP_CALL_NONE)
        answer_write(request, -EPIPE);
}

static void leave_stream(struct gs_http_stream *request)
{
    if (request->http2)
        request->http2->data = NULL;
    leave(request);
}

void gs_http_streams_leave(struct gs_http_streams *streams)
{
    GS_LIST_FOREACH (link, &streams->requests)
        leave_stream(gs_container_of(link, struct gs_http_stream, link));
}

/* The descriptor is kept until the last thread has ended, which may take any time. */
void gs_http_streams_fail(struct gs_http_streams *streams)
{
    if (!streams->has_failed && streams->count)
        (void)gs_sys_shutdown(streams->connection->fd, SHUT_RDWR);
    streams->has_failed = true;
    gs_http_streams_leave(streams);
}

static void reset(struct gs_http_streams *streams, int32_t id, uint32_t error)
{
    if (nghttp2_submit_rst_stream(streams->session.nghttp2, NGHTTP2_FLAG_NONE, id, error))
        gs_http_streams_fail(streams);
}

/* There was no memory for what the stream needs. */
static void give_up(struct gs_http_streams *streams, struct gs_http_stream *request)
{
    int32_t id = request->http2->id;
    leave_stream(request);
    reset(streams, id, NGHTTP2_INTERNAL_ERROR);
}

/* ---- Reading ---- */

static size_t take_body(struct gs_http_stream *request)
{
    size_t n = request->body_end - request->body_start;
    if (n > request->reading.n)
        n = request->reading.n;
    memcpy(request->reading.into, request->body + request->body_start, n);
    request->body_start += n;
    if (request->body_start == request->body_end)
        drop_body(request);
    return n;
}

/* The window of the stream opens by what the handler reads. */
static void read_body(struct gs_http_streams *streams, struct gs_http_stream *request)
{
    if (request->body) {
        size_t n = take_body(request);
        if (request->http2 &&
            nghttp2_session_consume_stream(streams->session.nghttp2, request->http2->id, n))
            give_up(streams, request);
        else
            answer_call(&request->reading, (ssize_t)n);
    } else if (request->body_is_complete) {
        answer_call(&request->reading, 0);
    } else if (!request->http2 || streams->has_ended) {
        answer_call(&request->reading, -ECONNRESET);
    }
}

void gs_http_streams_end_input(struct gs_http_streams *streams)
{
    streams->has_ended = true;
    GS_LIST_FOREACH (link, &streams->requests) {
        struct gs_http_stream *request = gs_container_of(link, struct gs_http_stream, link);
        if (request->reading.pending == GS_HTTP_CALL_READ)
            read_body(streams, request);
    }
}

/* Returns whether there was memory. */
static bool append(struct gs_http_stream *request, const uint8_t *bytes, size_t n)
{
    size_t have = request->body_end - request->body_start;
    if (request->body_start && request->body_size - request->body_end < n) {
        memmove(request->body, request->body + request->body_start, have);
        request->body_start = 0;
        request->body_end = have;
    }
    if (request->body_size - request->body_end < n) {
        size_t size = request->body_size ? request->body_size : 1024;
        while (size - have < n)
            size *= 2;
        char *body = realloc(request->body, size);
        if (!body)
            return false;
        request->body = body;
        request->body_size = size;
    }
    memcpy(request->body + request->body_end, bytes, n);
    request->body_end += n;
    return true;
}

/* ---- Writing ---- */

static void note_sent(struct gs_http_streams *streams, struct gs_http_stream *request)
{
    request->is_sent = true;
    streams->sent++;
}

/* libnghttp2 calls it for the next bytes of a response. */
static ssize_t read_data(nghttp2_session *nghttp2, int32_t id, uint8_t *buffer, size_t n,
                         uint32_t *flags, nghttp2_data_source *source, void *data)
{
    (void)nghttp2, (void)id;
    struct gs_http2_session *session = data;
    const struct gs_http2_stream *stream = source->ptr;
    struct gs_http_stream *request = stream->data;
    if (!request)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    struct gs_http_stream_call *call = &request->writing;
    if (call->pending != GS_HTTP_CALL_WRITE)
        return NGHTTP2_ERR_DEFERRED;
    if (n > call->n)
        n = call->n;
    if (n) {
        memcpy(buffer, call->bytes, n);
        call->bytes += n;
        call->n -= n;
    }
    gs_http2_note_work(session, n);
    if (call->n)
        return (ssize_t)n;
    if (request->is_last) {
        note_sent(streams_of(session), request);
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    answer_call(call, 0);
    return n || request->is_sent ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

static nghttp2_nv field(const char *name, size_t name_n, const char *value, size_t value_n)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, name_n, value_n, NGHTTP2_NV_FLAG_NONE};
}

static size_t count_lines(const struct gs_http_head *head)
{
    size_t count = 0;
    for (size_t i = 0; i < head->fields_n; i++)
        count += head->fields[i] == '\n';
    return count;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The space around a value is no part of it; HTTP/2 forbids it (RFC 9113, 8.2.1). */
static nghttp2_nv trimmed_field(const char *line, const char *colon, const char *line_end)
{
    const char *value = colon + 1, *end = line_end;
    while (value < end && is_blank(*value))
        value++;
    while (value < end && is_blank(end[-1]))
        end--;
    return field(line, (size_t)(colon - line), value, (size_t)(end - value));
}

/* Returns the number of the fields. */
static size_t split_lines(const struct gs_http_head *head, nghttp2_nv *ret_fields)
{
    size_t count = 0;
    const char *at = head->fields, *end = head->fields_n ? at + head->fields_n : at;
    while (at < end) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        const char *line_end = memchr(colon, '\r', (size_t)(end - colon));
        ret_fields[count++] = trimmed_field(at, colon, line_end);
        at = line_end + 2;
    }
    return count;
}

/* Returns 0 or -errno. */
static int submit_head(struct gs_http_streams *streams, struct gs_http_stream *request)
{
    const struct gs_http_head *head = request->head;
    char status[20], length[20];
    nghttp2_nv *fields = malloc((count_lines(head) + 3) * sizeof *fields);
    if (!fields)
        return -ENOMEM;
    size_t count = 0;
    fields[count++] = field(":status", 7, status, gs_http_put_decimal(status, head->status));
    fields[count++] = field("date", 4, gs_http_date_now(streams->connection), GS_HTTP_DATE_LENGTH);
    count += split_lines(head, fields + count);
    if (head->has_length)
        fields[count++] =
            field("content-length", 14, length, gs_http_put_decimal(length, head->length));
    bool has_data = head->has_body && !(request->is_last && !request->writing.n);
    nghttp2_data_provider provider = {{.ptr = request->http2}, read_data};
    int err = nghttp2_submit_response(streams->session.nghttp2, request->http2->id, fields, count,
                                      has_data ? &provider : NULL);
    free(fields);
    if (!err && !has_data)
        note_sent(streams, request);
    gs_http2_note_work(&streams->session, 0);
    return err ? -ENOMEM : 0;
}

bool gs_http_streams_submit_head(struct gs_http_streams *streams)
{
    if (gs_list_is_empty(&streams->heads))
        return false;
    struct gs_http_stream *request =
        gs_container_of(gs_list_first(&streams->heads), struct gs_http_stream, head_link);
    gs_list_remove(&request->head_link);
    int err = submit_head(streams, request);
    if (err || request->is_sent || !request->writing.n)
        answer_write(request, err);
    return true;
}

void gs_http_streams_end_output(struct gs_http_streams *streams)
{
    GS_LIST_FOREACH (link, &streams->requests) {
        struct gs_http_stream *request = gs_container_of(link, struct gs_http_stream, link);
        if (request->writing.pending == GS_HTTP_CALL_WRITE)
            answer_write(request, -EPIPE);
    }
}

static void write_response(struct gs_http_streams *streams, struct gs_http_stream *request)
{
    int err = 0;
    if (!request->http2)
        err = -EPIPE;
    else if (request->head)
        gs_list_append(&streams->heads, &request->head_link);
    else if (nghttp2_session_resume_data(streams->session.nghttp2, request->http2->id) ==
             NGHTTP2_ERR_NOMEM) /* another error: it is active still */
        err = -ENOMEM;
    if (err)
        answer_write(request, err);
}

static bool has_room(struct gs_http_streams *streams, const struct gs_http_stream *request)
{
    nghttp2_session *nghttp2 = streams->session.nghttp2;
    if (!request->http2)
        return true;
    int32_t window = nghttp2_session_get_remote_window_size(nghttp2);
    int32_t own = nghttp2_session_get_stream_remote_window_size(nghttp2, request->http2->id);
    int32_t least = own < window ? own : window;
    return least >= 0 && (size_t)least >= request->writing.n;
}

static void send_continue(struct gs_http_streams *streams, struct gs_http_stream *request)
{
    nghttp2_nv status = field(":status", 7, "100", 3);
    int err = request->http2 ? nghttp2_submit_headers(streams->session.nghttp2, NGHTTP2_FLAG_NONE,
                                                      request->http2->id, NULL, &status, 1, NULL)
                             : 0;
    answer_write(request, !request->http2 ? -EPIPE : err ? -ENOMEM : 0);
}

/* ---- The start and the end ---- */

static void start(struct gs_http_streams *streams, struct gs_http_stream *request)
{
    gs_list_append(&streams->requests, &request->link);
    streams->count++;
    streams->connection->is_first = false;
}

static void free_request(struct gs_http_streams *streams, struct gs_http_stream *request)
{
    gs_list_remove(&request->link);
    streams->count--;
    streams->sent -= request->is_sent;
    drop_body(request);
    free(request);
}

/* A body that nobody reads any more is not to be sent (RFC 9113, 8.1). A stream that was taken over
 * is reset as a connection is (RFC 8441, 5). */
static void end_request(struct gs_http_streams *streams, struct gs_http_stream *request)
{
    nghttp2_session *nghttp2 = streams->session.nghttp2;
    struct gs_http2_stream *stream = request->http2;
    request->writing.pending = GS_HTTP_CALL_NONE;
    request->http2 = NULL;
    if (stream) {
        stream->data = NULL;
        stream->is_read = false;
        if (!request->is_sent)
            reset(streams, stream->id,
                  request->upgraded.stream ? NGHTTP2_CANCEL : NGHTTP2_INTERNAL_ERROR);
        else if (!request->body_is_complete &&
                 nghttp2_session_get_stream_local_close(nghttp2, stream->id) == 1)
            reset(streams, stream->id, NGHTTP2_NO_ERROR);
    }
    free_request(streams, request);
}

static struct gs_http_stream *new_request(struct gs_http_streams *streams,
                                          struct gs_http2_stream *stream, bool is_end)
{
    struct gs_http_stream *request = malloc(sizeof *request + stream->head_n);
    if (!request)
        return NULL;
    *request = (struct gs_http_stream){
        .connection = streams->connection,
        .worker = streams->connection->worker,
        .http2 = stream,
        .has_body = !is_end,
        .body_is_complete = is_end,
        .is_connect = stream->is_connect,
        .status = stream->status,
        .request_n = stream->head_n,
    };
    request->reading.mail.stream = request->reading.withdrawal.stream = request;
    request->writing.mail.stream = request->writing.withdrawal.stream = request;
    if (stream->head_n) /* the first field may be too large */
        memcpy(request->request, stream->head, stream->head_n);
    return request;
}

/* Whether a further request may have a thread. A client that keeps to the limit must not be refused
 * because handlers go on after their responses, but these have a limit, too. */
static bool may_start(const struct gs_http_streams *streams)
{
    unsigned max = streams->connection->sessions->options.max_streams;
    return streams->count - streams->sent < max && streams->count / 2 < max;
}

/* Returns whether it has a thread. After the second GOAWAY the client counts on it that streams
 * which it has opened since were not served. */
static bool spawn(struct gs_http_streams *streams, struct gs_http2_stream *stream, bool is_end)
{
    struct gs_http_connection *connection = streams->connection;
    if (streams->has_failed || streams->session.is_last || !may_start(streams))
        return false;
    struct gs_http_stream *request = new_request(streams, stream, is_end);
    if (!request)
        return false;
    start(streams, request);
    if (gs_scope_spawn(&connection->worker->threads, gs_http_stream_run, request, 0)) {
        free_request(streams, request);
        return false;
    }
    stream->data = request;
    stream->is_read = true;
    return true;
}

/* ---- What libnghttp2 reports ---- */

static void on_head(struct gs_http2_session *session, struct gs_http2_stream *stream, bool is_end)
{
    gs_http2_set_state(session, stream, GS_HTTP2_ANSWERING);
    if (!spawn(streams_of(session), stream, is_end))
        reset(streams_of(session), stream->id, NGHTTP2_REFUSED_STREAM);
    gs_http2_free_head(session, stream);
}

static void on_body(struct gs_http2_session *session, struct gs_http2_stream *stream,
                    const uint8_t *bytes, size_t n)
{
    struct gs_http_stream *request = stream ? stream->data : NULL;
    (void)nghttp2_session_consume_connection(session->nghttp2, n);
    if (!request)
        return;
    gs_http2_note_use(session, n);
    if (!append(request, bytes, n))
        give_up(streams_of(session), request);
    else if (request->reading.pending == GS_HTTP_CALL_READ)
        read_body(streams_of(session), request);
}

static void on_end(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    struct gs_http_stream *request = stream->data;
    if (!request)
        return;
    request->body_is_complete = true;
    if (request->reading.pending == GS_HTTP_CALL_READ)
        read_body(streams_of(session), request);
}

static void on_close(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    gs_http2_set_state(session, stream, GS_HTTP2_HEAD);
    if (stream->data)
        leave(stream->data);
    stream->data = NULL;
}

const struct gs_http2_user gs_http_streams_user = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_close = on_close,
};

/* ---- Mail ---- */

static void make_call(struct gs_http_streams *streams, struct gs_http_stream *request,
                      struct gs_http_stream_call *call)
{
    call->pending = call->what;
    switch (call->pending) {
    case GS_HTTP_CALL_READ:
        read_body(streams, request);
        break;
    case GS_HTTP_CALL_WRITE:
        write_response(streams, request);
        break;
    case GS_HTTP_CALL_CONTINUE:
        send_continue(streams, request);
        break;
    case GS_HTTP_CALL_ROOM:
        answer_write(request, has_room(streams, request));
        break;
    case GS_HTTP_CALL_END:
        end_request(streams, request);
        break;
    case GS_HTTP_CALL_NONE:
        break;
    }
}

static void withdraw_call(struct gs_http_stream *request, struct gs_http_stream_call *call)
{
    if (call->pending != GS_HTTP_CALL_NONE && call == &request->writing)
        answer_write(request, call->withdrawn);
    else if (call->pending != GS_HTTP_CALL_NONE)
        answer_call(call, call->withdrawn);
    gs_semaphore_post(&call->answered);
}

static struct gs_http_stream_call *call_of(struct gs_http_mail *mail)
{
    struct gs_http_stream_call *reading = &mail->stream->reading;
    bool is_reading = mail == &reading->mail || mail == &reading->withdrawal;
    return is_reading ? reading : &mail->stream->writing;
}

static void deliver(struct gs_http_mail *mail)
{
    struct gs_http_stream *request = mail->stream;
    struct gs_http_connection *connection = request->connection;
    struct gs_http_stream_call *call = call_of(mail);
    connection->http2->session.now_ns = gs_clock_now();
    if (mail == &call->withdrawal)
        withdraw_call(request, call);
    else
        make_call(connection->http2, request, call);
    gs_resumable_wake(&connection->resumable);
}

/* Returns all of it, the oldest first. Acquire: pairs with the release in send_mail. */
static struct gs_http_mail *take_mail(struct gs_http_worker *worker)
{
    struct gs_http_mail *mail = atomic_exchange_explicit(&worker->mail, NULL, memory_order_acquire);
    struct gs_http_mail *oldest = NULL;
    while (mail) {
        struct gs_http_mail *next = mail->next;
        mail->next = oldest;
        oldest = mail;
        mail = next;
    }
    return oldest;
}

void gs_http_streams_deliver(struct gs_http_worker *worker)
{
    struct gs_http_mail *mail = take_mail(worker);
    while (mail) {
        struct gs_http_mail *next = mail->next; /* the last one of a request ends it */
        deliver(mail);
        mail = next;
    }
}
