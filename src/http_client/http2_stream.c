/* A request and its response on a connection of HTTP/2. */
#include "http_client/error.h"
#include "http_client/http2.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct gs_http_client_http2_stream *stream_of(struct gs_http_client_stream *stream)
{
    return gs_container_of(stream, struct gs_http_client_http2_stream, stream);
}

static struct gs_http_client_http2_stream *of_request(struct gs_http2_client_stream *request)
{
    return gs_container_of(request, struct gs_http_client_http2_stream, request);
}

/* ---- What the engine reports, by any thread, with the lock, on the worker's stack ---- */

/* The engine has checked that it is a number. */
static uint64_t parse_length(struct gs_http_text value)
{
    uint64_t length = 0;
    for (size_t i = 0; i < value.n; i++)
        length = 10 * length + (uint64_t)(value.bytes[i] - '0');
    return length;
}

static int on_field(struct gs_http2_client *engine, struct gs_http2_client_stream *request,
                    struct gs_http_text name, struct gs_http_text value)
{
    struct gs_http_client_http2_stream *stream = of_request(request);
    (void)engine;
    if (request->has_head)
        return 0;
    if (gs_http_text_is(name, "content-length"))
        stream->content_length = parse_length(value);
    bool has_room = gs_http_client_http2_append(&stream->fields, name.bytes, name.n) &&
                    gs_http_client_http2_append(&stream->fields, "", 1) &&
                    gs_http_client_http2_append(&stream->fields, value.bytes, value.n) &&
                    gs_http_client_http2_append(&stream->fields, "", 1);
    stream->field_count += has_room;
    return has_room ? 0 : -ENOMEM;
}

static void on_head(struct gs_http2_client *engine, struct gs_http2_client_stream *request)
{
    struct gs_http_client_http2_stream *stream = of_request(request);
    (void)engine;
    stream->has_head = true;
    gs_http_client_http2_wake(stream);
}

static int on_body(struct gs_http2_client *engine, struct gs_http2_client_stream *request,
                   const void *bytes, size_t n)
{
    struct gs_http_client_http2_stream *stream = of_request(request);
    (void)engine;
    if (!gs_http_client_http2_append(&stream->arriving, bytes, n))
        return -ENOMEM;
    gs_http_client_http2_wake(stream);
    return 0;
}

static ssize_t on_body_wanted(struct gs_http2_client *engine,
                              struct gs_http2_client_stream *request, void *bytes, size_t n,
                              bool *ret_is_end)
{
    struct gs_http_client_http2_stream *stream = of_request(request);
    (void)engine;
    if (!stream->part_n && !stream->is_last)
        return -EAGAIN;
    n = n < stream->part_n ? n : stream->part_n;
    if (n)
        memcpy(bytes, stream->part, n);
    stream->part += n;
    stream->part_n -= n;
    stream->has_sent = *ret_is_end = stream->is_last && !stream->part_n;
    if (!stream->part_n)
        gs_http_client_http2_wake(stream);
    return (ssize_t)n;
}

static void on_end(struct gs_http2_client *engine, struct gs_http2_client_stream *request, int err)
{
    struct gs_http_client_http2_stream *stream = of_request(request);
    (void)engine;
    stream->has_ended = true;
    stream->err = err;
    stream->http2->has_served |= !err;
    gs_http_client_http2_wake(stream);
}

const struct gs_http2_client_user gs_http_client_http2_user = {
    .on_field = on_field,
    .on_head = on_head,
    .on_body = on_body,
    .on_body_wanted = on_body_wanted,
    .on_end = on_end,
};

/* ---- The end, as the thread sees it ---- */

