/* HTTP servers for applications: a function that answers requests, in blocking code.
 *
 *     static void handle(struct gs_http_exchange *exchange, void *data)
 *     {
 *         if (strcmp(exchange->path, "/hello"))
 *             err = gs_http_respond(exchange, 404, "text/plain", "no such page\n", 13);
 *         else
 *             err = gs_http_respond(exchange, 200, "text/plain", "hello\n", 6);
 *     }
 *     const struct gs_http_server server = {.handler = handle};
 *     err = gs_http_serve(listener, &server);       in a user thread
 *
 * A user thread calls the handler, once for each request. The handler may wait: it reads the body
 * when it wants to, and calls databases with gs_run_blocking. A connection that waits for a request
 * has no thread, and takes some 400 bytes: its thread ends when no further request has arrived, so
 * thread-specific values do not last from one request to the next. HTTP/1.0, HTTP/1.1 and HTTP/2
 * are supported, also over TLS (tls_context.h), which a handler does not notice. Requests are
 * parsed as strictly as those of `gossamer serve`, by the same code: an ambiguous or malformed
 * request is refused before the handler is called (400, 408, 413, 414, 417, 421, 431, 501, 505),
 * and the connection is closed. CONNECT (501) and requests for which there is no memory (503) are
 * refused in the same way.
 *
 * After the handler has returned, the connection serves the next request, unless the client or the
 * response has ended it. If the handler has not read the whole body, the rest is discarded; if that
 * is longer than 256 KiB, the connection is closed instead. A handler that calls gs_thread_exit
 * ends its connection, which is reset if the response is not complete.
 *
 * HTTP/2 is spoken with clients that begin with its preface, over TLS if the context has the
 * protocol "h2". Each request of a connection has a thread of its own, so one that waits holds up
 * no other, and its end never ends the connection: what is said here of the end of a connection is
 * then true of the request's stream. A connection that waits takes some 10 KiB. A library that was
 * built without libnghttp2 speaks only HTTP/1.
 *
 * Threads: these functions are for user threads. An exchange is used by one thread at a time, until
 * its handler returns.
 */
#ifndef GOSSAMER_HTTP_SERVER_H
#define GOSSAMER_HTTP_SERVER_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <gossamer/http_field.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

GS_BEGIN_DECLS

/* ---- The life of an HTTP server ----
 *
 *     err = gs_thread_spawn(NULL, run_gs_http_serve, &listener, &server_thread);
 *     err = gs_wait_signal(SIGTERM, GS_NEVER);
 *     gs_thread_cancel(server_thread);
 *     err = gs_thread_join(server_thread, GS_NEVER, NULL);      when the server has drained
 */

struct gs_http_exchange;
struct gs_tls_context;

/* Called for each request, in a user thread. It should respond; if it returns without a
 * response, the response is 500, or the status that fits a body that could not be read: 400, 408 or
 * 413. */
typedef void gs_http_handler_fn(struct gs_http_exchange *exchange, void *data);

/* All members but the handler may be 0: then the value in parentheses applies. A timeout of
 * GS_NEVER means no limit. header_timeout_ns also limits the wait for a connection's first byte. */
struct gs_http_server {
    gs_http_handler_fn *handler;
    void *data;                 /* for the handler */
    unsigned max_connections;   /* at the same time; others wait to be accepted (10000). While one
                                 * does, a connection that has waited for a request, or for the rest
                                 * of its header, for a second or longer is closed. */
    unsigned max_streams;       /* requests at the same time of one connection of HTTP/2 (100) */
    size_t max_request_line;    /* bytes; above: 414 (8192) */
    size_t max_header;          /* bytes of all fields; above: 431 (32768) */
    unsigned max_fields;        /* above: 431 (100) */
    uint64_t max_body;          /* bytes of a request's body; above: 413 (1 MiB) */
    uint64_t header_timeout_ns; /* from a request's first byte to the end of its header (10 s) */
    uint64_t idle_timeout_ns;   /* between requests (60 s) */
    uint64_t body_timeout_ns;   /* how long reads of one request's body wait in total (60 s) */
    uint64_t write_timeout_ns;  /* for each call that sends to complete (60 s) */
    uint64_t drain_timeout_ns;  /* for open connections when the server ends (10 s) */
    size_t stack_size;          /* of a handler's thread, as in struct gs_thread_attributes */
    struct gs_tls_context *tls; /* serve https, with this context of a server; it stays the
                                 * caller's. The time for a header includes the handshake. Requests
                                 * without TLS are answered with 400. NULL: serve http */
    bool migrates;              /* handlers' threads may run on other workers. A connection waits
                                 * for its next request at one worker, nevertheless. */
};

