/* Text that arrives in pieces: whether it is UTF-8 (RFC 3629) so far, and as a whole.
 *
 *     struct gs_websocket_utf8 utf8 = {0};
 *     is_valid = gs_websocket_utf8_check(&utf8, bytes, n) && gs_websocket_utf8_is_complete(&utf8);
 */
#ifndef GS_WEBSOCKET_UTF8_H
#define GS_WEBSOCKET_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gs_websocket_utf8 {
    uint8_t left;      /* bytes of the present character to come */
    uint8_t low, high; /* between which the next of them is */
};

/* Returns false as soon as no continuation could make the text valid. */
bool gs_websocket_utf8_check(struct gs_websocket_utf8 *utf8, const char *bytes, size_t n);

/* Whether the text may end here. */
static inline bool gs_websocket_utf8_is_complete(const struct gs_websocket_utf8 *utf8)
{
    return !utf8->left;
}

#endif
