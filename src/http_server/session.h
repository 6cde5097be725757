/* Internals of a session: a thread of gs_http_serve, which serves the requests that a connection
 * has, and their responses. It ends, and its memory with it, when it would wait for a request
 * (connection.h).
 *
 *     gs_http_session_run                         session.c
 *       .-> look for a request                    connection.c
 *       |   read the head, or refuse it           head.c
 *       |   call the handler                      gs_http_read: body.c; gs_http_respond: response.c
 *       '-- finish the response, discard the rest of the body
 *     let the connection wait; or close it, after lingering if the client may still be sending */
#ifndef GS_HTTP_SERVER_SESSION_H
#define GS_HTTP_SERVER_SESSION_H

#include "http/chunked.h"
#include "http_server/connection.h"

/* A rest of a body that is longer than this is not discarded. */
#define GS_HTTP_SERVER_DISCARD_MAX (256 << 10)

enum gs_http_response_state {
    GS_HTTP_RESPONSE_NONE,
    GS_HTTP_RESPONSE_HEAD,    /* started; its head is not sent yet */
    GS_HTTP_RESPONSE_BODY,    /* its head is sent */
    GS_HTTP_RESPONSE_DONE,    /* all of it is sent */
    GS_HTTP_RESPONSE_ABORTED, /* nothing more can be sent; the connection ends with a reset */
};

/* How the client learns of the end of a response's body. */
enum gs_http_response_framing {
    GS_HTTP_FRAMED_BY_LENGTH,
    GS_HTTP_FRAMED_BY_CHUNKS,
    GS_HTTP_FRAMED_BY_CLOSE,
};

struct gs_http_session {
    struct gs_http_exchange exchange;
    struct gs_http_connection *connection;
    const struct gs_http_sessions *sessions;
    struct gs_http_stream *stream; /* of HTTP/2; NULL: HTTP/1 */
    struct gs_cleanup cleanup;
    bool must_linger; /* a response was the last: the client may send on */

    /* The request. */
    char *head; /* its fields, and the text that they and the other members point to */
    bool is_head, keep_alive, is_chunked;
    bool expects_continue; /* the client waits for "100 Continue" */
    bool body_done;
    int body_error;     /* permanent; 0: none */
    uint64_t body_left; /* of a body that is not chunked */
    uint64_t body_wait_ns;
    struct gs_http_chunked chunked;

    /* The response. */
    enum gs_http_response_state state;
    enum gs_http_response_framing framing;
    bool has_body;          /* its body is sent */
    uint64_t response_left; /* bytes of a body of known length */
    uint64_t response_length;
    unsigned status;
    char *fields; /* of the handler, as they are sent */
    size_t fields_length, fields_size;
    char start[128], end[128]; /* of the head, before and after the fields */
    size_t start_length, end_length;
};

static inline struct gs_http_session *gs_http_session_of(struct gs_http_exchange *exchange)
{
    return gs_container_of(exchange, struct gs_http_session, exchange);
}

/* ---- In session.c ---- */

/* A gs_scope_fn: serve the connection, which it takes. */
int gs_http_session_run(void *connection);

/* stream: of HTTP/2; NULL: HTTP/1. */
void gs_http_session_init(struct gs_http_session *session, struct gs_http_connection *connection,
                          struct gs_http_stream *stream);

/* Serve a request. Returns whether another one may follow on this connection. */
bool gs_http_session_serve(struct gs_http_session *session);

/* ---- In head.c ---- */

/* Set up the exchange of the request that the connection has. Returns 0, or a status to refuse it
 * with. */
unsigned gs_http_session_read_head(struct gs_http_session *session);

/* Free what belongs to the request. */
void gs_http_session_release(struct gs_http_session *session);

/* ---- In body.c ---- */

/* The status of a response to a request whose body could not be read, or else 500. */
unsigned gs_http_session_failure_status(const struct gs_http_session *session);

/* Whether the rest of the body is worth discarding, as far as is known now. */
bool gs_http_session_can_discard(const struct gs_http_session *session);

/* Discard the rest of the body. Returns false if it is too long or could not be read. */
bool gs_http_session_discard(struct gs_http_session *session);

/* ---- In response.c ---- */

/* Remove n bytes from the message, and empty pieces behind these. */
void gs_http_advance(struct msghdr *message, size_t n);

/* The date, for a response. One thread, or the home, may ask at a time. */
const char *gs_http_date_now(struct gs_http_connection *connection);

/* The deadline of a call that sends. */
uint64_t gs_http_write_deadline(const struct gs_http_connection *connection);

/* Send "100 Continue". Returns 0 or -errno. */
int gs_http_session_send_continue(struct gs_http_session *session);

/* Respond with the status and its text. */
void gs_http_session_respond_status(struct gs_http_session *session, unsigned status);

/* Complete the response of a handler that has returned. */
void gs_http_session_finish_response(struct gs_http_session *session);

#endif
