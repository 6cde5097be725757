/* The page cache: pages by path, bounded in bytes and in descriptors; the one that was not
 * confirmed for longest goes first. One kernel thread at a time. */
#ifndef GS_HTTP_PAGES_H
#define GS_HTTP_PAGES_H

#include "http/page.h"

#include <stddef.h>

/* Invariants:
 *   P1  every page in a bucket is in the list from oldest to newest, and the other way round
 *   P2  bytes and descriptors are the sums over the list
 *   P3  bytes <= bytes_most and descriptors <= descriptors_most */
struct gs_http_pages {
    struct gs_http_page **buckets;
    size_t bucket_count; /* a power of two; 0 before the first page */
    size_t count;
    size_t bytes, bytes_most;
    unsigned descriptors, descriptors_most;
    struct gs_http_page *oldest, *newest;
};

void gs_http_pages_init(struct gs_http_pages *pages, size_t bytes_most, unsigned descriptors_most);
void gs_http_pages_done(struct gs_http_pages *pages);

/* The page of this path, borrowed until the cache is next changed; or NULL. */
struct gs_http_page *gs_http_pages_find(const struct gs_http_pages *pages,
                                        struct gs_http_text path);

/* Keep a reference of the cache's own to the page, in place of any other of its path. A page that
 * does not fit, or for which there is no memory, is not kept. */
void gs_http_pages_insert(struct gs_http_pages *pages, struct gs_http_page *page,
                          uint64_t checked_ns);

/* The page in the cache was found to be the file's state at that time or later. */
void gs_http_pages_confirm(struct gs_http_pages *pages, struct gs_http_page *page,
                           uint64_t checked_ns);

void gs_http_pages_remove(struct gs_http_pages *pages, struct gs_http_page *page);

#endif
