/* Byte ranges (RFC 9110, 14.1 and 14.2).
 *
 *     struct gs_http_range ranges[GS_HTTP_RANGES_MAX];
 *     size_t count;
 *     switch (gs_http_range_parse(GS_HTTP_TEXT("bytes=0-499, -500"), file_size, ranges, &count))
 *     ...
 *
 * Ranges that overlap or are adjacent are merged, at the position of the first of them; the order
 * of the request is kept otherwise. The ranges together are therefore never larger than the file,
 * however many were requested.
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
    GS_HTTP_RANGE_NONE,          /* send the full file: another unit, malformed, or too many   */
    GS_HTTP_RANGE_SOME,          /* send these ranges, with 206                                */
    GS_HTTP_RANGE_UNSATISFIABLE, /* well-formed, but none starts within the file: 416          */
};

/* Parse the value of a Range field for a representation of size bytes. ret_ranges has room for
 * GS_HTTP_RANGES_MAX; ranges and count are valid with GS_HTTP_RANGE_SOME only. Returns
 * GS_HTTP_RANGE_NONE if at any point of the list more than GS_HTTP_RANGES_MAX ranges cannot be
 * merged, and for a suffix of an empty file, which is the full file and cannot be expressed by
 * Content-Range. Numbers that exceed 64 bits are treated as the largest. */
GS_MUST_CHECK enum gs_http_range_result gs_http_range_parse(struct gs_http_text value,
                                                            uint64_t size,
                                                            struct gs_http_range *ret_ranges,
                                                            size_t *ret_count);

#endif
