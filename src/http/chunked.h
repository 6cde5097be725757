/* Decoder of the chunked transfer coding (RFC 9112, 7.1). It finds the data and the end of a body.
 *
 *     struct gs_http_chunked chunked;
 *     gs_http_chunked_init(&chunked);
 *     ssize_t consumed = gs_http_chunked_decode(&chunked, bytes, n, &done);
 *
 * The input may be split anywhere. The grammar is enforced strictly: implementations that disagree
 * about the end of a body disagree about which bytes are the next request (request smuggling).
 */
#ifndef GS_HTTP_CHUNKED_H
#define GS_HTTP_CHUNKED_H

#include "http/text.h"

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GS_HTTP_CHUNK_EXTENSIONS_MAX 4096
#define GS_HTTP_CHUNK_TRAILER_MAX 8192

/* left: remaining data bytes of this chunk; total: data bytes consumed so far. The other members
 * are private. */
struct gs_http_chunked {
    uint64_t left, total;
    uint16_t extension_bytes, trailer_bytes;
    uint8_t state, digits;
};

void gs_http_chunked_init(struct gs_http_chunked *chunked);

/* Consume up to n bytes. Returns the number of bytes consumed, which is less than n only if the
 * body ends before, and then *ret_done is true. Returns -EPROTO, also for every later call, if the
 * input violates the grammar (white space before the size, a bare LF or CR, a control character, a
 * folded line) or a limit: 16 digits of a size, 2^63 - 1 bytes of data,
 * GS_HTTP_CHUNK_EXTENSIONS_MAX bytes of all extensions, GS_HTTP_CHUNK_TRAILER_MAX bytes of trailer
 * fields. */
GS_MUST_CHECK ssize_t gs_http_chunked_decode(struct gs_http_chunked *chunked, const char *bytes,
                                             size_t n, bool *ret_done);

/* The same, but stop behind the first data, which is *ret_data: a part of the bytes, empty if they
 * contain none. */
GS_MUST_CHECK ssize_t gs_http_chunked_next(struct gs_http_chunked *chunked, const char *bytes,
                                           size_t n, struct gs_http_text *ret_data, bool *ret_done);

#endif
