/* Connections of gs_http_serve, and what each worker has of them.
 *
 *     accepted --> served by a thread <--- bytes have arrived; a head is complete or refused
 *                      |      |                                  |
 *                      |      '-- no request is there --> waiting: a resumable of its worker
 *                      v                                         |
 *                    ended <--- timeout, eviction, drain, no memory, end of the stream in a head
 *
 * A connection that waits for a request, or for the rest of a head, has no thread. It is a
 * resumable of one worker, its home: the worker on which its first thread began to run. When bytes
 * arrive, the resumable ends and starts a thread, which receives and serves the requests that are
 * there (session.h), and starts the resumable again. Of a head that is received in parts, the
 * resumable receives the rest before it starts a thread. So a connection always belongs to one
 * thread, or to its home.
 *
 * The home keeps its waiting connections in a list for each kind of wait. All of a list have the
 * same timeout, so a list is in the order of its deadlines, and one timer serves all of them. The
 * first one of a list is also the one that has been silent longest: it gives way to a client that
 * waits for a place.
 *
 * Only the home's kernel thread uses its lists, its timer, and the connections that wait: it runs
 * the resumables of the connections, its keeper, and the timer's callback, one after the other.
 * They need no lock, and what happens at the same time elsewhere comes as a message:
 *
 *   1. Bytes arrive while the keeper or the timer ends a connection. Each of them takes it from its
 *      list, sets its state, and wakes its resumable, which acts by the state alone. An event may
 *      have woken the resumable before: there is one wake-up then, and it finds the same state. The
 *      keeper first looks whether bytes are there, and leaves the connection alone if they are: its
 *      resumable was woken by them, or will be. What arrives after that look is not received, so no
 *      request is cut from its body. After a timeout the keeper finds the connection in no list,
 *      and the resumable receives what has arrived.
 *   2. The server begins to drain while a connection goes from its thread to its home. The phase is
 *      set before the keepers are woken. If the resumable runs before the keeper, the keeper finds
 *      it in a list; if it runs after it, the phase is visible to it, and it ends the connection
 *      unless a part of a head has arrived. A thread need not look at the phase to go on.
 *   3. An event comes while the resumable ends: gs_resumable_unwatch waits for the lock under which
 *      it is notified. The keeper and the timer wake only what is in a list, and the resumable
 *      leaves its list before it ends, on the same kernel thread: nobody wakes it afterwards.
 *   4. The thread runs on another worker before the resumable's function has returned, and starts
 *      the resumable again: that is a message to the home. The function does not use the connection
 *      after the spawn, nor does the runtime use a resumable that has ended.
 *   5. No thread can be spawned: its connection is closed. That frees what the next one needs.
 *   6. The threads are canceled (the time for draining is over) while a resumable spawns one: the
 *      spawn fails, as in 5, or its thread is canceled. The phase has changed before.
 *   7. The last connection ends while the server waits for that, and `sessions` is freed next. Its
 *      last user, a thread, is a member of a scope, or, a resumable, runs on its home before the
 *      keeper does for the last time: the server waits for the scopes, and then for the keepers.
 *   8. In a child of fork, where the caller's worker is the only one, a connection whose home is
 *      another one cannot wait: it is closed (gs_resumable_start returns -EINVAL). So is one
 *      whose home has a timer already, which is of the parent's loop.
 *   9. A client still waits for a place, because the home of the connection that gives way to it is
 *      late. No other connection is chosen until that one is closed, or has bytes after all; unless
 *      it takes so long that its home must be busy with a handler. */
#ifndef GS_HTTP_SERVER_CONNECTION_H
#define GS_HTTP_SERVER_CONNECTION_H

#include "http/date.h"

#include <errno.h>
#include <gossamer/http.h>
#include <gossamer/http_server.h>
#include <gossamer/list.h>
#include <gossamer/loop_timer.h>
#include <gossamer/resumable.h>
#include <gossamer/scope.h>
#include <stdatomic.h>
#include <sys/socket.h>

/* What a connection waits for. For the first two the server closes it when it drains. */
enum gs_http_wait {
    GS_HTTP_WAITS_FIRST, /* for its first byte */
    GS_HTTP_WAITS_NEXT,  /* for the next request */
    GS_HTTP_WAITS_HEAD,  /* for the rest of a head */
    GS_HTTP_WAITS_SEND,  /* HTTP/2: for the client to take what was sent */
    GS_HTTP_WAITS_CLOSE, /* HTTP/2: for the client to answer that it knows of the end */
    GS_HTTP_WAITS,
};

#define GS_HTTP_GIVES_WAY (GS_HTTP_WAITS + 1u)

