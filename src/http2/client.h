/* The client's side of a connection of HTTP/2, by libnghttp2: requests and received bytes in,
 * output, responses and their ends out. It knows no socket, no clock and no thread.
 *
 *     struct gs_http2_client client = {.user = &user, .now_ns = now_ns};
 *     err = gs_http2_client_init(&client);
 *     err = gs_http2_client_request(&client, &stream, &request);
 *     while ((n = gs_http2_client_output(&client, &bytes)) > 0)
 *         send(fd, bytes, n, 0);
 *     err = gs_http2_client_receive(&client, bytes, n, now_ns);    the user's functions are called
 *
 *                request             HEADERS: on_head            END_STREAM: on_end
 *     caller's ----------> in flight ---------------> (on_body) --------------------> caller's
 *                             |                          |     reset, GOAWAY, cancel     ^
 *                             `--------------------------`-------------------------------'
 *
 * What the server may do is bounded. Its fields, interim responses and frames without use have
 * limits (RFC 9113, 10.5), and push is disabled. At most `window` bytes of each response are on
 * their way or with the user: the server gets the window of a stream back only when the user says
 * that it has consumed them. The window of the connection opens
 * at once, so that no stream holds up another. */
#ifndef GS_HTTP2_CLIENT_H
#define GS_HTTP2_CLIENT_H

#include "http/text.h"

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <gossamer/list.h>
#include <nghttp2/nghttp2.h>

struct gs_http2_client;

/* A request and its response: the engine's from gs_http2_client_request until on_end or
 * gs_http2_client_cancel. */
struct gs_http2_client_stream {
    struct gs_list link;
    int32_t id;
    int err;             /* to be reported, if it is known before the stream is closed */
    unsigned status;     /* of the response; below 200: none so far */
    bool has_head;       /* further fields are trailers */
    bool is_reset;       /* by the server */
    bool has_begun;      /* something of a response, or of an interim one, has arrived */
    bool is_unprocessed; /* with on_end: the server has not processed the request (RFC 9113, 8.7) */
    unsigned interims;   /* responses 1xx */
    unsigned field_count; /* of the head and the trailers, */
    size_t field_bytes;   /* and their bytes */
};

/* Functions of the user. They may call gs_http2_client_request, _consume, _resume and _cancel. */
struct gs_http2_client_user {
    /* A field of the final response's head, or, after on_head, of its trailers. The name is in
     * lower case. Returns 0, or -errno to reset the stream, whose error that is. */
    int (*on_field)(struct gs_http2_client *client, struct gs_http2_client_stream *stream,
                    struct gs_http_text name, struct gs_http_text value);

    /* The head of the final response is complete. */
    void (*on_head)(struct gs_http2_client *client, struct gs_http2_client_stream *stream);

    /* Bytes of the response's body, which are to be passed to gs_http2_client_consume. Returns 0,
     * or -errno as on_field. */
    int (*on_body)(struct gs_http2_client *client, struct gs_http2_client_stream *stream,
                   const void *bytes, size_t n);

    /* Copy up to n bytes of the request's body, at least one unless it ends. Returns how many;
     * -EAGAIN: none until gs_http2_client_resume; or another -errno as on_field. */
    ssize_t (*on_body_wanted)(struct gs_http2_client *client, struct gs_http2_client_stream *stream,
                              void *bytes, size_t n, bool *ret_is_end);

    /* The stream is over, and the caller's again. err: 0: the response is complete; -ECONNRESET:
     * the server has reset the stream, or refused it; -EPROTO: the response is malformed;
     * -EMSGSIZE: its fields are too large; or what another function returned. */
    void (*on_end)(struct gs_http2_client *client, struct gs_http2_client_stream *stream, int err);
};

struct gs_http2_client {
    /* The user sets these before the start; 0: the value in parentheses. */
    const struct gs_http2_client_user *user;
    uint32_t window;     /* of a stream (256 KiB) */
    uint32_t max_header; /* bytes of a response's fields, with its trailers (64 KiB) */
    unsigned max_fields; /* (256) */
    uint64_t now_ns;     /* of the last call */

    nghttp2_session *nghttp2;
    struct gs_list streams;      /* in flight, in the order of their requests */
    uint32_t count;              /* of these */
    int err;                     /* of libnghttp2; 0: none */
    bool has_settings;           /* the server's have arrived */
    bool is_abused;              /* a limit of the connection was passed */
    uint8_t header_n, header[9]; /* of the frame that is received next */
    uint32_t payload_left;       /* of the one before */
    unsigned continuations;      /* in a row */
    unsigned budget;             /* of frames without use, */
    uint64_t refilled_ns;        /* and when it was refilled */
};

