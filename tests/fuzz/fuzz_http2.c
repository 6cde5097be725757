/* Fuzzes a connection of HTTP/2 as fuzz_conn.c does one of HTTP/1. After each event its streams are
 * in the states that it counts, and its memory is bounded; at the end its frames are read as a
 * client would. If the first byte of the input is even, the rest is what a peer sends, for any
 * split: after its preface and settings, or, by the second bit, with them. If it is odd, the rest
 * encodes a sequence of events, among which are frames of the right length. */
#include "http2/http2.h"
#include "http2/session.h"
#include "tests/fuzz/events.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAME_HEADER 9
#define FRAME_MAX 16384
#define STREAMS_MAX 2048 /* the least frame that opens one has ten bytes */

static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

static struct drive drive;

/* ---- The output, as a client reads it ---- */

struct answer {
    uint32_t id;
    unsigned status;
    int64_t length; /* that its head announces; -1: none */
    uint64_t body_n;
    bool is_over, is_reset;
};

struct reader {
    nghttp2_hd_inflater *inflater;
    struct answer *block; /* whose header block is incomplete */
    struct answer answers[STREAMS_MAX];
    size_t count;
    bool is_going_away;
};

static struct reader readers[2];

static struct answer *answer_to(struct reader *reader, uint32_t id)
{
    for (size_t i = 0; i < reader->count; i++)
        if (reader->answers[i].id == id)
            return &reader->answers[i];
    assert(reader->count < STREAMS_MAX && id % 2);
    reader->answers[reader->count] = (struct answer){.id = id, .length = -1};
    return &reader->answers[reader->count++];
}

static bool is_named(const nghttp2_nv *field, const char *name)
{
    return field->namelen == strlen(name) && !memcmp(field->name, name, field->namelen);
}

static void read_field(struct answer *answer, const nghttp2_nv *field)
{
    bool is_status = is_named(field, ":status");
    assert(is_status == (answer->status == 0 || answer->status == 100));
    assert(!is_named(field, "connection") && !is_named(field, "transfer-encoding"));
    for (size_t i = 0; i < field->namelen; i++)
        assert(field->name[i] < 'A' || field->name[i] > 'Z');
    if (is_status)
        answer->status = (unsigned)atoi((const char *)field->value);
    if (is_named(field, "content-length"))
        answer->length = atoll((const char *)field->value);
}

static void read_block(struct reader *reader, const uint8_t *bytes, size_t n, bool is_last)
{
    struct answer *answer = reader->block;
    int flags = 0;
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv field;
        ssize_t used = nghttp2_hd_inflate_hd2(reader->inflater, &field, &flags, bytes, n, is_last);
        assert(used >= 0);
        bytes += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            read_field(answer, &field);
        else if (!n && !is_last)
            return;
    }
    nghttp2_hd_inflate_end_headers(reader->inflater);
    assert(answer->status >= 100 && answer->status <= 599);
    reader->block = NULL;
}

static void read_data(struct answer *answer, size_t n, bool is_last)
{
    assert(answer->status >= 200 && !answer->is_over);
    answer->body_n += n;
    assert(answer->length < 0 || answer->body_n <= (uint64_t)answer->length);
    assert(!is_last || answer->length < 0 || answer->body_n == (uint64_t)answer->length);
}

static void read_frame(struct reader *reader, const uint8_t *frame, size_t n)
{
    uint8_t type = frame[3], flags = frame[4];
    uint32_t id =
        (uint32_t)frame[5] << 24 | (uint32_t)frame[6] << 16 | (uint32_t)frame[7] << 8 | frame[8];
    struct answer *answer = id ? answer_to(reader, id) : NULL;
    assert(!reader->block || type == NGHTTP2_CONTINUATION);
    switch (type) {
    case NGHTTP2_HEADERS:
        assert(answer && !answer->is_over);
        reader->block = answer;
        read_block(reader, frame + FRAME_HEADER, n, flags & NGHTTP2_FLAG_END_HEADERS);
        break;
    case NGHTTP2_CONTINUATION:
        assert(answer && reader->block == answer);
        read_block(reader, frame + FRAME_HEADER, n, flags & NGHTTP2_FLAG_END_HEADERS);
        return;
    case NGHTTP2_DATA:
        assert(answer);
        read_data(answer, n, flags & NGHTTP2_FLAG_END_STREAM);
        break;
    case NGHTTP2_RST_STREAM:
        assert(n == 4 && answer && !answer->is_reset);
        answer->is_reset = answer->is_over = true;
        return;
    case NGHTTP2_GOAWAY:
        reader->is_going_away = true;
        return;
    default:
        assert(type == NGHTTP2_SETTINGS || type == NGHTTP2_PING || type == NGHTTP2_WINDOW_UPDATE);
        return;
    }
    answer->is_over = flags & NGHTTP2_FLAG_END_STREAM;
}

/* The last frame may be incomplete. */
static void read_output(struct reader *reader)
{
    const uint8_t *at = (const uint8_t *)drive.output, *end = at + drive.output_n;
    reader->block = NULL;
    reader->count = 0;
    reader->is_going_away = false;
    nghttp2_hd_inflate_new(&reader->inflater);
    while (end - at >= FRAME_HEADER) {
        size_t n = (size_t)(at[0] << 16 | at[1] << 8 | at[2]);
        assert(n <= FRAME_MAX);
        if ((size_t)(end - at) < FRAME_HEADER + n)
            break;
        read_frame(reader, at, n);
        at += FRAME_HEADER + n;
    }
    nghttp2_hd_inflate_del(reader->inflater);
}

