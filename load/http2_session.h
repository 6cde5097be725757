/* The session of a client of HTTP/2 (http2_client.c): its streams, and what nghttp2 calls. */
#ifndef GS_LOAD_HTTP2_SESSION_H
#define GS_LOAD_HTTP2_SESSION_H

#include "load/exchange.h"
#include "load/http2_fields.h"

#include <gossamer/list.h>

enum { OUTPUT_SIZE = 16 * 1024 };

struct http2_stream {
    struct gs_list link;
    struct load_exchange exchange;
    uint64_t due_ns; /* while it waits, in a closed loop */
    int32_t id;      /* 0: nghttp2 does not have the request yet */
    bool is_sent;    /* its time of sending is known */
    bool is_reused;  /* the connection was established before the request */
    bool is_retried; /* the request is sent, or waits to be sent, a second time */
    bool is_reset;   /* by the server */
    size_t body_sent;
    size_t header_bytes;
};

struct http2_client {
    struct load_connection connection;
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session; /* NULL: not connected */
    struct gs_list waiting;   /* streams, by the time when they are due */
    struct gs_list in_flight; /* streams, by the time of sending */
    uint64_t in_flight_count;
    uint64_t stream_limit;     /* the server's, also of later connections; at first a guess */
    struct load_exchange next; /* of an open loop: a request with its scheduled time */
    bool has_next;
    bool is_draining;     /* besides nghttp2's reasons */
    bool is_invalid;      /* nghttp2 takes no more of what the server sends */
    bool is_blocked;      /* the socket had no room for all output */
    bool has_settings;    /* the server's first frame has arrived */
    uint64_t received_ns; /* when something has arrived last */
    size_t output_start, output_end;
    char output[OUTPUT_SIZE];
    struct http2_stream streams[];
};

/* Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_http2_set_callbacks(struct http2_client *client);

/* Give nghttp2 the request. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_http2_submit(struct http2_client *client, struct http2_stream *stream);

/* Let nghttp2 go on without the stream, which may be reused. */
void gs_load_http2_detach(struct http2_client *client, struct http2_stream *stream);

/* The request has ended: its stream waits for the next one. */
void gs_load_http2_finish(struct http2_client *client, struct http2_stream *stream,
                          enum load_error error);

/* The request was not processed, or may not have been: as in HTTP/1, when a reused connection ends
 * before any byte of the response. It is sent once more. */
void gs_load_http2_finish_or_retry(struct http2_client *client, struct http2_stream *stream,
                                   enum load_error error, bool may_retry);

#endif
