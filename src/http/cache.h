/* The file cache: pages by site and path, bounded in bytes and in descriptors. The page that was
 * used least recently is evicted first. Used by one kernel thread at a time. */
#ifndef GS_HTTP_CACHE_H
#define GS_HTTP_CACHE_H

#include "http/page.h"

#include <stddef.h>

/* Invariants:
 *   P1  the pages in the buckets are exactly those in the list from oldest to newest
 *   P2  bytes and descriptors are the sums over the pages of the list and their variants
 *   P3  bytes <= max_bytes and descriptors <= max_descriptors */
struct gs_http_cache {
    struct gs_http_page **buckets;
    size_t bucket_count; /* a power of two; 0 before the first page */
    size_t count;
    size_t bytes, max_bytes;
    unsigned descriptors, max_descriptors;
    struct gs_http_page *oldest, *newest; /* by used_ns */
};

void gs_http_cache_init(struct gs_http_cache *cache, size_t max_bytes, unsigned max_descriptors);
void gs_http_cache_done(struct gs_http_cache *cache);

/* Find the site's page of this path; borrowed until the cache is next changed. Returns NULL if
 * there is none. */
struct gs_http_page *gs_http_cache_find(const struct gs_http_cache *cache,
                                        const struct gs_http_site *site, struct gs_http_text path);

/* Insert a page, with a reference of the cache's own, and remove any other page of its site and
 * path. A page
 * that exceeds the limits, or for which memory is exhausted, is not inserted. */
void gs_http_cache_insert(struct gs_http_cache *cache, struct gs_http_page *page,
                          uint64_t validated_ns);

/* Give a page, which may be in the cache, this variant in place of another in the coding, with a
 * reference of its own; NULL: none. Returns false, and changes nothing, if a cached page would then
 * exceed the limits. */
bool gs_http_cache_set_variant(struct gs_http_cache *cache, struct gs_http_page *page,
                               enum gs_http_coding coding, struct gs_http_page *variant);

/* Keep the fields, of n bytes, with a page that has none; it may be in the cache, or a variant of
 * one there. The page takes them. */
void gs_http_cache_set_fields(struct gs_http_cache *cache, struct gs_http_page *page,
                              struct gs_http2_fields *fields, size_t n);

/* Record that a cached page still matched its file at validated_ns. */
void gs_http_cache_revalidate(struct gs_http_cache *cache, struct gs_http_page *page,
                              uint64_t validated_ns);

/* Record that a page was used although it could not be validated. */
void gs_http_cache_use(struct gs_http_cache *cache, struct gs_http_page *page, uint64_t now_ns);

/* Remove the pages that were last used at since_ns or before. */
void gs_http_cache_remove_unused(struct gs_http_cache *cache, uint64_t since_ns);

void gs_http_cache_remove(struct gs_http_cache *cache, struct gs_http_page *page);

#endif
