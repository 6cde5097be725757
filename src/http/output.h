/* Output that waits to be taken: a row of segments, of memory or of files, in one allocation that
 * exists only as long as there is something to send; a small one, once only pages are left. */
#ifndef GS_HTTP_OUTPUT_H
#define GS_HTTP_OUTPUT_H

#include "http/page.h"
#include "http/range.h"

#include <gossamer/http.h>

/* One answer's part of the output, for the log; the request line follows, then the other texts. */
struct gs_http_logged {
    struct gs_http_logged *next;
    struct gs_http_log_entry entry;
    uint64_t body, end; /* positions in the output */
};

struct gs_http_segment {
    struct gs_http_page *page; /* a reference; NULL: the memory is the output's own */
    struct gs_http_piece piece;
};

/* Each range needs two segments, one for what comes before it; and there is what comes after the
 * last. */
#define GS_HTTP_OUTPUT_SEGMENTS (2 * GS_HTTP_RANGES_MAX + 6)
#define GS_HTTP_OUTPUT_BYTES 6000

/* Invariants:
 *   O1  first <= count <= segments_most; segments before `first` are released
 *   O2  position and end differ by the bytes of the segments from `first` on
 *   O3  a segment of own memory lies within the first `used` bytes behind the segments, which are
 *       at most `size` */
struct gs_http_output {
    struct gs_http_output *next_free;
    uint32_t segments_most, size;
    uint32_t first, count;
    uint32_t used;
    uint64_t position, end; /* bytes taken, and bytes put, since it was new */
    uint64_t began_ns;      /* when the first of its answers was asked for */
    uint32_t answers;
    struct gs_http_logged *logged, **last_logged;
    struct gs_http_segment segments[];
};

/* An empty output with room for so much; `free` releases its memory. Returns NULL without memory. */
struct gs_http_output *gs_http_output_new(uint32_t segments_most, uint32_t size);

/* Empty it, when everything in it was released. */
void gs_http_output_init(struct gs_http_output *output);

/* An output without room for anything else that takes over all that `output` has left to send, and
 * leaves it empty. Returns NULL if that would save nothing: memory of its own is left, or it has no
 * room already, or there is no memory. */
struct gs_http_output *gs_http_output_compact(struct gs_http_output *output);

/* Release everything in it. */
void gs_http_output_done(struct gs_http_output *output);

/* There is room for so many bytes and segments. */
static inline bool gs_http_output_has_room(const struct gs_http_output *output, size_t bytes,
                                           unsigned segments)
{
    return output->size - output->used >= bytes &&
           output->segments_most - output->count >= segments;
}

/* n bytes of memory that are the next to be sent, to be filled in; there must be room. */
char *gs_http_output_extend(struct gs_http_output *output, size_t n);

/* Copy text; there must be room. */
void gs_http_output_put(struct gs_http_output *output, struct gs_http_text text);

/* A part of a page's body, from its memory or its file; the output takes a reference of its own. */
void gs_http_output_put_body(struct gs_http_output *output, struct gs_http_page *page,
                             uint64_t offset, uint64_t n);

/* The whole of a page that has a body in memory, with its head as it stands. */
void gs_http_output_put_page(struct gs_http_output *output, struct gs_http_page *page);

/* n bytes were taken, at most what there is. */
void gs_http_output_advance(struct gs_http_output *output, uint64_t n);

#endif
