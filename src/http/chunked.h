/* A body in the chunked coding (RFC 9112, 7.1), read in order to find its end: the server discards
 * bodies.
 *
 *     struct gs_http_chunked chunked;
 *     gs_http_chunked_init(&chunked);
 *     ssize_t eaten = gs_http_chunked_eat(&chunked, bytes, n, &done);
 *
 * The bytes may come in pieces of any size. The grammar is taken to the letter, since whoever
 * disagrees about where a body ends disagrees about which bytes are the next request.
 */
#ifndef GS_HTTP_CHUNKED_H
#define GS_HTTP_CHUNKED_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GS_HTTP_CHUNK_EXTENSIONS_MAX 4096
#define GS_HTTP_CHUNK_TRAILER_MAX 8192

/* left: data bytes of this chunk still to come; total: data bytes eaten so far. The rest is
 * private. */
struct gs_http_chunked {
    uint64_t left, total;
    uint16_t extension_bytes, trailer_bytes;
    uint8_t state, digits;
};

void gs_http_chunked_init(struct gs_http_chunked *chunked);

/* Eat up to n bytes, data in one step a piece: the number eaten, which is less than n only where
 * the body ends, and then *ret_done is true. -EPROTO, and again for every later call: anything that
 * is not in the grammar (white space before the size, a bare LF or CR, a control character, a
 * folded line); a size of more than 16 digits; more than 2^63 - 1 bytes of data; extensions of more
 * than GS_HTTP_CHUNK_EXTENSIONS_MAX bytes in all; trailer fields of more than
 * GS_HTTP_CHUNK_TRAILER_MAX. */
GS_MUST_CHECK ssize_t gs_http_chunked_eat(struct gs_http_chunked *chunked, const char *bytes,
                                          size_t n, bool *ret_done);

#endif