/* Leave a text on why the stream has ended. Returns its error. */
static int fail(struct gs_http_client_http2_stream *stream)
{
    const char *host = stream->http2->connection->host->key;
    stream->stream.is_unprocessed = stream->request.is_unprocessed;
    stream->stream.has_started = stream->request.has_begun;
    switch (stream->err) {
    case -EPROTO:
        return gs_http_client_fail(-EPROTO, "the response of %s violates HTTP/2", host);
    case -EMSGSIZE:
        return gs_http_client_fail(
            -EMSGSIZE, "the response of %s has too many fields, or too large ones", host);
    case -ECONNRESET:
        return gs_http_client_fail(-ECONNRESET, "the response of %s is %s: the server has %s", host,
                                   stream->has_head ? "incomplete" : "missing",
                                   stream->http2->err ? "closed the connection"
                                                      : "reset the stream");
    default:
        return stream->err;
    }
}

/* ---- Sending ---- */

#define FRAMING_MAX 48u

static bool has_usually_body(const char *method)
{
    return !strcmp(method, "POST") || !strcmp(method, "PUT") || !strcmp(method, "PATCH");
}

static char *put_length(char *at, const struct gs_http_client_head *head)
{
    uint64_t length = head->has_parts ? head->parts_length : head->body_n;
    if (length == GS_HTTP_UNKNOWN ||
        (!head->has_parts && !head->body && !has_usually_body(head->method)))
        return at;
    return at + sprintf(at, "content-length: %llu\r\n", (unsigned long long)length);
}

/* Returns the fields as lines, which the caller frees; NULL: there is no memory. */
static char *write_lines(const struct gs_http_client_head *head, size_t *ret_n)
{
    size_t room = FRAMING_MAX;
    for (unsigned i = 0; i < head->field_count; i++)
        room += strlen(head->fields[i].name) + strlen(head->fields[i].value) + 4;
    char *lines = malloc(room), *at = lines;
    if (!lines)
        return NULL;
    for (unsigned i = 0; i < head->field_count; i++) {
        at = stpcpy(stpcpy(at, head->fields[i].name), ": ");
        at = stpcpy(stpcpy(at, head->fields[i].value), "\r\n");
    }
    *ret_n = (size_t)(put_length(at, head) - lines);
    return lines;
}

static struct gs_http_text text_of(const char *string)
{
    return (struct gs_http_text){string, strlen(string)};
}

struct step {
    struct gs_http_client_http2_stream *stream;
    struct gs_http2_client_request request;
    int err;
};

static void *submit(void *argument)
{
    struct step *step = argument;
    step->err = gs_http2_client_request(&step->stream->http2->engine, &step->stream->request,
                                        &step->request);
    return NULL;
}

/* With the lock. A connection that takes no more requests has lost one that it was given before. */
static int start(struct gs_http_client_http2_stream *stream, struct step *step)
{
    struct gs_http_client_http2 *http2 = stream->http2;
    stream->stream.is_reused = http2->has_served;
    if (!http2->err && gs_http2_client_room(&http2->engine))
        gs_thread_call_on_worker_stack(submit, step);
    else
        step->err = -ESHUTDOWN;
    stream->has_ended = step->err;
    stream->err = step->err == -ESHUTDOWN ? -ECONNRESET : step->err;
    stream->request.is_unprocessed = step->err;
    if (step->err)
        return fail(stream);
    stream->sent_ns = gs_clock_now();
    gs_http_client_http2_flush(http2);
    return 0;
}

static bool is_part_done(const struct gs_http_client_http2_stream *stream)
{
    return stream->has_ended || (!stream->part_n && (!stream->is_last || stream->has_sent));
}

/* With the lock: wait until the part is sent. A response that is complete before its request ends
 * that. */
static int send_part(struct gs_http_client_http2_stream *stream, uint64_t deadline_ns)
{
    int err = gs_http_client_http2_wait(stream, is_part_done, deadline_ns);
    if (!err && stream->has_ended && !stream->has_sent)
        err = stream->err ? fail(stream) : -EPIPE;
    return err;
}

