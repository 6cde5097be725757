/* Compressing and decompressing messages (RFC 7692, 7.2), each for itself, in parts: other threads
 * can run in between.
 *
 *     struct gs_websocket_coding coding = {.input = compressed, .max = max_message};
 *     while ((err = gs_websocket_code(&coding)) > 0)
 *         let_others_run();
 *     if (!err)
 *         handle(coding.output, coding.n);
 *
 * The state of zlib, of up to 270 KiB, is in use from the first call to the last one; some states
 * are kept for later. Any kernel thread may call these functions. A library that was built without
 * zlib returns -EOPNOTSUPP. */
#ifndef GS_WEBSOCKET_DEFLATE_H
#define GS_WEBSOCKET_DEFLATE_H

#include "http/text.h"

#include <gossamer/api.h>

bool gs_websocket_has_deflate(void);

/* Of a call: some milliseconds. */
#define GS_WEBSOCKET_PART_MAX ((size_t)64 << 10)

struct gs_websocket_coding {
    struct gs_http_text input; /* what is left of it */
    unsigned level, bits;      /* to compress: 1 to 9, and of the window, 9 to 15; 0: decompress */
    size_t max;                /* a message that is decompressed has no more bytes */

    char *output; /* so far; has a NUL behind a message */
    size_t n, size;
    struct gs_websocket_zlib *zlib; /* NULL: it has not begun, or is over */
    bool is_in_tail;
};

/* Code up to so many bytes more, of the input or of the output. Returns 1 if there is more to do;
 * 0: the output is complete, and is the caller's, to be freed; -EMSGSIZE (the message has more than
 * max bytes), -EPROTO (the input is malformed), or -ENOMEM: there is no output. */
GS_MUST_CHECK int gs_websocket_code(struct gs_websocket_coding *coding);

#endif
