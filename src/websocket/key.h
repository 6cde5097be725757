/* The keys of the handshake of WebSocket (RFC 6455, 4). A client sends 16 random bytes in base64,
 * and the server answers with a hash of them: each side thus knows that the other one speaks
 * WebSocket. */
#ifndef GS_WEBSOCKET_KEY_H
#define GS_WEBSOCKET_KEY_H

#include "http/text.h"

#include <stdint.h>

#define GS_WEBSOCKET_KEY 24    /* length of a key */
#define GS_WEBSOCKET_ACCEPT 28 /* length of its answer */

/* Make a key of random bytes. */
void gs_websocket_key(const uint8_t random[16], char out[GS_WEBSOCKET_KEY]);

bool gs_websocket_key_is_valid(struct gs_http_text key);

/* Make the answer to a key, which is valid. */
void gs_websocket_answer(const char key[GS_WEBSOCKET_KEY], char out[GS_WEBSOCKET_ACCEPT]);

#endif
