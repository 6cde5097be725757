/* Compression of pages for all workers of the process: by one kernel thread, each version of a file
 * once for each coding.
 *
 *     workers --- get(page, coding) ---> table of versions, and a queue
 *        ^                                  |
 *        `--- body, as soon as it is there -+--> thread: reads the file if it is not in memory,
 *                                                compresses it
 *
 * A version is what identifies a page's file: device, inode, size and times. Bodies stay in the
 * table, beyond the pages of the workers, until others need their room; so does the knowledge that
 * compression saves too little. */
#ifndef GS_SERVE_COMPRESSOR_H
#define GS_SERVE_COMPRESSOR_H

#include "http/coding.h"

#include <gossamer/api.h>

struct serve_compressor;

struct serve_compressor_counts {
    uint64_t compressed; /* bodies that were made */
    uint64_t dropped;    /* since they save too little */
    uint64_t bytes;      /* of the table */
};

/* Start the thread. codings: a subset of serve_encodings(). The table takes at most max_bytes.
 * Returns 0 or -errno. */
GS_MUST_CHECK int serve_compressor_start(unsigned codings, size_t max_bytes,
                                         struct serve_compressor **ret_compressor);

/* What services know of it. */
const struct gs_http_compressor *serve_compressor_http(const struct serve_compressor *compressor);

struct serve_compressor_counts serve_compressor_count(struct serve_compressor *compressor);

/* End the thread, after the file that it is at, and forget everything but the bodies that pages
 * have. No service has the compressor any more. NULL is accepted. */
void serve_compressor_stop(struct serve_compressor *compressor);

#endif
