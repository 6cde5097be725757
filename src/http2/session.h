/* Internals of a session. */
#ifndef GS_HTTP2_SESSION_H
#define GS_HTTP2_SESSION_H

#include "http/http2.h"
#include "http/output.h"
#include "http/request.h"
#include "http/service.h"

#include <nghttp2/nghttp2.h>

/* A session that has more memory refuses streams, and answers no requests. From half of it on, what
 * was received waits until responses are sent, and requests wait while the windows of their streams
 * are closed; from a quarter on, while that of the connection is. */
#define GS_HTTP2_MEMORY_MAX ((size_t)50 << 10)

/* One that has even more after what was received is handled ends: with an output, and what the
 * allocator adds, a connection takes about 64 KiB. */
#define GS_HTTP2_KEPT_MAX ((size_t)57 << 10)

/* So does one that has this meanwhile, when a header block was complete. */
#define GS_HTTP2_ABUSE_MAX ((size_t)96 << 10)
#define GS_HTTP2_STREAMS_MAX 100

/* Responses at a time that have memory of their own, rather than pages only. */
#define GS_HTTP2_LARGE_MAX 4u

/* The bytes of frames that are built ahead. */
#define GS_HTTP2_OUTPUT_MAX ((uint64_t)64 << 10)

/* The life of a stream:
 *
 *    HEAD ----> BODY ----> READY ----> ANSWERING ----> closed
 *      `----------------->   |  ^
 *                            v  | its file is loaded, or that of another stream was
 *                          LOADING */
enum gs_http2_stream_state {
    GS_HTTP2_HEAD,      /* its header block is incomplete */
    GS_HTTP2_BODY,      /* its body is being discarded */
    GS_HTTP2_READY,     /* its request is complete; it waits for its turn, or for another's load */
    GS_HTTP2_LOADING,   /* conn->load is its own */
    GS_HTTP2_ANSWERING, /* its response was given to libnghttp2 */
};

struct gs_http2_shared; /* fields of heads that wait (request.c) */

struct gs_http2_stream {
    struct gs_http2_stream *next, **link; /* in the order of their arrival */
    int32_t id;
    uint8_t state;
    bool has_body;         /* it announced one */
    bool body_is_complete; /* the peer has ended it */
    bool is_cookie_last;   /* of the fields so far */
    bool has_priority;     /* its request has told its priority */
    bool is_broken;        /* memory for its head was exhausted */
    bool awaits_file;      /* the session may not keep its file, beside others */
    bool is_read;          /* its body is wanted although the response is complete */
    bool is_connect;       /* a request of RFC 8441 for WebSocket */
    uint16_t status;       /* to refuse it with, since its head is too large; 0: it is not */
    uint32_t head_n, head_size;
    uint32_t dropped_n;             /* bytes of fields that are not kept there */
    uint32_t lines;                 /* of fields, also of those */
    uint32_t version;               /* where in the head */
    uint32_t log_size;              /* memory of the response's line in the log */
    char *head;                     /* as in HTTP/1.1 */
    struct gs_http2_shared *shared; /* all behind its line; NULL: that is there */
    uint64_t body_n;                /* received */
    union {
        struct gs_http_output *response; /* what is left of it; NULL: none */
        void *data;                      /* of another user than files.c */
    };
};

struct gs_http2_session;

/* The bytes that are received next are of: */
enum gs_http2_block {
    GS_HTTP2_OUTSIDE,   /* no header block */
    GS_HTTP2_GATHERING, /* one that is kept */
    GS_HTTP2_PASSING,   /* one that is too large for that */
};

#define GS_HTTP2_CONTINUATIONS_MAX 8u

/* What the streams are for: the files of a service (files.c), or the handlers of an application. */
struct gs_http2_user {
    /* Whether fields of this name are kept in the head; NULL: all are. */
    bool (*keeps)(struct gs_http_text name);

    /* The head is complete, the body only if is_end. */
    void (*on_head)(struct gs_http2_session *session, struct gs_http2_stream *stream, bool is_end);

    /* Bytes of a body. stream: NULL: it is not known. */
    void (*on_body)(struct gs_http2_session *session, struct gs_http2_stream *stream,
                    const uint8_t *bytes, size_t n);

    /* The body is complete, too. */
    void (*on_end)(struct gs_http2_session *session, struct gs_http2_stream *stream);

    /* It is freed next. */
    void (*on_close)(struct gs_http2_session *session, struct gs_http2_stream *stream);
};

struct gs_http2_session {
    struct gs_http2 base;

    /* The user sets these before the start. */
    const struct gs_http2_user *user;
    const struct gs_http_options *options;
    struct gs_http_counts *counts;
    void **block;                /* that sessions share which run one at a time (memory.c), */
    struct gs_http2_desk **desk; /* and this; NULL: not this */
    uint32_t streams_max;
    size_t memory_more;       /* than these limits, for streams that wait for a handler */
    bool is_consumed_by_user; /* the windows open when it calls nghttp2_session_consume_stream */
    bool has_websocket;       /* streams may ask for it (RFC 8441) */

