/* Compression of whole bodies.
 *
 *     err = serve_encode(GS_HTTP_IN_BR, bytes, n, &coded);
 */
#ifndef GS_SERVE_ENCODE_H
#define GS_SERVE_ENCODE_H

#include "http/coding.h"

#include <gossamer/api.h>

/* The set of codings that this program was built with. */
unsigned serve_encodings(void);

/* Compress n bytes in a coding of this set. This takes much time, and the stack of a kernel thread.
 * Returns 0, -ENODATA if it saves less than a tenth, or -ENOMEM. */
GS_MUST_CHECK int serve_encode(enum gs_http_coding coding, const char *bytes, size_t n,
                               struct gs_http_coded **ret_coded);

#endif