/* Accept connections and serve them until the calling thread is canceled. listener: a listening
 * stream socket, which stays the caller's; TCP_NODELAY is set on it. If descriptors or memory are
 * exhausted, connections wait to be accepted; one that was accepted already is closed if there is
 * no memory for its thread, also when it has sent a further request. Several threads may serve,
 * with one listener or with several.
 *
 * When the thread is canceled, or the listener fails, the server drains: connections that are
 * pending are accepted, idle ones are closed, and the others get "Connection: close" with their
 * next response, or GOAWAY. After drain_timeout_ns the threads that are left are canceled. The call
 * returns when all connections have been closed and their threads have ended, so a handler must
 * return when its waits return -ECANCELED.
 *
 * Returns 0 after a cancellation, -ENOMEM, -EINVAL (there is no handler, the listener does not
 * listen, or the stack size is invalid), -EBADF (not a descriptor, or gs_close was called
 * meanwhile), or -ENOTSOCK (not a socket). */
GS_API GS_MUST_CHECK int gs_http_serve(int listener, const struct gs_http_server *server);

/* ---- Requests of an HTTP server ----
 *
 *     char name[64];
 *     ssize_t n = gs_http_query_value(exchange->query, "name", name, sizeof name);
 *     const char *type = gs_http_field(exchange, "content-type");
 */

/* A request. The members are valid and unchanged until the handler returns. */
struct gs_http_exchange {
    const char *method; /* "GET"; "CONNECT": WebSocket over HTTP/2 (gs_http_upgrade) */
    /* As it was received, without the query: it begins with a slash, or is "*" for OPTIONS. */
    const char *path;
    const char *query;                  /* after the '?'; NULL: there is none */
    const char *host;                   /* with the port, if one was sent; NULL: HTTP/1.0 */
    const struct gs_http_field *fields; /* in order; no control characters but tabs */
    unsigned field_count;
    unsigned minor_version;  /* 0 or 1, of HTTP/1; 1 with HTTP/2 */
    uint64_t content_length; /* bytes of the body; GS_HTTP_UNKNOWN: they were not announced */
    int fd;                  /* the socket, for getpeername */
    bool is_tls;             /* the URL begins with https */
};

/* Returns the value of the first field of this name, in any case; NULL: there is none. */
GS_API const char *gs_http_field(const struct gs_http_exchange *exchange, const char *name);

/* Decode a path, for instance to compare it: "/a/%62/../c" becomes "a/c", without a slash at either
 * end. Dot segments are resolved, also if they were escaped, so the result never leaves the root. A
 * size of strlen(path) + 1 suffices. Returns the length, without the NUL; -ENAMETOOLONG (out is too
 * small); or -EINVAL (the path does not begin with a slash, is above the root, or contains a
 * malformed escape, an escaped slash or NUL, a backslash, or a control character). */
GS_API GS_MUST_CHECK ssize_t gs_http_decode_path(const char *path, char *out, size_t size);

/* Get the first value of this name from a query, or from a body of the type
 * application/x-www-form-urlencoded; '+' and escapes are decoded. query may be NULL. Returns the
 * length, without the NUL; -ENOENT (no such name), -ENAMETOOLONG (out is too small), or -EINVAL (a
 * malformed escape in this value, or an escaped NUL). */