/* What a worker has of a server: the connections whose home it is. */
struct gs_http_worker {
    _Alignas(64) struct gs_http_sessions *sessions;
    unsigned number;            /* of the worker, from 1 */
    struct gs_resumable keeper; /* runs when the phase has changed, or a client is to give way */
    struct gs_timer timer;      /* active if a connection has a deadline, perhaps too early */
    struct gs_list waiting[GS_HTTP_WAITS];
    struct gs_scope threads; /* of the requests */
    struct gs_thread_attributes attributes;
    /* 0: no connection gives way; GS_HTTP_GIVES_WAY: one does, until it is closed; otherwise the
     * keeper is asked to close one with this kind of wait, counted from 1. */
    atomic_uint eviction;
    /* Since when the first one of each list waits, for evict() in server.c; GS_NEVER: none. */
    _Atomic(uint64_t) since_ns[GS_HTTP_WAITS];

    /* Of HTTP/2 (streams.h). */
    _Atomic(struct gs_http_mail *) mail; /* to its connections, the newest first */
    struct gs_list http2;                /* these */
    void *http2_block;                   /* that their sessions share */
    struct gs_http_counts http2_counts;  /* of their sessions; nobody asks for them */
    int phase;                           /* that they know of */
};

enum gs_http_phase {
    GS_HTTP_SERVING,
    GS_HTTP_DRAINING, /* connections end when they would wait for a request */
    GS_HTTP_CANCELED, /* and for the rest of a head */
    GS_HTTP_STOPPED,  /* there are none */
};

/* What all connections of one call of gs_http_serve share. */
struct gs_http_sessions {
    struct gs_http_server options;          /* with the defaults filled in */
    struct gs_http_options limits;          /* for the parser */
    struct gs_thread_attributes attributes; /* of the threads */
    struct gs_semaphore slots;
    struct gs_scope threads;       /* the first of each connection, which may run on any worker */
    atomic_int phase;              /* enum gs_http_phase */
    atomic_size_t open;            /* connections */
    struct gs_semaphore all_ended; /* posted when there are none any more, unless it serves */
    struct gs_semaphore stopped;   /* posted by each keeper */
    int pid;                       /* not a child's */
    struct gs_http_worker *asked;  /* for the last eviction; NULL: there was none */
    unsigned attempts;             /* to evict again since then */
    unsigned worker_count;
    struct gs_http_worker workers[];
};

enum gs_http_connection_state {
    GS_HTTP_CONNECTION_SERVED,    /* a thread has it, or its resumable has not run yet */
    GS_HTTP_CONNECTION_WAITING,   /* it is in a list of its home */
    GS_HTTP_CONNECTION_TIMED_OUT, /* it was; its resumable will run */
    GS_HTTP_CONNECTION_CLOSING,   /* the same: it gives way, or the server drains */
};

/* A connection, or a stream of HTTP/2, that was taken over. */
struct gs_http_upgraded {
    struct gs_tls *tls;            /* a stream that has the socket; NULL: without TLS */
    struct gs_http_stream *stream; /* of HTTP/2; NULL: it is the whole connection */
};

/* Received bytes that are not consumed yet are in the input buffer, which exists only while there
 * are some. The head is copied out of it, so that the strings of an exchange stay where they are
 * while the body is received. */
struct gs_http_connection {
    struct gs_resumable resumable;
    struct gs_list link;           /* in its home's list */
    struct gs_http_worker *worker; /* its home; NULL: it has none yet */
    struct gs_http_sessions *sessions;
    uint64_t since_ns;             /* since when it waits */
    struct gs_tls_engine *engine;  /* NULL: without TLS, or no thread has had it yet */
    struct gs_http_streams *http2; /* NULL: none yet */
    struct gs_http_upgraded upgraded;
    char *input; /* NULL: no bytes */
    size_t input_start, input_end, input_size;
    size_t scanned;     /* bytes of the input that were searched for the end of a head */
    size_t head_length; /* of the complete head in the input; 0: there is none */
    int fd;
    int received_error;      /* why the bytes that were received are lost: -ENOMEM, -EPROTO */
    unsigned short status;   /* to refuse the request with; 0: none */
    unsigned char state;     /* enum gs_http_connection_state */
    unsigned char waits_for; /* enum gs_http_wait */
    bool is_first;           /* no request has come yet */
    bool has_begun;          /* bytes of the next request have been received */
    bool is_readable;        /* an event has said so; the thread receives */
    bool has_ended;          /* by TLS: the client sends nothing more */
    bool speaks_http2;
    uint32_t date_seconds; /* of date, since 1970; 0: none yet */
    char date[GS_HTTP_DATE_LENGTH];
};

/* ---- In connection.c ---- */

/* Create a connection, which owns fd. Returns NULL if memory is exhausted. */
struct gs_http_connection *gs_http_connection_new(struct gs_http_sessions *sessions, int fd);

/* Free it, and its slot. Its descriptor is closed. Called by a thread. */
void gs_http_connection_free(struct gs_http_connection *connection);

