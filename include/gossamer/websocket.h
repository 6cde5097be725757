/* WebSocket connections (RFC 6455) for user threads: servers and clients.
 *
 *     static void handle(struct gs_http_exchange *exchange, void *data)
 *     {
 *         struct gs_websocket *socket;
 *         struct gs_websocket_message message;
 *         if (gs_websocket_accept(exchange, NULL, &socket))
 *             return;
 *         while (!err && !(err = gs_websocket_receive(socket, &message, GS_NEVER)))
 *             err = gs_websocket_send(socket, message.type, message.bytes, message.n, deadline_ns);
 *         err = gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, NULL, deadline_ns);
 *     }
 *
 * A connection carries messages, which are text or binary, in both directions. What the protocol
 * demands besides is done here: pings are answered, a close of the peer is answered, text is
 * checked to be UTF-8, and a peer that breaks the protocol gets a close with the reason. All this
 * happens in calls that receive, so a program that only sends needs a thread that receives, too: it
 * returns when the connection has ended.
 *
 * Memory: a connection that waits for a message has no buffer; it takes some 550 bytes beside its
 * thread and its socket. Messages can be compressed (permessage-deflate, RFC 7692), each one for
 * itself ("no context takeover"): the large state of the compressor is needed during a call only.
 * Other threads of the worker run while a message of more than 64 KiB is compressed or decompressed.
 *
 * Errors: after an error of the connection, which is any but -ETIMEDOUT and -ECANCELED of a
 * receive, it can only be closed. gs_websocket_error has a text for each.
 *
 * Threads: these functions are for user threads, and deadline_ns is described in thread.h. One
 * thread may receive while others send. Messages that are sent whole are sent one after the other;
 * only one thread may send messages in parts. gs_websocket_close and gs_websocket_abort free the
 * connection, so no other thread may be using it; gs_websocket_shutdown, or
 * shutdown(gs_websocket_fd(socket), SHUT_RDWR), ends the wait of one that receives. With HTTP/2,
 * such a shutdown of the socket ends all streams of its connection.
 */
#ifndef GOSSAMER_WEBSOCKET_H
#define GOSSAMER_WEBSOCKET_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

GS_BEGIN_DECLS

struct gs_http_exchange;
struct gs_http_field;
struct gs_tls_context;
struct gs_websocket;

/* ---- Starting a WebSocket connection ----
 *
 *     const char *const protocols[] = {"chat.v2", "chat.v1"};
 *     const struct gs_websocket_options options = {.protocols = protocols, .protocol_count = 2};
 *     err = gs_websocket_accept(exchange, &options, &socket);
 */

/* All members may be 0: then the value in parentheses applies. The options, and what they point
 * to, need not stay valid after the call that is given them. */
struct gs_websocket_options {
    /* Subprotocols, the preferred first. A server selects the first that the client offers, and
     * none if the client offers none of them. */
    const char *const *protocols;
    unsigned protocol_count;
    size_t max_message; /* bytes of a message that is received, after decompression (1 MiB) */
    /* During a call that receives: if nothing has been received for so long, a ping is sent, and if
     * nothing arrives for as long again, the connection has failed (0: no pings are sent). */
    uint64_t keepalive_ns;
    /* Of compression, 1 (fast) to 9 (small), for messages of 64 bytes and more that are sent whole;
     * the peer may compress, too (0: none). A library that was built without zlib does not
     * compress. */
    unsigned compression;

    /* Of a server. Origins, such as "https://www.example.org", whose pages may connect: a browser
     * tells it, with the user's cookies. "*": any. If there are none, the origin's host and port
     * must be those of the request. Clients that are no browsers send no origin, and are
     * accepted. */
    const char *const *origins;
    unsigned origin_count;

    /* Of a client: fields of its request, such as Origin or Authorization; and the context of TLS
     * (tls_context.h), for wss. */
    const struct gs_http_field *fields;
    unsigned field_count;
    struct gs_tls_context *tls;
};

/* Make the handshake as a server, in the handler of a request (http_server.h) of HTTP/1.1, or of
 * HTTP/2 with the method CONNECT (RFC 8441); fields that were set before are sent. options: may be
 * NULL. If the request is at fault, it is answered here, with 400, 403 (the origin), 405, or 426
 * (another version, or no WebSocket at all), and the handler should return. Returns 0, -EINVAL (the
 * request is none of WebSocket, or a malformed one), -EPERM (a foreign origin), -EALREADY (a
 * response has started), -ENOMEM, or an error of gs_http_write. */
