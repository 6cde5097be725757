/* Between streams.c and stream_calls.c: what the home has of a connection of HTTP/2. */
#ifndef GS_HTTP_SERVER_STREAMS_STATE_H
#define GS_HTTP_SERVER_STREAMS_STATE_H

#include "http2/session.h"
#include "http_server/streams.h"

struct gs_http_streams {
    struct gs_http2_session session; /* its first member */
    struct gs_http_connection *connection;
    struct gs_list link;     /* in the list of the worker */
    struct gs_list requests; /* that have a thread */
    unsigned count;          /* of these, */
    unsigned sent;           /* and of those whose response is complete */
    struct gs_list heads;    /* those of them whose response is to be given to libnghttp2 */
    bool has_failed;         /* all calls fail; the connection ends with the last thread */
    bool is_lingering;       /* our side is shut down */
    bool has_ended;          /* the client sends nothing more */
    char *output;            /* frames; NULL: none */
    size_t output_start, output_end, output_size;
};

/* ---- In stream_calls.c ---- */

extern const struct gs_http2_user gs_http_streams_user;

/* Give the next one of the heads to libnghttp2. Returns whether there was one. */
bool gs_http_streams_submit_head(struct gs_http_streams *streams);

/* The client sends nothing more: bodies that are incomplete stay so. */
void gs_http_streams_end_input(struct gs_http_streams *streams);

/* Nor does it open a window: let the calls that write fail. */
void gs_http_streams_end_output(struct gs_http_streams *streams);

/* Let all calls of the requests that are there fail, now and later. */
void gs_http_streams_leave(struct gs_http_streams *streams);

/* The same, and end the connection. */
void gs_http_streams_fail(struct gs_http_streams *streams);

#endif
