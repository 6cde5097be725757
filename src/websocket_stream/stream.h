/* Internals of a WebSocket connection of user threads.
 *
 *     receiver: recv --> input --> parser --> message of the caller        receive.c
 *                                    |
 *                                    '--> pings, a close --> answers --.
 *                                                                       v
 *     senders: frames ------------------------------------------> holder of the mutex     send.c
 *
 * One thread receives, others send, perhaps on other workers. What is sent belongs to the holder of
 * the mutex, for a whole frame at a time. What can happen at the same time:
 *
 *   1. A ping arrives while a sender is in the middle of a frame, and perhaps waits until the peer
 *      reads. The receiver does not wait for it, since the peer may in turn wait until we read. It
 *      leaves the pong in `pong`, and tries the mutex without waiting; so does each holder after it
 *      has released the mutex:
 *
 *          receiver                              sender
 *          --------                              ------
 *          has_pong = 1                          unlock
 *          try the mutex                         has_pong? try the mutex
 *
 *      The mutex and has_pong are changed in one order for all threads: either the receiver gets
 *      the mutex, or its holder sees has_pong. A later ping replaces the payload of a pong that was
 *      not sent (RFC 6455, 5.5.3). pong_mutex is for the payload, and nobody waits with it.
 *   2. The socket has no room for a pong, or a sender has the mutex, and perhaps leaves no room at
 *      the end of its frame: the receiver waits until the socket is readable or writable, so that
 *      two peers that both send do not wait for each other. Whether a window of HTTP/2 has opened
 *      is asked ten times a second: there is no event for it.
 *   3. A close is received, or sent after a failure, while a sender is in the middle of a frame.
 *      The receiver waits for the mutex, for ANSWER_NS at most: nothing is received any more that
 *      would be in the way.
 *   4. A thread sends a close (gs_websocket_shutdown) while another one receives, and a third one
 *      waits for the mutex to send a message. The close sets has_sent_close with the mutex; the
 *      message then is refused with -EPIPE. The receiver gets messages until the peer's close.
 *   5. A send fails within a frame, for instance at its deadline. Nothing more is sent, not even a
 *      close, so that the peer does not take it for a part of the frame: it learns that the
 *      connection was lost. */
#ifndef GS_WEBSOCKET_STREAM_H
#define GS_WEBSOCKET_STREAM_H

#include "http/text.h"
#include "http_server/upgrade.h"
#include "websocket/deflate.h"
#include "websocket/extension.h"
#include "websocket/parser.h"

#include <gossamer/sync.h>
#include <gossamer/websocket.h>
#include <stdatomic.h>

/* How long the receiver waits, at most, to send an answer. */
#define GS_WEBSOCKET_ANSWER_NS (10 * GS_SECOND)

enum gs_websocket_reading {
    GS_WEBSOCKET_READS_NONE,
    GS_WEBSOCKET_READS_WHOLE, /* collects a message */
    GS_WEBSOCKET_READS_KEPT,  /* the caller reads parts of a message that was collected */
    GS_WEBSOCKET_READS_PARTS, /* the caller reads parts as they come */
    GS_WEBSOCKET_READS_REST,  /* discards the rest of one */
};

struct gs_websocket {
    struct gs_http_transport transport;
    char *protocol; /* NULL: none */
    bool is_client;
    uint8_t level; /* of compression; 0: none */
    uint8_t bits;

    /* The receiver's. */
    uint8_t reading; /* enum gs_websocket_reading */
    bool is_pinged;  /* a ping was sent because nothing had been received */
    uint8_t type;    /* of the message */
    bool has_received_close;
    uint16_t end_code;
    int failure; /* what each call that receives returns; 0: none */
    const char *error;
    char *end_reason; /* NULL: none */
    uint64_t keepalive_ns, received_ns;
    size_t max_message;
    char *input; /* NULL: no bytes; is consumed up to input_start */
    size_t input_start, input_end, input_size;
    char *message;
    size_t message_n, message_size, message_start; /* up to the latter, parts were read */
    struct gs_websocket_parser parser;

    /* With the mutex. */
    struct gs_mutex mutex;
    int send_error; /* nothing more can be sent; 0: it can */
    bool has_sent_close;
    bool is_in_parts; /* a message was begun */

    /* A pong to be sent. */
    struct gs_mutex pong_mutex;
    _Atomic(bool) has_pong;
    uint8_t pong_n;
    char pong[GS_WEBSOCKET_CONTROL_MAX];
};

/* ---- In stream.c ---- */

/* Returns NULL without memory. options: may be NULL. */
struct gs_websocket *gs_websocket_new(struct gs_http_transport transport,
                                      const struct gs_websocket_options *options, bool is_client);

/* Set the protocol, and what was agreed on compression. Returns false without memory. */
bool gs_websocket_set_agreed(struct gs_websocket *socket, struct gs_http_text protocol,
                             const struct gs_websocket_agreement *agreement, unsigned level);

/* Code a part of a message on the worker's stack, and then let others of the worker run if there is
 * more to do. Returns as gs_websocket_code. */
GS_MUST_CHECK int gs_websocket_code_part(struct gs_websocket_coding *coding);

/* ---- In transport.c ---- */

/* Whether there is a stream of TLS or of HTTP/2 between the frames and the socket. */
static inline bool gs_websocket_has_stream(const struct gs_websocket *socket)
{
    return socket->transport.tls || socket->transport.stream;
}

ssize_t gs_websocket_recv(struct gs_websocket *socket, void *bytes, size_t n, uint64_t deadline_ns);

/* Receive into the input, which is empty. Returns as gs_recv. */
ssize_t gs_websocket_recv_input(struct gs_websocket *socket, uint64_t deadline_ns);

/* Send a frame's header, at most 139 bytes, and payload. *ret_is_partial: some of it may have been
 * sent although it failed. Returns 0 or -errno. */
int gs_websocket_transmit(struct gs_websocket *socket, struct gs_http_text header,
                          struct gs_http_text payload, uint64_t deadline_ns, bool *ret_is_partial);

/* ---- In send.c ---- */

/* Answer a ping, without waiting. */
void gs_websocket_answer_ping(struct gs_websocket *socket, const char *bytes, size_t n);

/* Send the pong, if there is one and the mutex and the socket are free. Returns whether there is
 * none any more. */
bool gs_websocket_send_pong(struct gs_websocket *socket);

/* Send a ping without payload, if nobody sends. Returns whether it was tried. */
bool gs_websocket_try_ping(struct gs_websocket *socket);

/* Send a close, if none was sent. code: 0: without one. */
GS_MUST_CHECK int gs_websocket_send_close(struct gs_websocket *socket, unsigned code,
                                          struct gs_http_text reason, uint64_t deadline_ns);

#endif
