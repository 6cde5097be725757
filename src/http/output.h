/* Output that has not been sent: an array of segments, of memory or of files, in one allocation
 * that exists only while there is something to send; in a small one once only pages are left. */
#ifndef GS_HTTP_OUTPUT_H
#define GS_HTTP_OUTPUT_H

#include "http/page.h"
#include "http/range.h"

#include <assert.h>
#include <gossamer/http.h>

/* The log entry of a response in the output. Its strings follow in the same allocation. */
struct gs_http_log_record {
    struct gs_http_log_record *next;
    struct gs_http_log_entry entry;
    uint64_t body, end; /* positions in the output */
};

struct gs_http_segment {
    struct gs_http_page *page; /* a reference; NULL: the memory is the output's own */
    struct gs_http_piece piece;
};

/* Each range needs two segments, of which the first precedes it; others follow the last range. */
#define GS_HTTP_OUTPUT_SEGMENTS (2 * GS_HTTP_RANGES_MAX + 6)
#define GS_HTTP_OUTPUT_BYTES 6000

/* Invariants:
 *   O1  first <= count <= max_segments; segments before `first` are released
 *   O2  position and end differ by the bytes of the segments from `first` on
 *   O3  a segment of own memory lies within the first `used` bytes behind the segments, which are
 *       at most `size` */
struct gs_http_output {
    struct gs_http_output *next_free;
    uint32_t max_segments, size;
    uint32_t first, count;
    uint32_t used;
    uint64_t position, end; /* numbers of bytes sent, and added, since it was empty */
    uint64_t started_ns;    /* when the request of its first response was received */
    uint32_t responses;
    struct gs_http_log_record *log_records, **last_log_record;
    struct gs_http_segment segments[];
};

/* Allocate an empty output with room for max_segments and `size` bytes; `free` releases its memory.
 * Returns NULL if memory is exhausted. */
struct gs_http_output *gs_http_output_new(uint32_t max_segments, uint32_t size);

/* Make it empty, after everything in it was released. */
void gs_http_output_init(struct gs_http_output *output);

/* Move all that `output` has left to send into an output without room for anything else, and leave
 * `output` empty. Returns NULL if that saves nothing (memory of its own is left, or it has no room
 * already) or if memory is exhausted. */
struct gs_http_output *gs_http_output_compact(struct gs_http_output *output);

/* Release everything in it. */
void gs_http_output_done(struct gs_http_output *output);

/* Returns whether there is room for this number of bytes and segments. */
static inline bool gs_http_output_has_room(const struct gs_http_output *output, size_t bytes,
                                           unsigned segments)
{
    return output->size - output->used >= bytes && output->max_segments - output->count >= segments;
}

/* Add n bytes of memory, which the caller fills in; there must be room. */
char *gs_http_output_extend(struct gs_http_output *output, size_t n);

/* Add a copy of the text; there must be room. */
void gs_http_output_put(struct gs_http_output *output, struct gs_http_text text);

/* Add a part of a page's body, from its memory or its file; takes a reference of its own. */
void gs_http_output_put_body(struct gs_http_output *output, struct gs_http_page *page,
                             uint64_t offset, uint64_t n);

/* Add a page's head as it is stored; with_body: and its body, which is in memory. */
void gs_http_output_put_page(struct gs_http_output *output, struct gs_http_page *page,
                             bool with_body);

/* Move the first n bytes of what is left in `from`, at most all of one segment, into `to`: a
 * reference to a page, or a copy if they are few or the output's own. There must be room for
 * gs_http_output_copied bytes, and a segment. */
void gs_http_output_move(struct gs_http_output *to, struct gs_http_output *from, uint64_t n);

/* How many bytes are copied. */
uint64_t gs_http_output_copied(const struct gs_http_segment *segment, uint64_t n);

/* Release the segments before `end`. */
static inline void gs_http_output_release(struct gs_http_output *output, uint32_t end)
{
    for (; output->first < end; output->first++)
        gs_http_page_unref(output->segments[output->first].page);
}

/* Record that n bytes were sent, at most what is left. */
static inline void gs_http_output_advance(struct gs_http_output *output, uint64_t n)
{
    assert(n <= output->end - output->position);
    output->position += n;
    while (n) {
        struct gs_http_piece *piece = &output->segments[output->first].piece;
        if (n < piece->n) {
            if (piece->bytes)
                piece->bytes += n;
            piece->offset += n;
            piece->n -= n;
            return;
        }
        n -= piece->n;
        gs_http_output_release(output, output->first + 1);
    }
}

#endif
