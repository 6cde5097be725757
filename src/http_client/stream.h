/* One request and its response on a connection: what the rest of the client knows of a protocol.
 *
 *     dial.c                    pool.c                    fetch.c, response.c
 *     a connection  ----------> kept and counted -------> struct gs_http_client_stream
 *     (TCP, tunnel, TLS)        by host                      |
 *                                                            '--> http1.c: the connection is the
 *                                                                 stream, one after the other
 *
 * With HTTP/2 (http2_stream.c), a stream is one of many on a connection, which the pool shares
 * between them.
 *
 * The calls come in this order, by one thread at a time: send_head, send_body until its end,
 * receive_head, then peek and consume, and release at any time. Each of the first four returns
 * -errno after a failure, and leaves a text where it knows more (error.h). After -ETIMEDOUT and
 * -ECANCELED, peek can be repeated.
 */
#ifndef GS_HTTP_CLIENT_STREAM_H
#define GS_HTTP_CLIENT_STREAM_H

#include <gossamer/http_client.h>

/* A request, as it is to be sent. All is borrowed. */
struct gs_http_client_head {
    const char *method;
    const char *scheme; /* "http" or "https" */
    const char *authority;
    const char *target;                 /* absolute, to a proxy */
    const struct gs_http_field *fields; /* without those that tell the host and frame the body */
    unsigned field_count;
    const void *body; /* in memory; NULL: none, or it follows in parts */
    size_t body_n;
    bool has_parts;        /* send_body follows */
    uint64_t parts_length; /* of all parts; GS_HTTP_UNKNOWN */
};

/* The head of a response. `memory` has all the strings and fields, and is the receiver's to free.
 */
struct gs_http_client_answer {
    unsigned status;
    void *memory;
    struct gs_http_field *fields;
    unsigned field_count;
    uint64_t content_length; /* GS_HTTP_UNKNOWN */
    bool has_body;           /* there may be one */
};

struct gs_http_client_stream;

struct gs_http_client_stream_operations {
    /* Send the head, and the body that is in memory. */
    int (*send_head)(struct gs_http_client_stream *stream, const struct gs_http_client_head *head,
                     uint64_t deadline_ns);

    /* Send the next part of the body; n == 0: it ends here. */
    int (*send_body)(struct gs_http_client_stream *stream, const void *bytes, size_t n,
                     uint64_t deadline_ns);

    int (*receive_head)(struct gs_http_client_stream *stream, uint64_t deadline_ns,
                        struct gs_http_client_answer *ret_answer);

    /* Wait for bytes of the body, without framing, and get them. They are valid until they are
     * consumed. Returns their number, 0 at the end of the body, or -errno. */
    ssize_t (*peek)(struct gs_http_client_stream *stream, uint64_t deadline_ns,
                    const char **ret_bytes);
    void (*consume)(struct gs_http_client_stream *stream, size_t n);

    /* End it. What it used may serve further requests if the response is complete. Does not wait.
     */
    void (*release)(struct gs_http_client_stream *stream);
};

struct gs_http_client_stream {
    const struct gs_http_client_stream_operations *operations;
    bool is_reused;      /* the connection had served requests before */
    bool has_started;    /* a byte of the response has arrived */
    bool is_unprocessed; /* after an error: the server has not processed the request */
};

#endif