static int send_head(struct gs_http_client_stream *base, const struct gs_http_client_head *head,
                     uint64_t deadline_ns)
{
    struct gs_http_client_http2_stream *stream = stream_of(base);
    size_t n;
    char *lines = write_lines(head, &n);
    if (!lines)
        return -ENOMEM;
    struct step step = {.stream = stream,
                        .request = {.method = text_of(head->method),
                                    .scheme = text_of(head->scheme),
                                    .authority = text_of(head->authority),
                                    .path = text_of(head->target),
                                    .fields = {lines, n},
                                    .has_body = head->has_parts || head->body_n}};
    stream->is_head = !strcmp(head->method, "HEAD");
    stream->part = head->body;
    stream->part_n = head->body_n;
    stream->is_last = !head->has_parts;
    stream->has_sent = !step.request.has_body;
    gs_mutex_lock(&stream->http2->lock, GS_NEVER);
    int err = start(stream, &step);
    if (!err && head->body_n)
        err = send_part(stream, deadline_ns);
    gs_mutex_unlock(&stream->http2->lock);
    free(lines);
    return err;
}

static void *resume(void *argument)
{
    struct step *step = argument;
    step->err = gs_http2_client_resume(&step->stream->http2->engine, &step->stream->request);
    return NULL;
}

static int send_body(struct gs_http_client_stream *base, const void *bytes, size_t n,
                     uint64_t deadline_ns)
{
    struct gs_http_client_http2_stream *stream = stream_of(base);
    struct step step = {.stream = stream};
    gs_mutex_lock(&stream->http2->lock, GS_NEVER);
    stream->part = bytes;
    stream->part_n = n;
    stream->is_last = !n;
    if (!stream->has_ended) {
        gs_thread_call_on_worker_stack(resume, &step);
        gs_http_client_http2_flush(stream->http2);
    }
    int err = step.err ? step.err : send_part(stream, deadline_ns);
    stream->part_n = 0; /* the caller's memory is not used any more */
    gs_mutex_unlock(&stream->http2->lock);
    return err;
}

/* ---- The head of the response ---- */

static bool has_head_or_end(const struct gs_http_client_http2_stream *stream)
{
    return stream->has_head || stream->has_ended;
}

/* The strings follow the fields in the same memory. */
static int write_answer(struct gs_http_client_http2_stream *stream,
                        struct gs_http_client_answer *ret_answer)
{
    size_t n = stream->fields.end - stream->fields.start;
    struct gs_http_field *fields = malloc(stream->field_count * sizeof *fields + n + 1);
    if (!fields)
        return -ENOMEM;
    char *at = (char *)(fields + stream->field_count);
    if (n)
        memcpy(at, stream->fields.bytes + stream->fields.start, n);
    for (unsigned i = 0; i < stream->field_count; i++) {
        fields[i].name = at;
        fields[i].value = at += strlen(at) + 1;
        at += strlen(at) + 1;
    }
    bool is_complete = stream->has_ended && !stream->err && !stream->arriving.bytes;
    bool says_nothing = stream->is_head || stream->request.status == 304;
    *ret_answer = (struct gs_http_client_answer){
        .status = stream->request.status,
        .memory = fields,
        .fields = fields,
        .field_count = stream->field_count,
        .content_length = is_complete && !says_nothing ? 0 : stream->content_length,
        .has_body = !is_complete};
    return 0;
}

static int receive_head(struct gs_http_client_stream *base, uint64_t deadline_ns,
                        struct gs_http_client_answer *ret_answer)
{
    struct gs_http_client_http2_stream *stream = stream_of(base);
    gs_mutex_lock(&stream->http2->lock, GS_NEVER);
    int err = gs_http_client_http2_wait(stream, has_head_or_end, deadline_ns);
    if (!err)
        err = stream->has_head ? write_answer(stream, ret_answer) : fail(stream);
    base->has_started = stream->request.has_begun;
    gs_mutex_unlock(&stream->http2->lock);
    return err;
}

/* ---- The body of the response ---- */

static bool has_bytes_or_end(const struct gs_http_client_http2_stream *stream)
{
    return stream->arriving.bytes || stream->has_ended;
}

