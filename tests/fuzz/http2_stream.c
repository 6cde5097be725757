/* Prints what a session of HTTP/2 makes of frames, for comparison with another implementation.
 *
 * Standard input: connections, each a number of parts, and these; a part is a length and that
 * number of bytes, numbers have four bytes, little-endian. Standard output: a line of JSON for each
 * connection, a list with one entry for each part up to the end of the connection: the requests
 * that were accepted, their bodies, and the frames that were sent. Each complete request is
 * answered with its head, in a field. Texts are in hexadecimal. */
#include "http2/streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_MAX 65536

static bool is_first; /* event of a part */

static void begin_event(const char *kind, int32_t id)
{
    printf("%s[\"%s\", %d", is_first ? "" : ", ", kind, id);
    is_first = false;
}

static void print_bytes(const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    printf(", \"");
    for (size_t i = 0; i < n; i++)
        printf("%02x", at[i]);
    printf("\"");
}

/* ---- The user of the session ---- */

static void answer(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    static char head[HEAD_MAX];
    static uint8_t status[] = ":status", ok[] = "200", name[] = "x-head";
    size_t n = stream->head_n < 1000 ? stream->head_n : 1000;
    for (size_t i = 0; i < n; i++)
        head[i] = stream->head[i] == '\r' || stream->head[i] == '\n' ? '|' : stream->head[i];
    nghttp2_nv fields[] = {{status, ok, 7, 3, 0}, {name, (uint8_t *)head, 6, n, 0}};
    (void)nghttp2_submit_response(session->nghttp2, stream->id, fields, 2, NULL);
}

static void on_end(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    begin_event("end", stream->id);
    printf("]");
    gs_http2_set_state(session, stream, GS_HTTP2_ANSWERING);
    answer(session, stream);
}

static void on_head(struct gs_http2_session *session, struct gs_http2_stream *stream, bool is_end)
{
    begin_event("head", stream->id);
    print_bytes(stream->head, stream->head_n);
    printf("]");
    gs_http2_set_state(session, stream, GS_HTTP2_BODY);
    if (is_end)
        on_end(session, stream);
}

static void on_body(struct gs_http2_session *session, struct gs_http2_stream *stream,
                    const uint8_t *bytes, size_t n)
{
    (void)session;
    if (!stream || !n)
        return;
    begin_event("body", stream->id);
    print_bytes(bytes, n);
    printf("]");
}

static void on_close(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    gs_http2_set_state(session, stream, GS_HTTP2_HEAD);
}

static const struct gs_http2_user user = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_close = on_close,
};

/* ---- Frames ---- */

static void print_output(struct gs_http2_session *session)
{
    const uint8_t *bytes;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(session->nghttp2, &bytes)) > 0) {
        begin_event("sent", 0);
        print_bytes(bytes, (size_t)n);
        printf("]");
    }
}

/* Returns whether the connection goes on. */
static bool receive(struct gs_http2_session *session, const char *bytes, size_t n)
{
    is_first = true;
    while (n && !session->is_ending) {
        size_t taken = gs_http2_take(session, bytes, n);
        if (!taken)
            return false;
        bytes += taken;
        n -= taken;
        print_output(session);
    }
    print_output(session);
    return !session->is_ending && nghttp2_session_want_read(session->nghttp2);
}

static uint32_t read_number(void)
{
    unsigned char bytes[4];
    if (fread(bytes, 1, 4, stdin) != 4)
        return 0;
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void run_connection(uint32_t parts)
{
    static void *block;
    struct gs_http_options options;
    struct gs_http_counts counts = {0};
    struct gs_http2_session session = {
        .user = &user,
        .options = &options,
        .counts = &counts,
        .block = &block,
        .streams_max = GS_HTTP2_STREAMS_MAX,
    };
    gs_http_options_default(&options);
    bool is_open = !gs_http2_session_init(&session);
    if (!is_open)
        exit(1);
    printf("[");
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t n = read_number();
        char *bytes = malloc(n + 1);
        if (!bytes || fread(bytes, 1, n, stdin) != n)
            exit(1);
        if (is_open) {
            printf("%s[", i ? ", " : "");
            is_open = receive(&session, bytes, n);
            printf("]");
        }
        free(bytes);
    }
    printf("]\n");
    gs_http2_session_done(&session);
}

int main(void)
{
    uint32_t parts;
    while ((parts = read_number()))
        run_connection(parts);
    return 0;
}
