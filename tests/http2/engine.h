/* A client's connection (http2/client.h) whose server is the connection of a driver, or a test that
 * writes frames itself.
 *
 *     engine_start(&engine);
 *     unsigned at = engine_get(&engine, "GET", "/f");
 *     engine_exchange(&engine);
 *     engine.calls[at].stream.status                            200 */
#ifndef GS_TESTS_HTTP2_ENGINE_H
#define GS_TESTS_HTTP2_ENGINE_H

#include "http2/client.h"
#include "http2/http2.h"
#include "tests/http/drive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ENGINE_CALLS 300

struct engine_call {
    struct gs_http2_client_stream stream;
    size_t body_left;                    /* of the request's body */
    size_t body_step;                    /* at most so much is given at a time; 0: any */
    bool is_held;                        /* nothing of the request's body is there */
    bool is_slow;                        /* nothing of the response is consumed */
    int field_err, body_err, wanted_err; /* for the functions to return; 0: none */
    unsigned heads, ends;
    int err;          /* of the end */
    size_t body_n;    /* of the response */
    char fields[600]; /* "name: value\n", those of trailers after "--\n" */
    char body[64];    /* its beginning */
};

struct engine {
    struct drive drive;
    struct gs_http2_client client;
    size_t chunk; /* bytes that the client receives at a time; 0: all */
    size_t taken; /* of the driver's output */
    unsigned count;
    int err; /* of the client */
    struct engine_call calls[ENGINE_CALLS];
};

static inline struct engine_call *engine_call_of(struct gs_http2_client_stream *stream)
{
    return gs_container_of(stream, struct engine_call, stream);
}

static int engine_on_field(struct gs_http2_client *client, struct gs_http2_client_stream *stream,
                           struct gs_http_text name, struct gs_http_text value)
{
    struct engine_call *call = engine_call_of(stream);
    size_t at = strlen(call->fields);
    (void)client;
    if (call->ends)
        abort();
    snprintf(call->fields + at, sizeof call->fields - at, "%.*s: %.*s\n", (int)name.n, name.bytes,
             (int)value.n, value.bytes);
    return call->field_err;
}

static void engine_on_head(struct gs_http2_client *client, struct gs_http2_client_stream *stream)
{
    struct engine_call *call = engine_call_of(stream);
    size_t at = strlen(call->fields);
    (void)client;
    if (call->ends || call->heads++ || stream->status < 200)
        abort();
    snprintf(call->fields + at, sizeof call->fields - at, "--\n");
}

static int engine_on_body(struct gs_http2_client *client, struct gs_http2_client_stream *stream,
                          const void *bytes, size_t n)
{
    struct engine_call *call = engine_call_of(stream);
    if (call->ends || !call->heads)
        abort();
    if (call->body_n < sizeof call->body - 1) {
        size_t left = sizeof call->body - 1 - call->body_n;
        memcpy(call->body + call->body_n, bytes, n < left ? n : left);
    }
    call->body_n += n;
    if (call->body_err)
        return call->body_err;
    return call->is_slow ? 0 : gs_http2_client_consume(client, stream, n);
}

static ssize_t engine_on_body_wanted(struct gs_http2_client *client,
                                     struct gs_http2_client_stream *stream, void *bytes, size_t n,
                                     bool *ret_is_end)
{
    struct engine_call *call = engine_call_of(stream);
    (void)client;
    if (call->ends)
        abort();
    if (call->wanted_err)
        return call->wanted_err;
    if (call->is_held)
        return -EAGAIN;
    if (call->body_step && n > call->body_step)
        n = call->body_step;
    if (n > call->body_left)
        n = call->body_left;
    memset(bytes, 'x', n);
    call->body_left -= n;
    *ret_is_end = !call->body_left;
    return (ssize_t)n;
}

static void engine_on_end(struct gs_http2_client *client, struct gs_http2_client_stream *stream,
                          int err)
{
    struct engine_call *call = engine_call_of(stream);
    (void)client;
    call->ends++;
    call->err = err;
}

static const struct gs_http2_client_user engine_user = {
    .on_field = engine_on_field,
    .on_head = engine_on_head,
    .on_body = engine_on_body,
    .on_body_wanted = engine_on_body_wanted,
    .on_end = engine_on_end,
};

/* Start the client alone; its members that options set are kept. Returns 0 or -ENOMEM. */
static inline int engine_open(struct engine *engine)
{
    engine->count = 0;
    engine->err = 0;
    memset(engine->calls, 0, sizeof engine->calls);
    engine->client = (struct gs_http2_client){.user = &engine_user,
                                              .now_ns = DRIVE_START_NS,
                                              .window = engine->client.window,
                                              .max_header = engine->client.max_header,
                                              .max_fields = engine->client.max_fields};
    return gs_http2_client_init(&engine->client);
}