GS_API GS_MUST_CHECK int gs_websocket_accept(struct gs_http_exchange *exchange,
                                             const struct gs_websocket_options *options,
                                             struct gs_websocket **ret_socket);

/* What a text about an error needs, with its NUL. */
#define GS_WEBSOCKET_TEXT_SIZE 320

/* Connect to "ws://HOST[:PORT][/PATH]", or wss, which needs options->tls. Redirects are not
 * followed. options: may be NULL. ret_text: one line with the reason, after an error; NULL: not
 * wanted. Returns 0, -EINVAL (no such URL, a malformed field or protocol, or wss without a
 * context), -EPROTO (the server's answer is none of WebSocket, or TLS has failed), -ECONNREFUSED
 * (also if the server has answered with another status than 101), -ECONNRESET (the connection ended
 * before the answer), -EMSGSIZE (the answer has more than 16 KiB), or an error of gs_dial (net.h),
 * gs_recv and gs_send. */
GS_API GS_MUST_CHECK int gs_websocket_connect(const char *url,
                                              const struct gs_websocket_options *options,
                                              uint64_t deadline_ns,
                                              struct gs_websocket **ret_socket,
                                              char ret_text[GS_WEBSOCKET_TEXT_SIZE]);

/* Returns the subprotocol that was agreed upon; NULL: none. */
GS_API const char *gs_websocket_protocol(const struct gs_websocket *socket);

/* Returns the socket, for getpeername(2) and the like; with HTTP/2 it has other streams, too. */
GS_API int gs_websocket_fd(const struct gs_websocket *socket);

/* ---- Receiving messages ----
 *
 *     while (!(err = gs_websocket_receive(socket, &message, GS_NEVER)))
 *         printf("%s\n", message.bytes);
 *
 * Each call returns -ENODATA if the peer has closed the connection (gs_websocket_end says why);
 * -ECONNRESET (the connection ended without a close, or the peer did not answer a ping), -EPROTO
 * (the peer broke the protocol), -EMSGSIZE (a message is longer than max_message), -ENOMEM,
 * -ETIMEDOUT, -ECANCELED, or another error of gs_recv. -ETIMEDOUT and -ECANCELED lose nothing: the
 * call can be repeated.
 */

enum gs_websocket_type {
    GS_WEBSOCKET_TEXT = 1,
    GS_WEBSOCKET_BINARY = 2,
};

/* bytes: valid until the next call that receives, or frees the connection. A NUL, which does not
 * count, follows them. */
struct gs_websocket_message {
    enum gs_websocket_type type;
    char *bytes;
    size_t n;
};

/* Receive a message. Returns 0 or an error. */
GS_API GS_MUST_CHECK int gs_websocket_receive(struct gs_websocket *socket,
                                              struct gs_websocket_message *ret_message,
                                              uint64_t deadline_ns);

/* Receive a message in parts: wait for its beginning. What was not read of the message before is
 * discarded. Returns 0 or an error.
 *
 *     enum gs_websocket_type type;
 *     err = gs_websocket_next(socket, &type, deadline_ns);
 *     while (!err && (n = gs_websocket_read(socket, bytes, sizeof bytes, deadline_ns)) > 0)
 *         err = write_all(file, bytes, (size_t)n);
 */
GS_API GS_MUST_CHECK int gs_websocket_next(struct gs_websocket *socket,
                                           enum gs_websocket_type *ret_type, uint64_t deadline_ns);

/* Read up to n bytes of the message, n > 0, as soon as there are some; the bytes of a character may
 * be in two parts. A message that is compressed is received whole first. max_message applies, too.
 * Returns their number, 0 at the end of the message, or an error. */
GS_API GS_MUST_CHECK ssize_t gs_websocket_read(struct gs_websocket *socket, void *bytes, size_t n,
                                               uint64_t deadline_ns);

