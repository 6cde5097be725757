/* Frames of WebSocket (RFC 6455, 5.2): headers, and masking.
 *
 *     const struct gs_websocket_frame frame = {.opcode = GS_WEBSOCKET_OP_TEXT, .is_last = true,
 *                                              .length = n};
 *     size_t header_n = gs_websocket_frame_put(header, &frame);
 */
#ifndef GS_WEBSOCKET_FRAME_H
#define GS_WEBSOCKET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gs_websocket_opcode {
    GS_WEBSOCKET_OP_CONTINUATION = 0,
    GS_WEBSOCKET_OP_TEXT = 1,
    GS_WEBSOCKET_OP_BINARY = 2,
    GS_WEBSOCKET_OP_CLOSE = 8, /* and those above are control frames */
    GS_WEBSOCKET_OP_PING = 9,
    GS_WEBSOCKET_OP_PONG = 10,
};

struct gs_websocket_frame {
    uint8_t opcode;
    bool is_last;       /* of its message */
    bool is_compressed; /* the message is; of its first frame only */
    bool is_masked;
    uint8_t mask[4];
    uint64_t length; /* of the payload */
};

#define GS_WEBSOCKET_HEADER_MAX 14u
#define GS_WEBSOCKET_CONTROL_MAX 125u

/* Returns the length of the header. */
size_t gs_websocket_frame_put(char out[GS_WEBSOCKET_HEADER_MAX],
                              const struct gs_websocket_frame *frame);

/* Mask, or unmask, bytes of a payload that begin at this offset in it. */
void gs_websocket_mask(char *bytes, size_t n, const uint8_t mask[4], uint64_t offset);

/* Whether a close may have this code. */
bool gs_websocket_code_is_valid(unsigned code);

#endif
