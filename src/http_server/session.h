/* Internals of a session: a connection of gs_http_serve, and its current request.
 *
 *     gs_http_session_run                         session.c
 *       .-> read the head, refuse it, or wait     head.c
 *       |   call the handler                      gs_http_read: body.c; gs_http_respond: response.c
 *       '-- finish the response, discard the rest of the body
 *     close, after a lingering one if the client may still be sending
 *
 * Received bytes that are not consumed yet are in the input buffer, which exists only while there
 * are some: an idle connection has its session and its thread. The head is copied out of it, so
 * that the strings of an exchange stay where they are while the body is received. */
#ifndef GS_HTTP_SERVER_SESSION_H
#define GS_HTTP_SERVER_SESSION_H

#include "http/chunked.h"
#include "http/date.h"

#include <gossamer/http.h>
#include <gossamer/http_server.h>
#include <gossamer/list.h>
#include <gossamer/scope.h>
#include <stdatomic.h>

/* A rest of a body that is longer than this is not discarded. */
#define GS_HTTP_SERVER_DISCARD_MAX (256 << 10)

/* What all sessions of one call of gs_http_serve share. */
struct gs_http_sessions {
    struct gs_http_server options;          /* with the defaults filled in */
    struct gs_http_options limits;          /* for the parser */
    struct gs_thread_attributes attributes; /* of the threads */
    struct gs_semaphore slots;
    struct gs_scope threads;
    atomic_bool is_draining;

    struct gs_mutex lock;
    struct gs_list list;
};

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

/* Whose decision it is what becomes of a session's input. */
enum gs_http_input_owner {
    GS_HTTP_INPUT_BUSY,    /* the session's: it receives a request, or handles one */
    GS_HTTP_INPUT_IDLE,    /* nobody's: the session waits for a request, and receives nothing */
    GS_HTTP_INPUT_HEAD,    /* the same, for the rest of a request's head */
    GS_HTTP_INPUT_DRAINED, /* end_input()'s, until the sessions' lock is released */
    GS_HTTP_INPUT_ENDED,   /* nobody's any more: what arrives is not received */
};

struct gs_http_session {
    struct gs_http_exchange exchange;
    struct gs_http_sessions *sessions;
    struct gs_list link;
    struct gs_cleanup cleanup;
    atomic_int input_owner;     /* enum gs_http_input_owner */
    _Atomic(uint64_t) since_ns; /* since when it waits for a head; set before input_owner */
    bool is_first;              /* no request has come yet */
    bool must_linger;           /* a response was the last: the client may send on */

    char *input; /* NULL: no bytes */
    size_t input_start, input_end, input_size;
    int received_error; /* why the bytes that were received are lost: -ENOMEM */

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
    char *fields;           /* of the handler, as they are sent */
    size_t fields_length, fields_size;
    char start[128], end[128]; /* of the head, before and after the fields */
    size_t start_length, end_length;
    int64_t date_seconds; /* of date; -1: none yet */
    char date[GS_HTTP_DATE_LENGTH];
};

static inline struct gs_http_session *gs_http_session_of(struct gs_http_exchange *exchange)
{
    return gs_container_of(exchange, struct gs_http_session, exchange);
}

/* ---- In session.c ---- */

/* Create the session of a connection, which it closes at its end. Returns NULL if memory is
 * exhausted. */
struct gs_http_session *gs_http_session_new(struct gs_http_sessions *sessions, int fd);

/* A gs_scope_fn: serve the connection, and free its session. */
int gs_http_session_run(void *argument);

/* ---- In input.c ---- */

/* Receive into the input buffer. Returns the number of bytes, 0 at the end of the stream, or an
 * error as gs_recv. */
ssize_t gs_http_session_receive(struct gs_http_session *session, uint64_t deadline_ns);

/* Remove n bytes from the start of the input. */
void gs_http_session_consume(struct gs_http_session *session, size_t n);

static inline size_t gs_http_session_input_length(const struct gs_http_session *session)
{
    return session->input_end - session->input_start;
}

/* ---- In head.c ---- */

/* Wait for the next request, and set up its exchange. Returns 0; a status, to refuse it with; or
 * -errno if there is none (-EPIPE: the connection has ended, or should end). */
int gs_http_session_read_head(struct gs_http_session *session);

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

/* Send "100 Continue". Returns 0 or -errno. */
int gs_http_session_send_continue(struct gs_http_session *session);

/* Respond with the status and its text. */
void gs_http_session_respond_status(struct gs_http_session *session, unsigned status);

/* Complete the response of a handler that has returned. */
void gs_http_session_finish_response(struct gs_http_session *session);

#endif