static void *consume_arrived(void *argument)
{
    struct step *step = argument;
    struct gs_http_client_http2_stream *stream = step->stream;
    step->err = gs_http2_client_consume(&stream->http2->engine, &stream->request,
                                        stream->reading.end - stream->reading.start);
    return NULL;
}

/* With the lock: the window opens when the thread has taken the bytes, so at most two windows are
 * in memory. */
static int take_arrived(struct gs_http_client_http2_stream *stream)
{
    struct step step = {.stream = stream};
    stream->reading = stream->arriving;
    stream->arriving = (struct gs_http_client_http2_buffer){0};
    if (!stream->has_ended) {
        gs_thread_call_on_worker_stack(consume_arrived, &step);
        gs_http_client_http2_flush(stream->http2);
    }
    return step.err;
}

static ssize_t peek(struct gs_http_client_stream *base, uint64_t deadline_ns,
                    const char **ret_bytes)
{
    struct gs_http_client_http2_stream *stream = stream_of(base);
    int err = 0;
    if (!stream->reading.bytes) {
        gs_mutex_lock(&stream->http2->lock, GS_NEVER);
        err = gs_http_client_http2_wait(stream, has_bytes_or_end, deadline_ns);
        if (!err && stream->arriving.bytes)
            err = take_arrived(stream);
        else if (!err && stream->err)
            err = fail(stream);
        gs_mutex_unlock(&stream->http2->lock);
    }
    *ret_bytes = stream->reading.bytes + stream->reading.start;
    return err ? err : (ssize_t)(stream->reading.end - stream->reading.start);
}

static void consume(struct gs_http_client_stream *base, size_t n)
{
    struct gs_http_client_http2_buffer *reading = &stream_of(base)->reading;
    reading->start += n;
    if (reading->start < reading->end)
        return;
    free(reading->bytes);
    *reading = (struct gs_http_client_http2_buffer){0};
}

/* ---- The start and the end ---- */

static void *cancel(void *argument)
{
    struct step *step = argument;
    struct gs_http_client_http2 *http2 = step->stream->http2;
    if (http2->received_ns < step->stream->sent_ns)
        gs_http_client_http2_suspect(http2);
    step->err = gs_http2_client_cancel(&step->stream->http2->engine, &step->stream->request);
    return NULL;
}

/* With the lock. If nothing at all has arrived since the request, the connection may be dead, and no
 * further request should find that out by its deadline. */
static void reset(struct gs_http_client_http2_stream *stream)
{
    struct gs_http_client_http2 *http2 = stream->http2;
    struct step step = {.stream = stream};
    gs_thread_call_on_worker_stack(cancel, &step);
    if (step.err)
        gs_http_client_http2_fail(http2, step.err);
    gs_http_client_http2_flush(http2);
}

static void release(struct gs_http_client_stream *base)
{
    struct gs_http_client_http2_stream *stream = stream_of(base);
    struct gs_http_client_http2 *http2 = stream->http2;
    gs_mutex_lock(&http2->lock, GS_NEVER);
    if (gs_list_is_linked(&stream->request.link))
        reset(stream);
    gs_mutex_unlock(&http2->lock);
    free(stream->fields.bytes);
    free(stream->arriving.bytes);
    free(stream->reading.bytes);
    free(stream);
    gs_http_client_pool_leave(http2->connection);
}

static const struct gs_http_client_stream_operations stream_operations = {
    .send_head = send_head,
    .send_body = send_body,
    .receive_head = receive_head,
    .peek = peek,
    .consume = consume,
    .release = release,
};

int gs_http_client_http2_open(struct gs_http_client_connection *connection,
                              struct gs_http_client_stream **ret_stream)
{
    struct gs_http_client_http2_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return -ENOMEM;
    stream->stream.operations = &stream_operations;
    stream->http2 = connection->http2;
    stream->content_length = GS_HTTP_UNKNOWN;
    *ret_stream = &stream->stream;
    return 0;
}
