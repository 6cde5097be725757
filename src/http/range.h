/* Byte ranges (RFC 9110, 14.1 and 14.2).
 *
 *     struct gs_http_range ranges[GS_HTTP_RANGES_MAX];
 *     size_t count;
 *     switch (gs_http_range_parse(GS_HTTP_TEXT("bytes=0-499, -500"), file_size, ranges, &count))
 *     ...
 *
 * Ranges that overlap or touch become one, at the place of the first of them; the others keep the
 * order of the request. So the ranges together are never larger than the file, however many were
 * asked for.
 */
#ifndef GS_HTTP_RANGE_H
#define GS_HTTP_RANGE_H

#include "http/text.h"

#include <gossamer/api.h>
#include <stdint.h>

#define GS_HTTP_RANGES_MAX 16

/* The bytes from first to last, both included; last is below the size. */
struct gs_http_range {
    uint64_t first, last;
};

enum gs_http_range_result {
    GS_HTTP_RANGE_NONE,          /* serve the whole: another unit, malformed, or too many ranges */
    GS_HTTP_RANGE_SOME,          /* serve these ranges, with 206                                 */
    GS_HTTP_RANGE_UNSATISFIABLE, /* well-formed, but none begins within the file: 416            */
};

/* Read the value of a Range field for a representation of size bytes. ret_ranges has room for
 * GS_HTTP_RANGES_MAX; ranges and count mean something with GS_HTTP_RANGE_SOME only. When more than
 * GS_HTTP_RANGES_MAX ranges stand apart at any point of the list, the answer is GS_HTTP_RANGE_NONE.
 * A suffix of an empty file is the whole of it, which Content-Range cannot express:
 * GS_HTTP_RANGE_NONE. Numbers beyond 64 bits count as the largest. */
GS_MUST_CHECK enum gs_http_range_result gs_http_range_parse(struct gs_http_text value,
                                                            uint64_t size,
                                                            struct gs_http_range *ret_ranges,
                                                            size_t *ret_count);

#endif