/* The result of looking for a request. */
enum gs_http_progress {
    GS_HTTP_READY,      /* a head is complete, or is to be refused: head_length or status is set */
    GS_HTTP_INCOMPLETE, /* nothing yet */
    GS_HTTP_ENDED,      /* nothing more: the stream has ended, or memory is exhausted */
};

/* Look for a request, without waiting. Called by a thread. */
enum gs_http_progress gs_http_connection_next(struct gs_http_connection *connection);

/* Wait for a request without a thread. The caller gives the connection away. */
void gs_http_connection_wait(struct gs_http_connection *connection);

/* Close and free it, when its resumable has ended. Called on the worker's stack. */
void gs_http_connection_close(struct gs_http_connection *connection);

/* ---- In worker.c ---- */

/* Initialise the workers, and start their keepers. */
void gs_http_workers_start(struct gs_http_sessions *sessions);

/* Enter the phase, and tell the keepers. */
void gs_http_workers_enter(struct gs_http_sessions *sessions, enum gs_http_phase phase);

/* Wait until the keepers have ended. */
void gs_http_workers_stop(struct gs_http_sessions *sessions);

/* A client waits for a place: the connection that has been silent longest gives way to it. Called
 * again and again until there is a place. */
void gs_http_workers_evict(struct gs_http_sessions *sessions);

/* Keep the connection, which waits, in the list of its wait. Called by its home. Returns 0; -ENOMEM
 * (there is no timer); or -ECANCELED (the server ends, or this is a child of fork). */
GS_MUST_CHECK int gs_http_worker_keep(struct gs_http_connection *connection,
                                      enum gs_http_wait waits_for);

/* Remove it from its list. */
void gs_http_worker_remove(struct gs_http_connection *connection,
                           enum gs_http_connection_state state);

/* ---- In input.c ---- */

/* Make room for n more bytes, behind those that are left. Returns false without memory. */
bool gs_http_input_make_room(struct gs_http_connection *connection, size_t n);

/* Receive into the input buffer. Returns 1, although TLS may have no plaintext yet, 0 at the end of
 * the stream, or an error as gs_recv. Called by a thread. */
ssize_t gs_http_input_receive(struct gs_http_connection *connection, uint64_t deadline_ns);

/* The same for a resumable, which does not wait: -EAGAIN. */
ssize_t gs_http_input_receive_now(struct gs_http_connection *connection);

/* Remove n bytes from the start of the input. */
void gs_http_input_consume(struct gs_http_connection *connection, size_t n);

static inline size_t gs_http_input_length(const struct gs_http_connection *connection)
{
    return connection->input_end - connection->input_start;
}

static inline const char *gs_http_input(const struct gs_http_connection *connection)
{
    return connection->input + connection->input_start;
}

/* ---- In tls.c ---- */

/* Create the engine, if there is TLS and none yet. Returns false without memory. Called by a
 * thread. */
bool gs_http_tls_start(struct gs_http_connection *connection);

/* Free the engine, if there is one. Called on the worker's stack. */
void gs_http_tls_free(struct gs_http_connection *connection);

/* Decrypt to the input. Returns 1; or 0 at the end of the stream. Called on the worker's stack. */
ssize_t gs_http_tls_decrypt(struct gs_http_connection *connection, const void *bytes, size_t n);

/* The calls of a stream of TLS, for a connection that was taken over. */
const struct gs_tls_stream_operations *
gs_http_tls_stream(const struct gs_http_connection *connection);

/* Whether the client has sent what is no TLS, or refuses ours: nothing more can be sent. */
static inline bool gs_http_tls_has_failed(const struct gs_http_connection *connection)
{
    return connection->received_error == -EPROTO;
}

/* Whether a thread has to send the rest of the engine's output. */
bool gs_http_tls_has_output(const struct gs_http_connection *connection);
int gs_http_tls_flush(struct gs_http_connection *connection, uint64_t deadline_ns);

/* Encrypt and send without waiting, on the worker's stack. Returns how many bytes were taken, or
 * -errno: -EAGAIN also if what was encrypted before is not sent yet. n may be 0. */
ssize_t gs_http_tls_send_now(struct gs_http_connection *connection, const void *bytes, size_t n);

/* Encrypt and send a message, which is changed; is_end: and the end of the stream. Returns 0 or
 * -errno. Called by a thread. */
int gs_http_tls_send(struct gs_http_connection *connection, struct msghdr *message, bool is_end,
                     uint64_t deadline_ns);

/* End the stream to the client, without waiting: called on the worker's stack, without an engine
 * too. The other one is called by a thread. */
void gs_http_tls_end_now(struct gs_http_connection *connection);
void gs_http_tls_end(struct gs_http_connection *connection, uint64_t deadline_ns);

#endif