/* ---- The session ---- */

static bool speaks_http2(void)
{
    return drive.conn.flags & GS_HTTP_CONN_HTTP2 && drive.conn.http2;
}

static void check_state(void)
{
    uint32_t streams = 0, answering = 0, receiving = 0, large = 0;
    if (!speaks_http2() || drive.conn.state != GS_HTTP_CONN_HEAD)
        return;
    const struct gs_http2_session *session = gs_http2_session_of(&drive.conn);
    for (const struct gs_http2_stream *stream = session->first; stream; stream = stream->next) {
        assert(*stream->link == stream);
        streams++;
        answering += stream->state >= GS_HTTP2_READY;
        receiving += stream->state == GS_HTTP2_BODY;
        large += stream->response && stream->response->size;
        assert(!stream->response || stream->state == GS_HTTP2_ANSWERING);
        assert((stream->state == GS_HTTP2_LOADING) == (session->loading == stream));
    }
    assert(streams == session->base.streams && streams <= GS_HTTP2_STREAMS_MAX);
    assert(answering == session->base.answering && receiving == session->base.receiving);
    assert(large == session->large && large <= GS_HTTP2_LARGE_MAX + 1);
    assert(!session->loading || drive.conn.load);
    assert(session->allocated <= GS_HTTP2_ABUSE_MAX || session->is_ending);
}

/* ---- The same bytes in several pieces ---- */

/* Returns whether the output consists of frames: to what only begins like the preface the answer
 * may be one of HTTP/1. */
static bool run_session(const uint8_t *bytes, size_t n, size_t split, bool is_opened)
{
    events_reset(&drive);
    drive.input_chunk = split;
    drive.output_chunk = split * 41;
    if (is_opened)
        drive_send_bytes(&drive, opening, sizeof opening - 1);
    drive_send_bytes(&drive, (const char *)bytes, n);
    check_state();
    drive_send_eof(&drive);
    assert(gs_http_conn_wants(&drive.conn) == GS_HTTP_CLOSE);
    return speaks_http2();
}

/* When a stream is reset depends on the pieces, but no status does. */
static void compare(struct reader *whole, struct reader *pieces)
{
    if (whole->is_going_away || pieces->is_going_away)
        return;
    for (size_t i = 0; i < whole->count; i++) {
        const struct answer *answer = &whole->answers[i], *other = answer_to(pieces, answer->id);
        assert(!answer->status || !other->status || answer->status == other->status ||
               answer->is_reset || other->is_reset);
    }
}

static void check_session(const uint8_t *bytes, size_t n, bool is_opened)
{
    events_restore_files(&drive);
    (void)run_session(bytes, n, 0, is_opened); /* this run fills the cache */
    if (!run_session(bytes, n, 0, is_opened))
        return;
    read_output(&readers[0]);
    for (size_t split = 1; split < 8; split += 3) {
        if (!run_session(bytes, n, split, is_opened))
            continue;
        read_output(&readers[1]);
        compare(&readers[0], &readers[1]);
    }
}

/* ---- Sequences of events ---- */

/* A frame whose payload is the next bytes of the input. The last types are PRIORITY_UPDATE and an
 * unknown one. */
static void receive_frame(struct events *events)
{
    static const uint8_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 99};
    uint8_t frame[FRAME_HEADER + 255] = {0};
    unsigned type = events_next_byte(events);
    frame[3] = types[type % sizeof types];
    frame[4] = (uint8_t)events_next_byte(events);
    frame[8] = (uint8_t)events_next_byte(events);
    frame[7] = type >= 240;
    size_t n = events_next_byte(events), left = (size_t)(events->end - events->at);
    if (n > left)
        n = left;
    frame[2] = (uint8_t)n;
    memcpy(frame + FRAME_HEADER, events->at, n);
    events->at += n;
    if (gs_http_conn_wants(&drive.conn) & GS_HTTP_READ)
        gs_http_conn_receive(&drive.conn, (const char *)frame, FRAME_HEADER + n, drive.now_ns);
}

static void check_script(const uint8_t *data, size_t size)
{
    struct events events = {.drive = &drive, .at = data, .end = data + size};
    events_restore_files(&drive);
    events_reset(&drive);
    gs_http2_expect(&drive.conn);
    gs_http_conn_receive(&drive.conn, opening, sizeof opening - 1, drive.now_ns);
    while (events.at < events.end && !(gs_http_conn_wants(&drive.conn) & GS_HTTP_CLOSE)) {
        unsigned what = events_next_byte(&events) % 16;
        if (what < EVENTS_KINDS)
            events_step(&events, what);
        else if (what == EVENTS_KINDS)
            events_receive(&events, events_next_byte(&events));
        else
            receive_frame(&events);
        events_check(&events);
        check_state();
    }
    events_finish(&events);
    read_output(&readers[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!drive.service) {
        events_start(&drive);
        gs_http_service_set_http2(drive.service, gs_http2_operations());
        /* Short inputs exceed these limits. */
        drive.service->options.max_request_line = 100;
        drive.service->options.max_header = 200;
        drive.service->options.max_body = 300;
    }
    if (!size)
        return 0;
    if (data[0] % 2)
        check_script(data + 1, size - 1);
    else
        check_session(data + 1, size - 1, !(data[0] & 2));
    return 0;
}
