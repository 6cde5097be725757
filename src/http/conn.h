/* The inside of a connection.
 *
 *            head complete, body announced          body discarded
 *     HEAD ------------------------------> BODY --------------------.
 *      ^ | \                                                        v
 *      | |  `-- page not cached --> LOAD <------ not cached ----- READY
 *      | |      or out of date       |                              |
 *      | `--------- answered --------+------------------------------'
 *      `--------------'              |  not to be kept open, or refused
 *                                    v
 *                                 CLOSING --> LINGER --> CLOSED
 *
 * gs_http_answer makes the transitions out of HEAD and READY, gs_http_conn_settle those behind
 * CLOSING. While a request waits in BODY, LOAD or READY its head stays at the start of the tail,
 * and is parsed again when it is answered: so nothing of a request is stored but its own bytes. */
#ifndef GS_HTTP_CONN_H
#define GS_HTTP_CONN_H

#include "http/chunked.h"
#include "http/request.h"

#include <gossamer/http.h>

enum gs_http_conn_state {
    GS_HTTP_CONN_HEAD,    /* a request's head is awaited */
    GS_HTTP_CONN_BODY,    /* its body is discarded */
    GS_HTTP_CONN_READY,   /* its body is complete; it is answered as soon as the output is empty */
    GS_HTTP_CONN_LOAD,    /* its file is loaded */
    GS_HTTP_CONN_CLOSING, /* no more requests: the output is sent, then the connection ends */
    GS_HTTP_CONN_LINGER,  /* ended for us; what the peer still sends is discarded, lest a reset
                             overtakes the output */
    GS_HTTP_CONN_CLOSED,
};

/* What the deadline is about. */
enum gs_http_conn_phase {
    GS_HTTP_PHASE_NEW,
    GS_HTTP_PHASE_IDLE,
    GS_HTTP_PHASE_HEAD,
    GS_HTTP_PHASE_SENDING,
    GS_HTTP_PHASE_RECEIVING,
    GS_HTTP_PHASE_LOADING,
    GS_HTTP_PHASE_LINGERING,
    GS_HTTP_PHASE_CLOSED,
    GS_HTTP_PHASE_OVER, /* what comes next begins anew, even if it is the same */
};

_Static_assert(sizeof(struct gs_http_chunked) <= sizeof((struct gs_http_conn){0}.body),
               "room for the body's state");

enum {
    GS_HTTP_CONN_PEER_ENDED = 1, /* nothing more will be received */
    GS_HTTP_CONN_DRAINING = 2,   /* the answer under way is the last */
    GS_HTTP_CONN_LINGERS = 4,    /* the peer may still be sending when the output is out */
    GS_HTTP_CONN_SHUT_DOWN = 8,  /* our sending side is */
    GS_HTTP_CONN_CHUNKED = 16,   /* the body that is discarded */
};

enum gs_http_answered {
    GS_HTTP_ANSWERED, /* its answer is in the output; the connection may be closing now */
    GS_HTTP_WAITS,    /* for its body or its file: the state says which */
    GS_HTTP_BLOCKED,  /* until the output is empty */
};

/* Answer a request whose body, if body_done, is complete; load: its complete load, or NULL. */
enum gs_http_answered gs_http_answer(struct gs_http_conn *conn,
                                     const struct gs_http_request *request, bool body_done,
                                     struct gs_http_load *load, uint64_t now_ns);

/* Refuse a request that can't be trusted to end where it seems to, and everything behind it. */
enum gs_http_answered gs_http_refuse(struct gs_http_conn *conn,
                                     const struct gs_http_request *request, unsigned status,
                                     uint64_t now_ns);

/* The bytes received go through these; they leave the rest in the tail. */
void gs_http_input(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns);
void gs_http_input_resume(struct gs_http_conn *conn, uint64_t now_ns);

/* Refuse the request that is at the start of the tail, as far as it has come. */
enum gs_http_answered gs_http_input_refuse(struct gs_http_conn *conn, unsigned status,
                                           uint64_t now_ns);

/* The request at the start of the tail is answered, with its load if it had one. */
void gs_http_input_answer(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns);

void gs_http_conn_free_output(struct gs_http_conn *conn);

#endif