GS_API GS_MUST_CHECK ssize_t gs_http_query_value(const char *query, const char *name, char *out,
                                                 size_t size);

/* ---- The body of a request ----
 *
 *     while ((n = gs_http_read(exchange, bytes, sizeof bytes)) > 0)
 *         err = append(file, bytes, (size_t)n);
 *
 * Each returns the number of bytes, -EFBIG (the body is longer than max_body), -EPROTO (its chunks
 * are malformed), -ECONNRESET (the connection ended before the body), -ETIMEDOUT, -ECANCELED,
 * -ENOMEM, or another error of recv(2). A client that waits for "100 Continue" gets it at the first
 * call, unless the response has started.
 */

/* Read up to n bytes, as soon as there are some. 0: the end of the body. */
GS_API GS_MUST_CHECK ssize_t gs_http_read(struct gs_http_exchange *exchange, void *bytes, size_t n);

/* Read all of the rest of the body. Returns also -EMSGSIZE if it is longer than n bytes. */
GS_API GS_MUST_CHECK ssize_t gs_http_read_all(struct gs_http_exchange *exchange, void *bytes,
                                              size_t n);

/* ---- Responses of an HTTP server ----
 *
 *     err = gs_http_set_field(exchange, "Cache-Control", "no-store");
 *     err = gs_http_start(exchange, 200, "text/plain", GS_HTTP_UNKNOWN);
 *     while (!err && next_line(line, sizeof line))
 *         err = gs_http_write(exchange, line, strlen(line));
 *
 * The server adds Date, Connection, and the fields that delimit the body. For HEAD, and with the
 * status 304, the body is accepted but not sent, so a handler of GET also handles HEAD.
 */

/* Add a field to the response, before it has started. Fields of the same name are all sent. The
 * fields Connection, Content-Length, Content-Type, Date, Keep-Alive, Proxy-Connection, Trailer,
 * Transfer-Encoding and Upgrade are not the handler's. A line end in a value is refused, because a
 * client or user that provided the value could otherwise forge a response. Returns 0, -EALREADY (it
 * has started), -ENOMEM, -EMSGSIZE (all fields together have more than 64 KiB), or -EINVAL (the
 * name is not a token, or not the handler's; or the value contains a control character other than a
 * tab). */
GS_API GS_MUST_CHECK int gs_http_set_field(struct gs_http_exchange *exchange, const char *name,
                                           const char *value);

/* Take back all fields that were set, before the response has started: for instance those of a
 * response that turns out to be another one. Returns 0, or -EALREADY (it has started). */
GS_API int gs_http_clear_fields(struct gs_http_exchange *exchange);

/* Send a complete response. status: 200 to 599. media_type: of the Content-Type field; NULL: none.
 * Returns 0, -EALREADY (a response has started), -EINVAL (the status or the media type is invalid,
 * or a body was given with 204), -EMSGSIZE (all fields together have more than 64 KiB), -ENOMEM, or
 * an error of gs_http_write. */
GS_API GS_MUST_CHECK int gs_http_respond(struct gs_http_exchange *exchange, unsigned status,
                                         const char *media_type, const void *body, size_t n);

/* Start a response whose body is written with gs_http_write, and which ends when the handler
 * returns. length: of the body in bytes. GS_HTTP_UNKNOWN: the body is sent in chunks, or, to a
 * client of HTTP/1.0, ends with the connection. The head is sent with the first bytes of the body.
 * Returns 0, -EALREADY (a response has started), -EINVAL (the status or the media type is invalid,
 * or a body was given with 204), -EMSGSIZE (all fields together have more than 64 KiB), or -ENOMEM.
 */
GS_API GS_MUST_CHECK int gs_http_start(struct gs_http_exchange *exchange, unsigned status,
                                       const char *media_type, uint64_t length);

