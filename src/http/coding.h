/* Content codings (RFC 9110, 8.4.1), and which of them a client accepts (12.5.3).
 *
 *     struct gs_http_accepted accepted = gs_http_accepted_in(request->fields);
 *     if (accepted.weights[GS_HTTP_IN_BR] > accepted.weights[GS_HTTP_IN_IDENTITY])
 *         the client would rather have brotli
 *
 * The functions have no state and do not allocate; any thread may call them.
 */
#ifndef GS_HTTP_CODING_H
#define GS_HTTP_CODING_H

#include "http/text.h"

#include <stdatomic.h>
#include <stdint.h>

struct gs_http_page;

/* In the order in which codings of equal weight and size are preferred, after the first, which is
 * none. */
enum gs_http_coding {
    GS_HTTP_IN_IDENTITY,
    GS_HTTP_IN_BR,
    GS_HTTP_IN_ZSTD,
    GS_HTTP_IN_GZIP,
    GS_HTTP_CODINGS,
};

/* A coding as a bit of a set. */
#define GS_HTTP_CODING_BIT(coding) (1u << (coding))

/* The name in Content-Encoding: "br". */
const char *gs_http_coding_name(enum gs_http_coding coding);

/* The end of the name of a file in this coding: ".br"; "" for the first. */
#define GS_HTTP_SUFFIX_MAX (sizeof ".zst" - 1)
const char *gs_http_coding_suffix(enum gs_http_coding coding);

/* What a client accepts. A weight of 0 means that it refuses the coding; otherwise the weight is 1
 * more than the thousandths of its q, and 1 for what is acceptable although nothing names it. */
struct gs_http_accepted {
    uint16_t weights[GS_HTTP_CODINGS];
    /* For each coding: the set of those that are preferred to it. If the first is refused: all that
     * are accepted. */
    uint8_t above[GS_HTTP_CODINGS];
};

/* Of a client that sends no Accept-Encoding: all is accepted, and no coding is preferred. */
#define GS_HTTP_ACCEPTED_ANY {{1001, 1000, 1000, 1000}, {0, 0, 1 << 1, 3 << 1}}

/* Collect what the lines of Accept-Encoding say. Elements that are malformed, or of other codings,
 * are ignored; the first of several for the same coding counts, and x-gzip is gzip. Without a line
 * all is accepted, but no coding is preferred; an empty one accepts no coding. */
struct gs_http_accepted gs_http_accepted_in(struct gs_http_text fields);

/* ---- Compression of pages, which this module leaves to its caller ---- */

/* A body in a coding: immutable, and shared by the pages of all workers. */
struct gs_http_coded {
    atomic_uint references;
    size_t n;
    char bytes[];
};

/* NULL is accepted. */
void gs_http_coded_unref(struct gs_http_coded *coded);

/* Compresses pages in the background, each once. Borrowed by all services that have it. */
struct gs_http_compressor {
    unsigned codings; /* the set of those that it knows */

    /* Get the body of a page, which has not changed for GS_HTTP_SETTLED_NS, in a coding. It may be
     * called on any kernel thread, concurrently, does not wait, and needs little stack. Returns 0
     * and a reference; -EAGAIN: later, perhaps; -ENODATA: compression saves too little, in any
     * coding. */
    int (*get)(struct gs_http_page *page, enum gs_http_coding coding,
               struct gs_http_coded **ret_coded, void *data);
    void *data;
};

/* The sizes of pages that are compressed. A smaller one is sent in one packet in any case, and a
 * larger one would take too long. */
#define GS_HTTP_COMPRESSED_MIN 256
#define GS_HTTP_COMPRESSED_MAX (10 << 20)

#endif