/* ---- Sending messages ----
 * Each call returns 0; -EPIPE (a close was sent, or the peer has closed the connection); -EBUSY (a
 * message that is sent in parts is not complete); -EINVAL (the type or the size is invalid);
 * -ENOMEM, -ETIMEDOUT, -ECANCELED, or another error of gs_send. After -ETIMEDOUT and -ECANCELED a
 * part of the message may have been sent: then every later call returns -EPIPE. Text is not
 * checked to be UTF-8. A call may wait, until the deadline, for another thread that sends.
 */

/* Send a message. */
GS_API GS_MUST_CHECK int gs_websocket_send(struct gs_websocket *socket, enum gs_websocket_type type,
                                           const void *bytes, size_t n, uint64_t deadline_ns);

/* Send a part of a message, and its end if is_last. The type counts for the first part only.
 *
 *     struct gs_websocket_part part = {.type = GS_WEBSOCKET_BINARY, .bytes = bytes};
 *     while (!err && !part.is_last && (n = read_some(file, bytes, sizeof bytes)) >= 0) {
 *         part.n = (size_t)n;
 *         part.is_last = !n;
 *         err = gs_websocket_send_part(socket, &part, deadline_ns);
 *     }
 */
struct gs_websocket_part {
    enum gs_websocket_type type;
    const void *bytes;
    size_t n;
    bool is_last;
};
GS_API GS_MUST_CHECK int gs_websocket_send_part(struct gs_websocket *socket,
                                                const struct gs_websocket_part *part,
                                                uint64_t deadline_ns);

/* Send a ping with up to 125 bytes. The pong is received and dropped. */
GS_API GS_MUST_CHECK int gs_websocket_ping(struct gs_websocket *socket, const void *bytes, size_t n,
                                           uint64_t deadline_ns);

/* ---- Ending a WebSocket connection ---- */

/* Codes of a close (RFC 6455, 7.4.1); a program may use 3000 to 4999, too. */
enum gs_websocket_code {
    GS_WEBSOCKET_NORMAL = 1000,
    GS_WEBSOCKET_GOING_AWAY = 1001, /* the server stops, or the page was left */
    GS_WEBSOCKET_PROTOCOL_ERROR = 1002,
    GS_WEBSOCKET_UNSUPPORTED = 1003, /* the type of the message */
    GS_WEBSOCKET_NO_CODE = 1005,     /* the peer has closed without one; never sent */
    GS_WEBSOCKET_LOST = 1006,        /* the connection ended without a close; never sent */
    GS_WEBSOCKET_MALFORMED = 1007,   /* text that is not UTF-8 */
    GS_WEBSOCKET_POLICY = 1008,
    GS_WEBSOCKET_TOO_LARGE = 1009,
    GS_WEBSOCKET_INTERNAL_ERROR = 1011,
};

/* Send a close: the connection carries no more messages to the peer. The receiver gets those that
 * the peer had sent before, and then -ENODATA, when the peer has answered. code: 0 sends a
 * close without one. reason: up to 123 bytes of UTF-8; may be NULL. Returns 0, also if one was sent
 * before; -EINVAL (no such code, or the reason is invalid), or an error of gs_websocket_send. */
GS_API GS_MUST_CHECK int gs_websocket_shutdown(struct gs_websocket *socket, unsigned code,
                                               const char *reason, uint64_t deadline_ns);

/* Call gs_websocket_shutdown, wait for the peer's close until the deadline, and free the connection
 * in any case. A client's socket is closed then; a server's when the handler has returned. Returns
 * 0, or the first error. */
GS_API int gs_websocket_close(struct gs_websocket *socket, unsigned code, const char *reason,
                              uint64_t deadline_ns);

/* Free the connection without a close: the peer learns that it was lost. NULL is accepted. */
GS_API void gs_websocket_abort(struct gs_websocket *socket);

/* How the peer has ended the connection. The reason is valid UTF-8. */
struct gs_websocket_end {
    unsigned code; /* that it has sent; GS_WEBSOCKET_NO_CODE or GS_WEBSOCKET_LOST; 0: it is open */
    char reason[124]; /* empty: none */
};
GS_API void gs_websocket_end(const struct gs_websocket *socket, struct gs_websocket_end *ret_end);

/* Returns a line on an error of the connection, such as "a frame of the client is not masked";
 * empty: there was none. It is valid as long as the connection. */
GS_API const char *gs_websocket_error(const struct gs_websocket *socket);

GS_END_DECLS

#endif
