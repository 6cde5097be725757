/* Connections of HTTP/2: many requests at the same time, of threads of any workers.
 *
 *     threads of requests (http2_stream.c)         connection (http2.c)
 *     ------------------------------------         --------------------
 *     lock, describe the request,
 *     flush: send what the socket takes,  ------>  engine (http2/client.h), TLS, socket: under the
 *     and wait:                                    connection's lock, and never waited for there
 *       nobody drives: drive                       the driver alone waits for the socket, unlocked;
 *       else:          follow                      what has arrived is for all: it wakes followers
 *     unlock
 *
 * There is no thread of the connection's: a thread that waits for its own response waits for the
 * socket on behalf of all, and when it leaves, it wakes another one that waits, which goes on. An
 * idle connection has neither a thread nor a stack, so it does not prolong gs_threads_run. Nobody
 * receives while nobody waits: what the server sends then stays in the kernel.
 *
 *   1. If threads wait, there is a driver, or one of them has been woken and will find that there
 *      is none. A thread that stops waiting, for any reason, wakes another one unless there is a
 *      driver. A signal that comes when its thread's deadline has just passed is lost;
 *      that thread then does the same.
 *   2. What is to be sent goes to the socket at once, by the thread that has caused it. If the
 *      socket is full, the driver has to wait for that, too: unless it does, it is woken by the
 *      channel. So it is if what another thread has sent was the driver's own body, or if that
 *      thread has found that the connection is lost. Without a driver nobody waits, and the next
 *      thread that does sees the output.
 *   3. A stream belongs to its thread, and is in the engine from the request to on_end or to
 *      release. on_end is called under the lock, by any thread, and uses the stream no more after
 *      the lock is released: the stream's thread needs the lock before it frees the stream.
 *   4. A deadline or a cancellation ends the wait of one thread. It resets its stream when the
 *      response is released, and nothing else.
 *   5. The connection is lost, or the server violates HTTP/2: all streams end, with the error, and
 *      are woken. The connection has no more room, so the pool gives it to nobody else; the last
 *      stream that is released closes it (pool.c). It may have been given to a thread that has not
 *      made its request yet: that is refused, as unprocessed.
 *   6. GOAWAY: the engine ends the streams that the server has not processed, and the connection
 *      has no more room. The others end as usual, the last of them as in 5.
 *   7. A response is being released while the driver, another thread, receives for its stream: the
 *      engine forgets the stream under the lock, and drops what comes for it. */
#ifndef GS_HTTP_CLIENT_HTTP2_H
#define GS_HTTP_CLIENT_HTTP2_H

#include "http2/client.h"
#include "http_client/client.h"

struct gs_http_client_http2_stream;

/* Bytes that are not consumed; without memory while there are none. */
struct gs_http_client_http2_buffer {
    char *bytes;
    size_t start, end, size;
};

struct gs_http_client_http2 {
    struct gs_http2_client engine;
    struct gs_http_client_connection *connection;
    GS_ATOMIC_MEMBER(uint32_t) limit;   /* of streams at the same time; 0: no more may start */
    GS_ATOMIC_MEMBER(bool) knows_limit; /* it is the server's, not a guess */
    GS_ATOMIC_MEMBER(bool) is_over;     /* the limit stays 0 */

    struct gs_mutex lock; /* for what follows, the engine, and the connection's TLS and input */
    struct gs_list followers;
    struct gs_http_client_http2_stream *driver; /* which waits for the socket; NULL: none does */
    bool driver_writes;                         /* it waits also until the socket takes more */
    struct gs_channel *kick;                    /* wakes the driver */
    bool is_kicked;                             /* it has an item for the driver */
    int err;                                    /* of the connection; 0: none */
    bool is_suspect;                            /* nothing has arrived for a request, nor since */
    bool has_served;
    bool is_encrypting_late;                   /* TLS must receive before it can send */
    uint64_t received_ns;                      /* when something has arrived last */
    struct gs_http_client_http2_buffer output; /* frames to be sent */
};

/* A request and its response. */
struct gs_http_client_http2_stream {
    struct gs_http_client_stream stream;
    struct gs_http2_client_stream request;
    struct gs_http_client_http2 *http2;
    struct gs_list link; /* of followers */
    struct gs_cond changed;
    uint64_t sent_ns;

    /* The part of the request's body that is to be sent next. */
    const char *part;
    size_t part_n;
    bool is_last, has_sent; /* the part ends the body; the end was sent */

    /* The response: its fields are strings, name and value in turn. */
    bool is_head, has_head, has_ended;
    int err; /* of the end */
    unsigned field_count;
    uint64_t content_length;
    struct gs_http_client_http2_buffer fields, arriving;
    struct gs_http_client_http2_buffer reading; /* the thread's own, without the lock */
};

extern const struct gs_http2_client_user gs_http_client_http2_user;

/* ---- In http2.c, with the lock ---- */

/* The connection is lost: end all streams. */
void gs_http_client_http2_fail(struct gs_http_client_http2 *http2, int err);

/* Send what the socket takes. */
void gs_http_client_http2_flush(struct gs_http_client_http2 *http2);

/* Wait until is_done, while the connection is driven by this thread or by another one. Returns 0,
 * -ETIMEDOUT, -ECANCELED, or -ENOMEM. */
GS_MUST_CHECK int
gs_http_client_http2_wait(struct gs_http_client_http2_stream *stream,
                          bool (*is_done)(const struct gs_http_client_http2_stream *stream),
                          uint64_t deadline_ns);

/* Something of the stream has changed. */
void gs_http_client_http2_wake(struct gs_http_client_http2_stream *stream);

/* Start no more requests until something arrives: a request has ended without having got a sign of
 * life, so the server, or the path to it, may be dead. */
void gs_http_client_http2_suspect(struct gs_http_client_http2 *http2);

/* Append bytes. Returns whether there was memory. */
bool gs_http_client_http2_append(struct gs_http_client_http2_buffer *buffer, const void *bytes,
                                 size_t n);

#endif