/* Send all n bytes as the next part of the body, at once; with n == 0, send the head. Each call is
 * a system call, and a chunk, so a program that writes small pieces should collect them
 * (buffered.h, gs_writer_init_with). A client that has gone is noticed by a write, and by nothing
 * else: a handler that waits for long should write something from time to time. After a send error
 * the connection will be closed, so the handler should return. Returns 0; -EPIPE or -ECONNRESET
 * (the client has gone), -ETIMEDOUT, -ECANCELED, -ENOMEM, or another error of send(2); or, without
 * having sent anything, -EINVAL (no response was started, or it is complete) or -EMSGSIZE (more
 * bytes than the length that was given). */
GS_API GS_MUST_CHECK int gs_http_write(struct gs_http_exchange *exchange, const void *bytes,
                                       size_t n);

/* End the response here, incomplete: the connection is reset, so that the client does not mistake
 * what it has received for the whole. The same happens if the handler has written fewer bytes than
 * the given length. If no response has started, the connection is closed without one. */
GS_API void gs_http_abort(struct gs_http_exchange *exchange);

/* ---- Taking a connection over ----
 *
 *     struct gs_http_upgraded *upgraded;
 *     int err = gs_http_upgrade(exchange, "echo/1", &upgraded);
 *     while (!err && (n = gs_http_upgraded_recv(upgraded, bytes, sizeof bytes, deadline_ns)) > 0)
 *         n = gs_http_upgraded_send_all(upgraded, bytes, n, deadline_ns);
 *
 * A connection that speaks another protocol from now on belongs to the handler's thread, until the
 * handler returns; WebSocket (websocket.h) is built on this. It counts as one of max_connections.
 * The timeouts of struct gs_http_server no longer apply, and it never gives way to another client.
 * A server that drains waits for such connections, too, and cancels their threads after
 * drain_timeout_ns; a program that knows a better time cancels them itself.
 *
 * When the handler returns, the stream to the client is ended, and what the client still sends is
 * discarded until it closes the connection, for at most 5 s of silence. After gs_http_abort, the
 * connection is reset.
 *
 * Over HTTP/2, clients ask for WebSocket with extended CONNECT (RFC 8441), and the handler takes
 * over a stream: all of this concerns the stream, but exchange->fd is the socket of the connection,
 * which has other streams, ends if it takes no bytes for write_timeout_ns, and is closed when
 * drain_timeout_ns is over. A stream counts as one of max_streams.
 *
 * Threads: one thread may receive while another one sends. The other thread must have ended before
 * the handler returns. To end another thread's wait, cancel it, or call shutdown(exchange->fd,
 * SHUT_RDWR), which ends all streams of the connection.
 */

struct gs_http_upgraded;

/* Answer "101 Switching Protocols", with the fields that were set before. The request must be one
 * of HTTP/1.1 that asks for the protocol in its Upgrade field, and its body must have been read; or
 * one of HTTP/2 whose method is CONNECT, and the protocol "websocket": it is answered with 200.
 * Returns 0, -EALREADY (a response has started), -EINVAL (the client has not asked for this
 * protocol, or there is a body that is not read; respond, for instance with 426), -ENOMEM, or an
 * error of gs_http_write, after which the connection will be closed. */
GS_API GS_MUST_CHECK int gs_http_upgrade(struct gs_http_exchange *exchange, const char *protocol,
                                         struct gs_http_upgraded **ret_upgraded);

/* Receive up to n bytes, as soon as there are some. Returns their number, 0 at the end of the
 * stream, -ECONNRESET (the connection, or the stream of HTTP/2, was reset), or another error of
 * gs_recv (io.h), or with TLS of gs_tls_recv. */
GS_API GS_MUST_CHECK ssize_t gs_http_upgraded_recv(struct gs_http_upgraded *upgraded, void *bytes,
                                                   size_t n, uint64_t deadline_ns);

/* Send all n bytes. Returns n, or an error, as gs_send_all (io.h), or with TLS gs_tls_send_all,
 * does. */
GS_API GS_MUST_CHECK ssize_t gs_http_upgraded_send_all(struct gs_http_upgraded *upgraded,
                                                       const void *bytes, size_t n,
                                                       uint64_t deadline_ns);

GS_END_DECLS

#endif
