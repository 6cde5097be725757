/* The page that lists a directory. It is made like that of a file, and cached like one, but not for
 * longer than it is fresh, since nothing tells whether a listing has changed. */
#ifndef GS_HTTP_LISTING_PAGE_H
#define GS_HTTP_LISTING_PAGE_H

#include "http/listing.h"
#include "http/page.h"

struct gs_http_listing_request {
    struct gs_http_listing_source source;
    enum gs_http_listing_format format;
    bool is_negotiated; /* a client may choose the format */
    const char *fields; /* lines for its head */
    uint64_t wall_ns;
};

/* Read the directory, and make the page. Waits for the disk. Returns 0, -ENOMEM, -E2BIG (it has too
 * many entries, or they need too much memory), or an error of getdents(2). */
GS_MUST_CHECK int gs_http_listing_page_new(const struct gs_http_listing_request *request,
                                           struct gs_http_page **ret_page);

#endif
