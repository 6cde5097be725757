/* Internals of a connection.
 *
 *            head complete, body announced          body discarded
 *     HEAD ------------------------------> BODY --------------------.
 *      ^ | \                                                        v
 *      | |  `-- page not in cache --> LOAD <-- not in cache ----- READY
 *      | |      or not fresh           |                            |
 *      | `------- response built ------+----------------------------'
 *      `---------------'               |  no keep-alive, or refused
 *                                      v
 *                                   CLOSING --> LINGER --> CLOSED
 *
 * gs_http_handle makes the transitions out of HEAD and READY, settle() in conn.c those out of
 * CLOSING. While a request waits in BODY, LOAD or READY its head stays at the start of the input
 * buffer, and is parsed again when the request is handled: so nothing but its own bytes is stored
 * for a request. */
#ifndef GS_HTTP_CONN_H
#define GS_HTTP_CONN_H

#include "http/chunked.h"
#include "http/request.h"

#include <gossamer/http.h>

enum gs_http_conn_state {
    GS_HTTP_CONN_HEAD,    /* waiting for the head of a request */
    GS_HTTP_CONN_BODY,    /* its body is being discarded */
    GS_HTTP_CONN_READY,   /* its body is complete; it is handled as soon as the output is empty */
    GS_HTTP_CONN_LOAD,    /* its file is being loaded */
    GS_HTTP_CONN_CLOSING, /* no more requests are handled; the connection ends after the output */

    /* Lingering close (RFC 9112, 9.6): our side is shut down, and what the peer still sends is
     * discarded, because a reset might overtake the output. */
    GS_HTTP_CONN_LINGER,
    GS_HTTP_CONN_CLOSED,
};

/* What the deadline limits. */
enum gs_http_conn_phase {
    GS_HTTP_PHASE_NEW,
    GS_HTTP_PHASE_IDLE,
    GS_HTTP_PHASE_HEAD,
    GS_HTTP_PHASE_SENDING,
    GS_HTTP_PHASE_RECEIVING,
    GS_HTTP_PHASE_LOADING,
    GS_HTTP_PHASE_DRAINING, /* HTTP/2: the peer was told to open no more streams */
    GS_HTTP_PHASE_LINGERING,
    GS_HTTP_PHASE_CLOSED,
    GS_HTTP_PHASE_RESTART, /* the next phase sets a new deadline even if it is the same phase */
};

/* In conn->body, while it lingers. */
struct gs_http_lingering {
    uint64_t end_ns; /* at the latest */
    uint64_t queued; /* when the last window ended; UINT64_MAX: it is the first */
};

_Static_assert(sizeof(struct gs_http_lingering) <= sizeof((struct gs_http_conn){0}.body),
               "room for the end");
_Static_assert(sizeof(struct gs_http_chunked) <= sizeof((struct gs_http_conn){0}.body),
               "room for the body's state");

enum {
    GS_HTTP_CONN_EOF = 1,         /* the peer has shut down its sending side */
    GS_HTTP_CONN_DRAINING = 2,    /* the next response is the last */
    GS_HTTP_CONN_MUST_LINGER = 4, /* a response was the last: the peer may send on */
    GS_HTTP_CONN_SHUT_DOWN = 8,   /* our sending side is shut down */
    GS_HTTP_CONN_CHUNKED = 16,    /* the body being discarded is chunked */
    GS_HTTP_CONN_REDIRECT = 32,   /* all requests are redirected to https */
    GS_HTTP_CONN_HTTP2 = 64,      /* the preface of HTTP/2 was received */
    GS_HTTP_CONN_NOT_HTTP1 = 128, /* it must be */
};

enum gs_http_handled {
    GS_HTTP_HANDLED, /* its response is in the output; the connection may be closing now */
    GS_HTTP_WAITING, /* for its body or its file, depending on the state */
    GS_HTTP_BLOCKED, /* until the output is empty */
    GS_HTTP_CROWDED, /* HTTP/2: until other files were sent, or there are more descriptors */
};

/* ---- In conn.c ---- */

/* Make the transitions that need no event, then compute the deadline and the wanted operations; of
 * HTTP/2 those out of CLOSING only. */
void gs_http_conn_settle(struct gs_http_conn *conn, uint64_t now_ns);

/* Set the deadline, unless it is the same phase. */
void gs_http_conn_enter_phase(struct gs_http_conn *conn, enum gs_http_conn_phase phase,
                              uint64_t now_ns);

