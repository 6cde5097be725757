/* Agreeing on permessage-deflate (RFC 7692), without context takeover: what the fields
 * Sec-WebSocket-Extensions say. Each message is compressed for itself, so neither side keeps a
 * window between messages.
 *
 *     struct gs_websocket_agreement agreement = {0};
 *     if (gs_websocket_extension_accept(offers, &agreement))
 *         n = gs_websocket_extension_put(&agreement, answer);
 */
#ifndef GS_WEBSOCKET_EXTENSION_H
#define GS_WEBSOCKET_EXTENSION_H

#include "http/text.h"

#include <stdint.h>

/* The smallest window of zlib's raw format. With a smaller one nothing is compressed, which is
 * always allowed. */
#define GS_WEBSOCKET_BITS_MIN 9

struct gs_websocket_agreement {
    bool is_agreed;
    bool has_server_bits; /* they are part of the offer */
    uint8_t server_bits;  /* of the window with which a server compresses, 8 to 15 */
    uint8_t client_bits;
};

#define GS_WEBSOCKET_EXTENSION_OFFER                                                               \
    "permessage-deflate; client_no_context_takeover; server_no_context_takeover; "                 \
    "client_max_window_bits"

#define GS_WEBSOCKET_EXTENSION_MAX 128

/* As a server: take the first offer of a list that is acceptable. Returns whether there is one. */
bool gs_websocket_extension_accept(struct gs_http_text offers,
                                   struct gs_websocket_agreement *ret_agreement);

/* Write the answer. Returns its length. */
size_t gs_websocket_extension_put(const struct gs_websocket_agreement *agreement,
                                  char out[GS_WEBSOCKET_EXTENSION_MAX]);

/* As a client: read the answer to GS_WEBSOCKET_EXTENSION_OFFER. Returns false if it is none. */
bool gs_websocket_extension_agree(struct gs_http_text answer,
                                  struct gs_websocket_agreement *ret_agreement);

#endif