    struct gs_http_conn *conn;           /* of files.c, in the call in progress */
    const struct gs_http_output *frames; /* its output, while a request is handled */
    uint64_t now_ns;                     /* of the call in progress */
    nghttp2_session *nghttp2;
    nghttp2_mem memory;
    size_t allocated;               /* by libnghttp2, and of streams, */
    size_t held;                    /* and of their responses */
    bool has_block;                 /* it uses the one that is shared, */
    uint8_t parts;                  /* and these parts of the desk */
    struct gs_http2_packed *packed; /* their contents, while another session runs */
    void *reserve;                  /* memory for these, until then */
    bool is_starting;
    bool is_ending;               /* because of an error: what is received is discarded */
    uint8_t header_n, header[13]; /* of the frame that is received next */
    uint32_t payload_left;        /* of the one before */
    uint8_t header_block;         /* enum gs_http2_block */
    unsigned block_frames;        /* complete, of that block */
    char *gathered;               /* its bytes; NULL: none */
    size_t gathered_n, gathered_size;
    bool is_last; /* no more streams are handled */
    struct gs_http2_stream *first, **last;
    struct gs_http2_stream *loading;          /* whose conn->load is; NULL: none */
    struct gs_http2_shared *shared;           /* the newest; NULL: no stream has one */
    nghttp2_rcbuf *method, *path, *authority; /* of the header block that is incomplete */
    char *unsent; /* a frame that had no room in the output; NULL: none */
    size_t unsent_n, unsent_size;
    char *input; /* received, and not handled yet; NULL: nothing */
    size_t input_n;
    int32_t newest, newest_reset; /* streams: that the peer has opened, and that we have reset */
    uint64_t opened;              /* of the 64 before the newest, which were opened */
    unsigned large;               /* responses that have memory of their own */
    unsigned resets, work;        /* budgets of limits.c, */
    uint64_t refilled_ns;         /* and when they were refilled */
};

/* Count the stream in the state of the session. */
static inline void gs_http2_set_state(struct gs_http2_session *session,
                                      struct gs_http2_stream *stream,
                                      enum gs_http2_stream_state state)
{
    session->base.receiving -= stream->state == GS_HTTP2_BODY;
    session->base.answering -= stream->state >= GS_HTTP2_READY;
    stream->state = (uint8_t)state;
    session->base.receiving += state == GS_HTTP2_BODY;
    session->base.answering += state >= GS_HTTP2_READY;
}

static inline struct gs_http2_session *gs_http2_session_of(struct gs_http_conn *conn)
{
    return (struct gs_http2_session *)conn->http2;
}

/* ---- memory.c ---- */

/* libnghttp2's allocator for the session. */
void gs_http2_memory_init(struct gs_http2_session *session);

/* Before libnghttp2 is called: it finds the session's tables. Returns false if memory is exhausted:
 * then the session must end before another one runs. */
bool gs_http2_take_desk(struct gs_http2_session *session);

/* Memory of a stream: counted, too. */
void *gs_http2_realloc(struct gs_http2_session *session, void *memory, size_t n);
void gs_http2_release(struct gs_http2_session *session, void *memory);

/* The memory of the session that grows with what its peer does; with what the allocator adds. */
static inline size_t gs_http2_memory(const struct gs_http2_session *session)
{
    return session->allocated + session->held + session->base.streams * (3 * sizeof(size_t));
}

/* ---- session.c ---- */

/* Start a session, whose first members are set. Returns 0 or -ENOMEM; then nothing is to be
 * released. */
int gs_http2_session_init(struct gs_http2_session *session);

/* End its streams, and release what it has; a second time, nothing. */
void gs_http2_session_done(struct gs_http2_session *session);

/* Receive n bytes, or up to the end of a frame. A session that passes a limit ends with GOAWAY.
 * Returns how many; or 0 if the connection has failed. */
size_t gs_http2_take(struct gs_http2_session *session, const char *bytes, size_t n);

/* End the connection because of this error, after what is to be sent before. */
void gs_http2_terminate(struct gs_http2_session *session, uint32_t error);

/* RFC 9113, 6.8: first the peer is told to open no more streams; those that it has opened before it
 * knew have arrived when its answer to the PING has. */
void gs_http2_drain(struct gs_http2_session *session);

/* Whether it neither expects nor has anything more to send. */
bool gs_http2_is_over(const struct gs_http2_session *session);

/* Tell the peer that streams from now on are ignored: the second step of draining. */
void gs_http2_accept_no_more(struct gs_http2_session *session);

/* ---- frames.c ---- */

/* A frame costs as much to receive as it has bytes, and something more: one of DATA with fewer
 * counts as one without use. */
#define GS_HTTP2_SMALL_DATA 64u