/* Returns how many bytes of output are left if these are the connection's last; 0: others may
 * follow. */
uint64_t gs_http_conn_last_bytes(const struct gs_http_conn *conn);

/* End it without another byte of HTTP, since what carries it has failed: lingering close, in which
 * the transport may tell the peer the reason. Output is dropped. */
void gs_http_conn_linger(struct gs_http_conn *conn, uint64_t now_ns);

/* ---- In conn_rate.c ---- */

/* Of a peer that sends on, or takes the rest, after its last response. */
#define GS_HTTP_LINGER_WINDOW_NS (5 * GS_SECOND)

static inline struct gs_http_lingering *gs_http_conn_lingering(struct gs_http_conn *conn)
{
    return (struct gs_http_lingering *)conn->body;
}

/* Returns whether a transfer was fast enough in its window; if so, another window starts. If more
 * bytes are queued than were sent in the window, some of them are from an earlier one and would
 * make the count too small: then the window is not judged. */
bool gs_http_conn_is_fast_enough(struct gs_http_conn *conn, uint64_t queued, uint64_t now_ns);

/* Returns whether the peer sent enough in the window, or took enough of what is still queued; if
 * so, another window starts. How much was queued at first is not known: so the first window is
 * enough for a peer that has not taken all. */
bool gs_http_conn_may_linger_on(struct gs_http_conn *conn, uint64_t queued, uint64_t now_ns);

/* ---- In handle.c ---- */

/* Handle a request; its body is complete if body_done. load: its complete load, or NULL. */
enum gs_http_handled gs_http_handle(struct gs_http_conn *conn,
                                    const struct gs_http_request *request, bool body_done,
                                    struct gs_http_load *load, uint64_t now_ns);

/* Look up the page that the service's `wanted` is for. Returns whether it can be sent as it is. */
bool gs_http_find_page(struct gs_http_service *service, uint64_t now_ns);

/* Returns whether a page of the cache may be sent as it is. If it has changed, wanted.changed is
 * set, so that it need not be compared again. */
bool gs_http_is_ready(struct gs_http_service *service, struct gs_http_page *page, uint64_t now_ns);

/* Whether a page may be sent although it could not be validated; NULL is accepted. */
bool gs_http_is_usable_on_error(const struct gs_http_page *page, uint64_t now_ns);

/* Start the load of what `wanted` is for. Returns false if it is NULL, because
 * memory is exhausted. */
bool gs_http_start_load(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns);

/* ---- In substitute.c: what a site sends in place of what is missing, or refused ----
 * GS_HTTP_HANDLED: `wanted` has the status and the page to respond with, which may be NULL; or a
 * load has started; or the output must be empty for that. */

/* The status of a page is an error's. */
#define GS_HTTP_AS_ERROR 0x1000u

/* A request that is refused with this status. */
enum gs_http_handled gs_http_substitute_error(struct gs_http_conn *conn, unsigned status,
                                              uint64_t now_ns);

/* What `wanted` is for, which is not in the cache: a redirect, with which GS_HTTP_HANDLED is
 * returned, or the load of a page with a clean URL. GS_HTTP_BLOCKED: it is neither. */
enum gs_http_handled gs_http_substitute_path(struct gs_http_conn *conn,
                                             const struct gs_http_request *request,
                                             uint64_t now_ns);

/* A load that is complete. */
enum gs_http_handled gs_http_substitute_load(struct gs_http_conn *conn,
                                             const struct gs_http_load *load, uint64_t now_ns);

/* Refuse a request whose end cannot be determined reliably, and all input behind it. */
enum gs_http_handled gs_http_refuse(struct gs_http_conn *conn,
                                    const struct gs_http_request *request, unsigned status,
                                    uint64_t now_ns);

/* ---- In record.c ---- */

/* Write the access log of the responses that have been sent, or of all responses. */
void gs_http_flush_log(struct gs_http_conn *conn, bool all);

/* Tell the access log that there is no memory for a response's line. */
void gs_http_lose_log_line(const struct gs_http_conn *conn);

/* Of all connections of the service, those of HTTP/1 that were promised keep-alive stay open when
 * they drain: the client hears of it with its next response, for whose request, which may be on its
 * way, there are GS_HTTP_PATIENCE_NS. */
#define GS_HTTP_PATIENCE_NS (5 * GS_SECOND)
void gs_http_conn_set_patient(struct gs_http_conn *conn);

#endif
