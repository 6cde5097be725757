/* Internals of a client: its connections by host, and what those of all versions have in common.
 *
 *     take:    slot of the host (in order) --> room on a shared connection (HTTP/2)
 *                                          --> or newest idle connection that is alive --> or dial
 *     release: reusable? --> idle list of the host and of the client --> slot
 *              else      --> close                                   --> slot
 *              (HTTP/2: when the last stream of the connection is released)
 *
 * Invariants, under the client's lock:
 *   1. A host is in the table as long as it has users: calls that use or wait for a connection, and
 *      idle connections.
 *   2. A connection is in both idle lists; or in none, and belongs to one thread, if it is one of
 *      HTTP/1; or in the list of shared ones of its host, and has streams.
 *   3. With max_host_connections, each connection that is not idle has a slot of its host, and a
 *      holder of a slot dials only if the host has no idle connection: so there are never more.
 */
#ifndef GS_HTTP_CLIENT_CLIENT_H
#define GS_HTTP_CLIENT_CLIENT_H

#include "http/response_parser.h"
#include "http/url.h"
#include "http_client/stream.h"

#include <gossamer/list.h>
#include <gossamer/sync.h>

struct gs_http_client_cookies;
struct gs_http_client_http2;
struct gs_tls_engine;

/* ---- Proxies (proxy.c) ---- */

struct gs_http_client_proxy {
    char *address;       /* "HOST:PORT" for gs_dial; NULL: there is none */
    char *authorization; /* the value of a field; NULL: none */
    char *refusal;       /* why it cannot be used, instead of an address; NULL: it can */
};

struct gs_http_client_proxies {
    struct gs_http_client_proxy http, https;
    char *exceptions; /* no_proxy; NULL: none */
};

/* Read the environment. Returns 0 or -ENOMEM; in any case gs_http_client_proxies_done is due. */
GS_MUST_CHECK int gs_http_client_proxies_init(struct gs_http_client_proxies *proxies);
void gs_http_client_proxies_done(struct gs_http_client_proxies *proxies);

/* Returns the proxy for requests to the host; NULL: none. */
const struct gs_http_client_proxy *
gs_http_client_proxy_for(const struct gs_http_client_proxies *proxies, bool is_https,
                         const char *host);

/* Returns whether curl would go without a proxy to the host. */
bool gs_http_client_proxy_is_exception(const char *exceptions, const char *host);

/* ---- The client and its hosts (pool.c) ---- */

struct gs_http_client_host {
    struct gs_http_client_host *next; /* in its bucket */
    unsigned users;
    struct gs_list idle; /* the newest first */
    unsigned idle_count;
    struct gs_list shared; /* connections of HTTP/2 that have streams */
    unsigned stream_limit; /* of a connection, as the server has told last; 0: unknown */
    bool dials_freely;     /* its connections are not shared, as far as is known */
    struct gs_semaphore
        turn; /* to dial, unless it dials freely: others may share that connection */
    struct gs_semaphore slots;
    char key[]; /* "https://HOST:PORT", or "proxy://HOST:PORT" */
};

#define GS_HTTP_CLIENT_BUCKETS 256u /* a power of 2 */

struct gs_http_client {
    struct gs_http_client_options options; /* with the defaults in place of 0 */
    struct gs_http_client_proxies proxies;
    struct gs_http_client_cookies *cookies; /* NULL: none are kept */
    struct gs_mutex cookies_lock;           /* held for no other lock, and across no wait */
    struct gs_mutex lock;
    struct gs_list idle; /* of all hosts, the newest first */
    unsigned idle_count;
    struct gs_http_client_host *buckets[GS_HTTP_CLIENT_BUCKETS];
};

/* Where a request goes. */
struct gs_http_client_route {
    const struct gs_http_url *url;
    const struct gs_http_client_proxy *proxy; /* NULL: none */
    bool is_fresh;                            /* by no connection that was kept */
};

/* A connection. One of HTTP/1 is the stream of one request after the other. */
struct gs_http_client_connection {
    struct gs_http_client_stream stream;
    struct gs_http_client *client;
    struct gs_http_client_host *host;
    struct gs_list in_host, in_client; /* if it is idle */
    uint64_t idle_since_ns;
    int fd;

    /* HTTP/2 */
    struct gs_http_client_http2 *http2; /* NULL: HTTP/1 */
    struct gs_list in_shared;
    unsigned streams; /* that were given out; under the client's lock */

    /* TLS */
    struct gs_tls_engine *engine;           /* NULL: plain */
    bool has_ended;                         /* the peer has ended its stream (close_notify) */
    bool has_chosen_http2;                  /* the server has, by ALPN */
    bool has_left_session;                  /* for later connections to the host */
    struct gs_tls_session *offered_session; /* NULL: none */

