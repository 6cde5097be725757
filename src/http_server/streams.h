/* HTTP/2 in gs_http_serve: a connection whose first bytes are the client's preface never has a
 * thread again. Its home runs it, as a resumable: only the home's kernel thread touches the
 * session of libnghttp2, the socket, and the TLS engine. Each request has a thread of its own,
 * which calls the handler.
 *
 *     thread of a request (stream.c)             home (stream_calls.c, streams.c)
 *     ------------------------------             --------------------------------
 *     describe the call in the request
 *     push a mail to the worker's list,
 *     wake the worker's keeper    --------->     the keeper takes the list, makes the calls as far
 *     wait for the answer                        as possible, and wakes the connections
 *             <--- answer ------------------     at once, or when bytes or a window have arrived
 *                                                the connection builds frames, and sends them
 *
 * A request is the home's memory. Its thread has it between the spawn and its last mail, END; what
 * it has written before a mail is the home's from then on, until the answer. Each mail but END is
 * answered exactly once, so nothing of the thread's stack is in use afterwards. A stream that was
 * taken over (upgrade.c) may have two calls at a time: one thread reads while another one writes.
 *
 *   1. The client resets the stream, or the connection fails, before END: libnghttp2's stream is
 *      gone, the request is left. A pending call is answered, later ones fail at once.
 *   2. END comes first: libnghttp2's stream is left, and forgets the request. Its source of data
 *      then fails, which resets the stream.
 *   3. A call's deadline passes, or its thread is canceled, while the home answers it: the thread
 *      sends a second mail, the withdrawal, and waits for both answers. Mails arrive in the order
 *      in which they were sent. The home answers the call, unless it has, and then the withdrawal.
 *   4. The home frees the request, and the connection with its last one, while the thread returns
 *      from pushing END: the thread wakes the keeper, which is the worker's. A worker outlives all
 *      threads: the server waits for them before it stops the keepers.
 *   5. The keeper wakes a connection: only the home ends and frees connections, and one with a
 *      request is not ended.
 *   6. The server begins to drain: the phase is set before the keepers are woken, and a keeper
 *      wakes all connections of HTTP/2. One that comes later sees the phase. One that has looked at
 *      it before, and would wait for a request, is refused by its list, and looks again.
 *   7. A request follows the answer to the PING, before the second GOAWAY is sent: it is refused,
 *      since that GOAWAY does not name it.
 *   8. The client has ended its side while a call waits for a window: none will open, so all calls
 *      that write fail once what can be sent is sent.
 *   9. A child of fork has neither keeper nor connection: each call fails there (-ECONNRESET). */
#ifndef GS_HTTP_SERVER_STREAMS_H
#define GS_HTTP_SERVER_STREAMS_H

#include "http_server/connection.h"
#include "http_server/session.h"

enum gs_http_call {
    GS_HTTP_CALL_NONE,
    GS_HTTP_CALL_READ,
    GS_HTTP_CALL_WRITE,
    GS_HTTP_CALL_CONTINUE,
    GS_HTTP_CALL_ROOM,
    GS_HTTP_CALL_END, /* of the thread */
};

struct gs_http_mail {
    struct gs_http_mail *next;
    struct gs_http_stream *stream;
};

/* A call, which the thread describes before its mail. */
struct gs_http_stream_call {
    struct gs_http_mail mail, withdrawal;
    struct gs_semaphore answered;
    enum gs_http_call what;
    enum gs_http_call pending; /* the home's: the call that is to be answered */
    int withdrawn;             /* why */
    union {
        void *into;
        const char *bytes;
    };
    size_t n; /* left */
    ssize_t result;
};

/* A request. */
struct gs_http_stream {
    struct gs_http_stream_call reading, writing; /* all other calls are of the second one */
    struct gs_list link;                         /* in the list of its connection */
    struct gs_list head_link; /* in that of responses to be given to libnghttp2 */
    struct gs_http_connection *connection;
    struct gs_http_worker *worker;   /* the home */
    struct gs_http2_stream *http2;   /* libnghttp2's; NULL: it is closed */
    const struct gs_http_head *head; /* of the response, in the call that sends it */
    bool is_last;                    /* the response is complete after the call */
    bool is_sent;                    /* the end of the response was given to libnghttp2 */
    bool is_connect;                 /* it asks for WebSocket (RFC 8441) */
    struct gs_http_upgraded upgraded;

    /* The body, as far as it was received and not read. */
    char *body;
    size_t body_start, body_end, body_size;
    bool has_body, body_is_complete;

    unsigned short status; /* to refuse the request with; 0: none */
    size_t request_n;
    char request[]; /* its head, as in HTTP/1.1 */
};

/* ---- In stream.c, for the thread ---- */

/* A gs_scope_fn: serve the request. */
int gs_http_stream_run(void *stream);

/* Read from the body. Returns as recv, but 0 only at its end. */
ssize_t gs_http_stream_read(struct gs_http_stream *stream, void *bytes, size_t n,
                            uint64_t deadline_ns);

/* What the head of a response consists of. */
struct gs_http_head {
    unsigned status;
    bool has_length, has_body;
    uint64_t length;
    const char *fields; /* lines, as in HTTP/1.1 */
    size_t fields_n;
};

/* Write to the response; head: NULL: it was sent. Returns 0 or -errno. */
int gs_http_stream_write(struct gs_http_stream *stream, const struct gs_http_head *head,
                         struct gs_http_text body, bool is_last);

int gs_http_stream_continue(struct gs_http_stream *stream);

/* Of a stream that was taken over. Returns n or -errno. */
ssize_t gs_http_stream_send(struct gs_http_stream *stream, const void *bytes, size_t n,
                            uint64_t deadline_ns);

/* Whether the windows are open for n bytes; also if the stream is closed. */
bool gs_http_stream_has_room(struct gs_http_stream *stream, size_t n);

/* ---- In streams.c and stream_calls.c, for the home; in streams_missing.c without libnghttp2 ----
 */

/* Whether the head in the input is the preface of HTTP/2: the connection speaks that from now on.
 * Called by a thread. */
bool gs_http_streams_detect(struct gs_http_connection *connection);

/* Advance a connection of HTTP/2. Called by its resumable. */
void gs_http_streams_resume(struct gs_http_connection *connection);

/* Make the calls that were sent to the worker. */
void gs_http_streams_deliver(struct gs_http_worker *worker);

/* Wake all connections of HTTP/2. */
void gs_http_streams_wake(struct gs_http_worker *worker);

#endif
