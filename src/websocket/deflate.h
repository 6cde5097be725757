/* Compressing messages (RFC 7692, 7.2), each for itself. The state of zlib, of up to 270 KiB, is
 * in use during a call only: there are as many as calls at the same time, and they are kept.
 *
 *     compressed = (struct gs_http_text){bytes, n};
 *     if (!gs_websocket_inflate(compressed, max_message, &message, &message_n))
 *         handle(message, message_n);
 *
 * Any kernel thread may call these. A library that was built without zlib returns -EOPNOTSUPP. */
#ifndef GS_WEBSOCKET_DEFLATE_H
#define GS_WEBSOCKET_DEFLATE_H

#include "http/text.h"

#include <gossamer/api.h>

bool gs_websocket_has_deflate(void);

/* level: 1 to 9; bits: of the window, 9 to 15. The result is the caller's, to be freed. Returns 0
 * or -ENOMEM. */
GS_MUST_CHECK int gs_websocket_deflate(struct gs_http_text message, unsigned level, unsigned bits,
                                       struct gs_http_text *ret_compressed);

/* The same in the other direction; a NUL follows the message. Returns 0, -EMSGSIZE (it has more
 * than max bytes), -EPROTO (it is malformed), or -ENOMEM. */
GS_MUST_CHECK int gs_websocket_inflate(struct gs_http_text compressed, size_t max,
                                       char **ret_message, size_t *ret_n);

#endif
