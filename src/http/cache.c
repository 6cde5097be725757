#include "http/cache.h"

#include "http/hash.h"

#include <stdlib.h>

/* Sites may have pages of the same paths. */
static uint32_t hash_page(const struct gs_http_site *site, struct gs_http_text path)
{
    return gs_http_hash(path, (uintptr_t)site, 0);
}

static size_t page_bytes(const struct gs_http_page *page)
{
    return sizeof *page + page->path.n + page->head.n + page->http2_fields_n +
           (page->body ? (size_t)page->stat.st_size : 0);
}

static struct gs_http_page **find_bucket(const struct gs_http_cache *cache, uint32_t hash)
{
    return &cache->buckets[hash & (cache->bucket_count - 1)];
}

static void list_append(struct gs_http_cache *cache, struct gs_http_page *page)
{
    page->newer = NULL;
    page->older = cache->newest;
    if (cache->newest)
        cache->newest->newer = page;
    else
        cache->oldest = page;
    cache->newest = page;
}

static void list_remove(struct gs_http_cache *cache, struct gs_http_page *page)
{
    if (page->newer)
        page->newer->older = page->older;
    else
        cache->newest = page->older;
    if (page->older)
        page->older->newer = page->newer;
    else
        cache->oldest = page->newer;
}

static bool grow(struct gs_http_cache *cache)
{
    size_t count = cache->bucket_count ? cache->bucket_count * 2 : 64;
    struct gs_http_page **buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return cache->bucket_count > 0;
    free(cache->buckets);
    cache->buckets = buckets;
    cache->bucket_count = count;
    for (struct gs_http_page *page = cache->oldest; page; page = page->newer) {
        struct gs_http_page **bucket = find_bucket(cache, page->hash);
        page->next_same_bucket = *bucket;
        *bucket = page;
    }
    return true;
}

void gs_http_cache_init(struct gs_http_cache *cache, size_t max_bytes, unsigned max_descriptors)
{
    *cache = (struct gs_http_cache){.max_bytes = max_bytes, .max_descriptors = max_descriptors};
}

void gs_http_cache_done(struct gs_http_cache *cache)
{
    while (cache->oldest)
        gs_http_cache_remove(cache, cache->oldest);
    free(cache->buckets);
}

struct gs_http_page *gs_http_cache_find(const struct gs_http_cache *cache,
                                        const struct gs_http_site *site, struct gs_http_text path)
{
    if (!cache->bucket_count)
        return NULL;
    uint32_t hash = hash_page(site, path);
    struct gs_http_page *page = *find_bucket(cache, hash);
    while (page && (page->hash != hash || page->path.n != path.n || page->site != site ||
                    memcmp(page->path.bytes, path.bytes, path.n) != 0))
        page = page->next_same_bucket;
    return page;
}

void gs_http_cache_insert(struct gs_http_cache *cache, struct gs_http_page *page,
                          uint64_t validated_ns)
{
    struct gs_http_page *previous = gs_http_cache_find(cache, page->site, page->path);
    if (previous)
        gs_http_cache_remove(cache, previous);
    size_t bytes = page_bytes(page);
    unsigned descriptors = page->fd >= 0;
    if (bytes > cache->max_bytes || descriptors > cache->max_descriptors)
        return;
    while (cache->bytes + bytes > cache->max_bytes ||
           cache->descriptors + descriptors > cache->max_descriptors)
        gs_http_cache_remove(cache, cache->oldest);
    if (cache->count >= cache->bucket_count && !grow(cache))
        return;
    page->hash = hash_page(page->site, page->path);
    page->validated_ns = page->used_ns = validated_ns;
    struct gs_http_page **bucket = find_bucket(cache, page->hash);
    page->next_same_bucket = *bucket;
    *bucket = gs_http_page_ref(page);
    list_append(cache, page);
    cache->bytes += bytes;
    cache->descriptors += descriptors;
    cache->count++;
}

void gs_http_cache_set_fields(struct gs_http_cache *cache, struct gs_http_page *page,
                              struct gs_http2_fields *fields, size_t n)
{
    bool is_cached = gs_http_cache_find(cache, page->site, page->path) == page;
    page->http2_fields = fields;
    page->http2_fields_n = n;
    cache->bytes += is_cached ? n : 0;
    while (cache->bytes > cache->max_bytes)
        gs_http_cache_remove(cache, cache->oldest);
}

void gs_http_cache_revalidate(struct gs_http_cache *cache, struct gs_http_page *page,
                              uint64_t validated_ns)
{
    page->validated_ns = validated_ns;
    page->is_revalidating = false;
    gs_http_cache_use(cache, page, validated_ns);
}

void gs_http_cache_use(struct gs_http_cache *cache, struct gs_http_page *page, uint64_t now_ns)
{
    page->used_ns = now_ns;
    list_remove(cache, page);
    list_append(cache, page);
}

void gs_http_cache_remove_unused(struct gs_http_cache *cache, uint64_t since_ns)
{
    while (cache->oldest && cache->oldest->used_ns <= since_ns)
        gs_http_cache_remove(cache, cache->oldest);
}

void gs_http_cache_remove(struct gs_http_cache *cache, struct gs_http_page *page)
{
    struct gs_http_page **link = find_bucket(cache, page->hash);
    while (*link != page)
        link = &(*link)->next_same_bucket;
    *link = page->next_same_bucket;
    list_remove(cache, page);
    cache->bytes -= page_bytes(page);
    cache->descriptors -= page->fd >= 0;
    cache->count--;
    gs_http_page_unref(page);
}