void gs_http2_frames_init(struct gs_http2_session *session);

/* Look at bytes that libnghttp2 gets next. Returns how many: to the end of a frame at most. */
size_t gs_http2_look_at(struct gs_http2_session *session, const char *bytes, size_t n);

/* The peer has opened a stream. */
void gs_http2_note_opened(struct gs_http2_session *session, int32_t id);

/* ---- block.c ---- */

/* Keep bytes that were looked at, if they belong to a header block that is incomplete. On return,
 * *bytes is what libnghttp2 gets now: the same, all that is kept, or nothing. Returns false if
 * there is no memory. */
bool gs_http2_gather(struct gs_http2_session *session, struct gs_http_text *bytes);

/* Returns what is kept, which becomes the caller's, and is not counted any more; or NULL. */
char *gs_http2_take_gathered(struct gs_http2_session *session);

/* ---- request.c ---- */

/* libnghttp2 calls them. */
int gs_http2_on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                       nghttp2_rcbuf *value, uint8_t flags, void *data);

/* The header block is complete. */
void gs_http2_end_header(struct gs_http2_session *session, struct gs_http2_stream *stream);

/* Forget what is kept of the newest stream's header block: libnghttp2 does not report the end of a
 * malformed one. */
void gs_http2_drop_header(struct gs_http2_session *session);

/* Have a head that waits take little memory. */
void gs_http2_shrink_head(struct gs_http2_session *session, struct gs_http2_stream *stream);

void gs_http2_free_head(struct gs_http2_session *session, struct gs_http2_stream *stream);

/* Parse the head. Returns 0 or the status to refuse the request with. */
unsigned gs_http2_parse(struct gs_http2_session *session, struct gs_http2_stream *stream,
                        struct gs_http_request *ret_request);

/* ---- fields.c ---- */

/* Those of the options and of a site, and fewer than 16 others. */
#define GS_HTTP2_FIELDS_MAX (GS_HTTP_FIELD_LINES_MAX + 16)
struct gs_http2_fields {
    size_t count;
    nghttp2_nv all[GS_HTTP2_FIELDS_MAX]; /* fewer, if they are kept */
};

/* The fields of a head, of which they are parts; a body may follow it. Returns its length. */
size_t gs_http2_split_head(struct gs_http_text head, struct gs_http2_fields *ret_fields);

/* The fields of a page that the caller has a reference of, which are kept with it, unless its
 * modification is in the future. Returns `space` if they are not kept. */
const struct gs_http2_fields *gs_http2_page_fields(struct gs_http_service *service,
                                                   struct gs_http_page *page, bool is_in_future,
                                                   struct gs_http2_fields *space);

/* ---- answer.c ---- */

/* The head is complete, but the body is not: refuse the request, or have it continue. */
void gs_http2_start_body(struct gs_http2_session *session, struct gs_http2_stream *stream);

/* Respond to a request whose body is too long. */
void gs_http2_refuse_body(struct gs_http2_session *session, struct gs_http2_stream *stream);

/* Respond to a stream that is ready; with its load, if it had one. Returns false if it must wait.
 */
bool gs_http2_answer(struct gs_http2_session *session, struct gs_http2_stream *stream,
                     struct gs_http_load *load);

/* Whether an open file may be kept for a response, beside those of others. page: NULL: a file that
 * none of these is from. */
bool gs_http2_may_keep(struct gs_http2_session *session, const struct gs_http_page *page);

/* Log and count a response, of which nothing more is sent, and release it. */
void gs_http2_end_response(struct gs_http2_session *session, struct gs_http2_stream *stream);

/* Have a waiting response take little memory. */
void gs_http2_compact(struct gs_http2_session *session, struct gs_http2_stream *stream);

/* libnghttp2 calls it to move a part of the response to the output. */
int gs_http2_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame, const uint8_t *header,
                       size_t n, nghttp2_data_source *source, void *data);

/* Whether the output has room for the header of a frame and a part of a response. */
bool gs_http2_has_room(const struct gs_http_output *output);

/* ---- limits.c: what a peer may have us do without asking for pages ---- */

void gs_http2_limits_init(struct gs_http2_session *session);

/* A request was answered, or n bytes of a response were put into the output. */
void gs_http2_note_work(struct gs_http2_session *session, uint64_t n);

/* n bytes of a body were received that is read: a small frame of it has a use. */
void gs_http2_note_use(struct gs_http2_session *session, size_t n);

/* A frame without use was received, or a stream was refused; or one was reset because of the peer.
 * Returns false if there were too many: the session ends. */
bool gs_http2_may_disturb(struct gs_http2_session *session);
bool gs_http2_may_reset(struct gs_http2_session *session);

/* End the session of a peer that has passed another limit, or because of its memory. */
void gs_http2_end_abuse(struct gs_http2_session *session);
void gs_http2_end_overload(struct gs_http2_session *session);

#endif