/* The same with another connection of the driver. Returns 0 or -ENOMEM. */
static inline int engine_reopen(struct engine *engine)
{
    gs_http_service_set_http2(engine->drive.service, gs_http2_operations());
    drive_reopen(&engine->drive);
    drive_discard_output(&engine->drive);
    engine->taken = 0;
    return engine_open(engine);
}

static inline void engine_start(struct engine *engine)
{
    *engine = (struct engine){0};
    drive_start(&engine->drive, NULL);
    if (engine_reopen(engine))
        abort();
}

/* End the client: all calls have ended then. */
static inline void engine_close(struct engine *engine)
{
    gs_http2_client_fail(&engine->client, -ECONNRESET);
    if (engine->client.count)
        abort();
    gs_http2_client_done(&engine->client);
}

/* Returns the number of leaked descriptors. */
static inline int engine_stop(struct engine *engine)
{
    engine_close(engine);
    return drive_stop(&engine->drive);
}

/* The next call, which a test may change before it is made. */
static inline struct engine_call *engine_next(struct engine *engine)
{
    if (engine->count == ENGINE_CALLS)
        abort();
    return &engine->calls[engine->count];
}

/* Make the next call. Returns 0 or -errno; then it has ended with that. */
static inline int engine_request(struct engine *engine, const char *method, const char *path,
                                 const char *fields)
{
    struct engine_call *call = engine_next(engine);
    const struct gs_http2_client_request request = {
        .method = {method, strlen(method)},
        .scheme = GS_HTTP_TEXT("http"),
        .authority = GS_HTTP_TEXT("a"),
        .path = {path, strlen(path)},
        .fields = {fields, strlen(fields)},
        .has_body = call->body_left || call->is_held || call->wanted_err,
    };
    int err = gs_http2_client_request(&engine->client, &call->stream, &request);
    engine->count++;
    if (err) {
        call->ends++;
        call->err = err;
    }
    return err;
}

/* Returns the index of the call. */
static inline unsigned engine_get(struct engine *engine, const char *method, const char *path)
{
    (void)!engine_request(engine, method, path, "");
    return engine->count - 1;
}

/* Let the client receive, cut as the test wants. */
static inline void engine_receive(struct engine *engine, const void *bytes, size_t n)
{
    for (const char *at = bytes, *end = at + n; at < end && !engine->err;) {
        size_t part = engine->chunk && engine->chunk < (size_t)(end - at) ? engine->chunk
                                                                          : (size_t)(end - at);
        char *copy = malloc(part); /* of its own, so that a sanitizer sees what is read beyond */
        if (!copy)
            return;
        memcpy(copy, at, part);
        engine->err = gs_http2_client_receive(&engine->client, copy, part, engine->drive.now_ns);
        free(copy);
        at += part;
    }
}

/* Move the client's output to the driver. Returns whether there was any. */
static inline bool engine_send(struct engine *engine)
{
    static char frames[1 << 16];
    const uint8_t *bytes;
    ssize_t n = 0;
    size_t sum = 0;
    while (!engine->err && sum < sizeof frames / 2 &&
           (n = gs_http2_client_output(&engine->client, &bytes)) > 0) {
        memcpy(frames + sum, bytes, (size_t)n);
        sum += (size_t)n;
    }
    if (n < 0)
        engine->err = (int)n;
    bool is_over =
        gs_http_conn_wants(&engine->drive.conn) & GS_HTTP_CLOSE || engine->drive.is_shut_down;
    if (!sum || is_over)
        return false;
    drive_send_bytes(&engine->drive, frames, sum);
    return true;
}

/* Send and receive until neither has anything to send. */
static inline void engine_exchange(struct engine *engine)
{
    struct drive *drive = &engine->drive;
    do {
        size_t n = drive->output_n - engine->taken;
        engine_receive(engine, drive->output + engine->taken, n);
        engine->taken += n;
    } while (engine_send(engine) || drive->output_n > engine->taken);
}

/* ---- A test that is the server ---- */

/* The client's output is lost. Returns how many frames of the type there were. */
static inline unsigned engine_discard(struct engine *engine, uint8_t type)
{
    const uint8_t *bytes;
    unsigned count = 0;
    while (gs_http2_client_output(&engine->client, &bytes) > 0)
        count += bytes[3] == type && memcmp(bytes, "PRI", 3);
    return count;
}

struct engine_frame {
    uint8_t type, flags;
    int32_t id;
    const void *payload;
    size_t n;
};

/* The client receives a frame. */
static inline void engine_frame(struct engine *engine, const struct engine_frame *frame)
{
    static uint8_t bytes[9 + (1 << 16)];
    const size_t n = frame->n;
    const int32_t id = frame->id;
    const uint8_t header[] = {(uint8_t)(n >> 16),  (uint8_t)(n >> 8),  (uint8_t)n,
                              frame->type,         frame->flags,       0,
                              (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    memcpy(bytes, header, sizeof header);
    if (n)
        memcpy(bytes + sizeof header, frame->payload, n);
    engine_receive(engine, bytes, sizeof header + n);
}

#endif