    /* Received plaintext that has not been consumed */
    char *input;
    size_t start, end, size;
    int receive_error; /* of a callback that receives; 0: none */

    /* The exchange */
    struct gs_http_response_parser parser;
    struct gs_http_text data; /* of the body, in the input */
    size_t scanned;           /* bytes of the input that belong to the head */
    bool is_chunked;          /* the request's body */
    bool is_watching;         /* sending ends when the response has arrived */
    bool has_sent;            /* the request is complete */
    bool has_failed;
};

/* Get a connection: an idle one, if that may be, or a new one. Returns 0 or -errno, with a text.
 */
GS_MUST_CHECK int gs_http_client_pool_take(struct gs_http_client *client,
                                           const struct gs_http_client_route *route,
                                           uint64_t deadline_ns,
                                           struct gs_http_client_stream **ret_stream);

/* Keep a connection for others, or close it. */
void gs_http_client_pool_give(struct gs_http_client_connection *connection, bool is_reusable);

/* A stream of a connection of HTTP/2 has been released. */
void gs_http_client_pool_leave(struct gs_http_client_connection *connection);

/* ---- Connections (dial.c, transport.c) ---- */

/* Connect, by a tunnel if need be, and make the handshake of TLS. Returns 0 or -errno, with a text.
 */
GS_MUST_CHECK int gs_http_client_dial(struct gs_http_client *client,
                                      const struct gs_http_client_route *route,
                                      struct gs_http_client_host *host, uint64_t deadline_ns,
                                      struct gs_http_client_connection **ret_connection);

/* Close it and free it. Also called when no user threads run. */
void gs_http_client_connection_free(struct gs_http_client_connection *connection);

/* Returns whether an idle connection can be used: nothing has arrived, not even its end. */
bool gs_http_client_is_alive(struct gs_http_client_connection *connection);

/* Make the handshake of TLS. Returns 0 or -errno, with a text. */
GS_MUST_CHECK int gs_http_client_handshake(struct gs_http_client_connection *connection,
                                           const char *host, uint64_t deadline_ns);

/* Send all n bytes. Returns 0 or -errno. */
GS_MUST_CHECK int gs_http_client_transmit(struct gs_http_client_connection *connection,
                                          const void *bytes, size_t n, uint64_t deadline_ns);

/* Receive into the input. Returns 1, 0 at the end of the stream, or -errno. */
GS_MUST_CHECK int gs_http_client_receive(struct gs_http_client_connection *connection,
                                         uint64_t deadline_ns);

static inline size_t gs_http_client_input_n(const struct gs_http_client_connection *connection)
{
    return connection->end - connection->start;
}

/* Remove n bytes from the input, which is freed when it is empty. */
void gs_http_client_input_consume(struct gs_http_client_connection *connection, size_t n);

/* Whether the route may lead to a server of HTTP/2. */
static inline bool gs_http_client_may_speak_http2(const struct gs_http_client *client,
                                                  const struct gs_http_client_route *route)
{
    return route->url->is_https || (client->options.assumes_http2 && !route->proxy);
}

/* ---- HTTP/2 (http2.c, http2_stream.c; http2_missing.c without libnghttp2) ---- */

/* Speak HTTP/2 on the connection. Returns 0, -ENOMEM, or -EPROTONOSUPPORT with a text. */
GS_MUST_CHECK int gs_http_client_http2_start(struct gs_http_client_connection *connection);

/* End it, before the connection is closed. */
void gs_http_client_http2_end(struct gs_http_client_connection *connection);

/* Returns how many streams may be open at the same time; 0: no more may be opened. */
unsigned gs_http_client_http2_limit(const struct gs_http_client_connection *connection);

/* Returns whether the server has told this limit. */
bool gs_http_client_http2_knows_limit(const struct gs_http_client_connection *connection);

/* Returns whether the limit is 0 for ever. */
bool gs_http_client_http2_is_over(const struct gs_http_client_connection *connection);

/* Returns whether an idle connection can be used. */
bool gs_http_client_http2_is_alive(struct gs_http_client_connection *connection);

/* Make a stream for a request. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_http_client_http2_open(struct gs_http_client_connection *connection,
                                            struct gs_http_client_stream **ret_stream);

/* ---- HTTP/1 (http1.c) ---- */

/* Receive what has arrived while the body is sent. Returns 0 to go on, or -EPIPE: there is a
 * response, or none will come. */
GS_MUST_CHECK int gs_http_client_look(struct gs_http_client_connection *connection);

extern const struct gs_http_client_stream_operations gs_http_client_http1;

#endif
