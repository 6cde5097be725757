/* What a peer sends after the handshake: frames (RFC 6455, 5), strictly. Without I/O and buffers:
 * payload is unmasked where it was received.
 *
 *     struct gs_websocket_input input = {bytes, n};
 *     while ((event = gs_websocket_parser_next(&parser, &input, SIZE_MAX, &piece)) !=
 *            GS_WEBSOCKET_MORE)
 *         handle(event, &piece);
 *
 *     HEADER --> PAYLOAD --> HEADER ...          of data: pieces, as they come
 *        |  '--> CONTROL --> HEADER ...          of a control frame: kept until it is complete
 *        '-----> FAILED, CLOSED                  nothing follows
 *
 * The result does not depend on how the bytes are split, except for the pieces of data. */
#ifndef GS_WEBSOCKET_PARSER_H
#define GS_WEBSOCKET_PARSER_H

#include "websocket/frame.h"
#include "websocket/utf8.h"

enum gs_websocket_event {
    GS_WEBSOCKET_MORE,  /* all input was consumed */
    GS_WEBSOCKET_BEGIN, /* of a message: `type` and `is_compressed` are known */
    GS_WEBSOCKET_DATA,  /* a piece of it; is_last: and its end */
    GS_WEBSOCKET_PING,  /* with the piece as payload */
    GS_WEBSOCKET_PONG,
    GS_WEBSOCKET_CLOSE,  /* with `code`, and the piece as reason */
    GS_WEBSOCKET_FAILED, /* close with `code`; `failure` says why */
};

/* The caller may read the members before `state`, and sets those of the first line; the others are
 * private. */
struct gs_websocket_parser {
    bool is_server, may_compress;
    uint64_t max_message; /* bytes, as they are received */
    const char *failure;
    uint64_t left; /* of the payload of a frame of data */
    uint16_t code; /* of a close; 0: it has none */
    uint8_t type;  /* of the message: an opcode; 0: there is none */
    bool is_compressed;

    uint8_t state;
    uint8_t opcode; /* of the frame */
    bool is_last;   /* of the message */
    uint8_t mask[4];
    uint8_t phase; /* of the mask, of the next byte of payload */
    struct gs_websocket_utf8 utf8;
    uint8_t kept_n, control_left;
    uint64_t message_n;                  /* including the rest of its last frame so far */
    char kept[GS_WEBSOCKET_CONTROL_MAX]; /* a header, or the payload of a control frame */
};

struct gs_websocket_input {
    char *bytes; /* is changed */
    size_t n;
};

struct gs_websocket_piece {
    const char *bytes; /* of the input, or of the parser: valid until the next call */
    size_t n;
    bool is_last;
};

/* Consume input up to the next event. max: bytes of a piece of data. */
enum gs_websocket_event gs_websocket_parser_next(struct gs_websocket_parser *parser,
                                                 struct gs_websocket_input *input, size_t max,
                                                 struct gs_websocket_piece *ret_piece);

#endif
