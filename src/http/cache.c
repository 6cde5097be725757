#include "http/cache.h"

#include "http/hash.h"

#include <assert.h>
#include <stdlib.h>

/* Sites may have pages of the same paths. */
static uint32_t hash_page(const struct gs_http_site *site, struct gs_http_text path)
{
    return gs_http_hash(path, (uintptr_t)site, 0);
}

/* What a page takes, or a set of pages. */
struct size {
    size_t bytes;
    unsigned descriptors;
};

static struct size own_size(const struct gs_http_page *page)
{
    size_t bytes = sizeof *page + page->path.n + page->head.n + page->http2_fields_n +
                   (page->body ? (size_t)page->stat.st_size : 0);
    return (struct size){bytes, page->fd >= 0};
}

static struct size plus(struct size a, struct size b)
{
    return (struct size){a.bytes + b.bytes, a.descriptors + b.descriptors};
}

/* With its variants, except for that in one coding. */
static struct size size_without(const struct gs_http_page *page, enum gs_http_coding coding)
{
    struct size size = own_size(page);
    for (unsigned i = 1; i < GS_HTTP_CODINGS; i++)
        if (page->variants[i] && i != coding)
            size = plus(size, own_size(page->variants[i]));
    return size;
}

static struct size size_of(const struct gs_http_page *page)
{
    return size_without(page, GS_HTTP_IN_IDENTITY);
}

/* Returns whether there is room for that beside what is there. */
static bool fits(const struct gs_http_cache *cache, struct size there, struct size size)
{
    struct size sum = plus(there, size);
    return sum.bytes <= cache->max_bytes && sum.descriptors <= cache->max_descriptors;
}

static struct size size_of_all(const struct gs_http_cache *cache)
{
    return (struct size){cache->bytes, cache->descriptors};
}

/* Remove the pages that were used least recently, except for this one, until there is room. */
static void make_room(struct gs_http_cache *cache, const struct gs_http_page *except,
                      struct size size)
{
    while (!fits(cache, size_of_all(cache), size)) {
        struct gs_http_page *oldest = cache->oldest;
        assert(oldest); /* the caller has seen that it fits without the others */
        gs_http_cache_remove(cache, oldest == except ? oldest->newer : oldest);
    }
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
    struct size size = size_of(page);
    if (!fits(cache, (struct size){0}, size))
        return;
    make_room(cache, NULL, size);
    if (cache->count >= cache->bucket_count && !grow(cache))
        return;
    page->hash = hash_page(page->site, page->path);
    page->validated_ns = page->used_ns = validated_ns;
    struct gs_http_page **bucket = find_bucket(cache, page->hash);
    page->next_same_bucket = *bucket;
    *bucket = gs_http_page_ref(page);
    list_append(cache, page);
    cache->bytes += size.bytes;
    cache->descriptors += size.descriptors;
    cache->count++;
}

static bool contains(const struct gs_http_cache *cache, const struct gs_http_page *page)
{
    return gs_http_cache_find(cache, page->site, page->path) == page;
}

bool gs_http_cache_set_variant(struct gs_http_cache *cache, struct gs_http_page *page,
                               enum gs_http_coding coding, struct gs_http_page *variant)
{
    struct gs_http_page *old = page->variants[coding];
    struct size size = variant ? own_size(variant) : (struct size){0};
    if (contains(cache, page)) {
        if (!fits(cache, size_without(page, coding), size))
            return false;
        struct size old_size = old ? own_size(old) : (struct size){0};
        cache->bytes -= old_size.bytes;
        cache->descriptors -= old_size.descriptors;
        page->variants[coding] = NULL;
        make_room(cache, page, size);
        cache->bytes += size.bytes;
        cache->descriptors += size.descriptors;
    }
    page->variants[coding] = variant ? gs_http_page_ref(variant) : NULL;
    page->choice_id = 0;
    gs_http_page_unref(old);
    return true;
}

void gs_http_cache_set_fields(struct gs_http_cache *cache, struct gs_http_page *page,
                              struct gs_http2_fields *fields, size_t n)
{
    struct gs_http_page *cached = gs_http_cache_find(cache, page->site, page->path);
    bool is_cached = cached && (cached == page || cached->variants[page->coding] == page);
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
    struct size size = size_of(page);
    cache->bytes -= size.bytes;
    cache->descriptors -= size.descriptors;
    cache->count--;
    gs_http_page_unref(page);
}