/* ---- The life of a connection (client.c) ---- */

/* Start a connection, whose first members are set. Returns 0 or -ENOMEM; then nothing is to be
 * released. */
GS_MUST_CHECK int gs_http2_client_init(struct gs_http2_client *client);

/* Release what the connection has. No stream may be in flight. */
void gs_http2_client_done(struct gs_http2_client *client);

/* End all streams in flight with the error: nothing more will be received. Those whose requests
 * were not given out are unprocessed. */
void gs_http2_client_fail(struct gs_http2_client *client, int err);

/* Take what was received. Returns 0; -EPROTO (the server floods the connection) or -ENOMEM: then
 * the connection is to be failed, after its output if that can be sent. A violation of HTTP/2 is no
 * error here: it ends the connection after the output. */
GS_MUST_CHECK int gs_http2_client_receive(struct gs_http2_client *client, const void *bytes,
                                          size_t n, uint64_t now_ns);

/* The next bytes to be sent, which stay valid until the next call. Returns how many; 0: there are
 * none; or the error of the connection. */
GS_MUST_CHECK ssize_t gs_http2_client_output(struct gs_http2_client *client,
                                             const uint8_t **ret_bytes);

/* Ask the server for an answer, which shows that the connection works. */
void gs_http2_client_ping(struct gs_http2_client *client);

/* Tell the server that no more requests follow. */
void gs_http2_client_close(struct gs_http2_client *client);

/* Whether nothing more is to be received or sent, because of an error or at the end: streams that
 * are left are to be failed. */
bool gs_http2_client_is_over(const struct gs_http2_client *client);

/* How many more requests may start. 0: as many are in flight as the server allows, or
 * gs_http2_client_is_draining. Before the server's settings have arrived, 100 may be in flight. */
uint32_t gs_http2_client_room(const struct gs_http2_client *client);

/* Whether no request may start any more: after GOAWAY, an error, or the last number of a stream. */
bool gs_http2_client_is_draining(const struct gs_http2_client *client);

/* ---- Requests (client_request.c) ---- */

struct gs_http2_client_request {
    struct gs_http_text method, scheme, authority, path;
    struct gs_http_text fields; /* valid lines "Name: value\r\n"; those that HTTP/2 forbids, and
                                 * Host, are left out */
    bool has_body;              /* on_body_wanted gives it */
};

/* More bytes of fields are not sent. */
#define GS_HTTP2_CLIENT_FIELDS_MAX ((size_t)128 << 10)

/* Start a request, whose stream the caller has set to zero. It waits for its turn if there is no
 * room. Returns 0, -EMSGSIZE (the fields are too large), -ESHUTDOWN (the connection is draining),
 * or -ENOMEM; then the stream stays the caller's. */
GS_MUST_CHECK int gs_http2_client_request(struct gs_http2_client *client,
                                          struct gs_http2_client_stream *stream,
                                          const struct gs_http2_client_request *request);

/* There is more of the body of a request, after -EAGAIN. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_http2_client_resume(struct gs_http2_client *client,
                                         struct gs_http2_client_stream *stream);

/* n bytes of the response's body were consumed. A response may be complete before that. Returns 0
 * or -ENOMEM. */
GS_MUST_CHECK int gs_http2_client_consume(struct gs_http2_client *client,
                                          struct gs_http2_client_stream *stream, size_t n);

/* Reset the stream: it is the caller's again, without a call of on_end. Returns 0 or -ENOMEM; then
 * the connection is to be failed. */
GS_MUST_CHECK int gs_http2_client_cancel(struct gs_http2_client *client,
                                         struct gs_http2_client_stream *stream);

/* ---- For client.c ---- */

/* Set what libnghttp2 calls (client_streams.c). */
void gs_http2_client_set_callbacks(nghttp2_session_callbacks *callbacks);

#define GS_HTTP2_CLIENT_CONTINUATIONS_MAX 8

/* Look at bytes that libnghttp2 gets next (client_limits.c). Returns whether the server keeps to
 * its limits. */
bool gs_http2_client_look_at(struct gs_http2_client *client, const uint8_t *bytes, size_t n);

/* The connection was of use: by a response, a frame that was sent, or n bytes of a request. */
void gs_http2_client_note_work(struct gs_http2_client *client, uint64_t n);
void gs_http2_client_limits_init(struct gs_http2_client *client);

/* Take the stream from those in flight. */
void gs_http2_client_leave(struct gs_http2_client *client, struct gs_http2_client_stream *stream);

#endif
