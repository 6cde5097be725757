#include "http/pages.h"

#include <stdlib.h>

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint32_t hash_of(struct gs_http_text path)
{
    uint64_t hash = path.n, word = 0;
    size_t i = 0;
    for (; path.n - i > 8; i += 8) {
        memcpy(&word, path.bytes + i, 8);
        hash = mix(hash, word);
    }
    if (i) /* the last eight, some of them for the second time */
        memcpy(&word, path.bytes + path.n - 8, 8);
    for (; !i && path.n; path.n--)
        word = word << 8 | (unsigned char)path.bytes[path.n - 1];
    return (uint32_t)(mix(hash, word) >> 32);
}

static size_t bytes_of(const struct gs_http_page *page)
{
    return sizeof *page + page->path.n + page->head.n +
           (page->body ? (size_t)page->stat.st_size : 0);
}

static struct gs_http_page **bucket_of(const struct gs_http_pages *pages, uint32_t hash)
{
    return &pages->buckets[hash & (pages->bucket_count - 1)];
}

static void list_append(struct gs_http_pages *pages, struct gs_http_page *page)
{
    page->newer = NULL;
    page->older = pages->newest;
    if (pages->newest)
        pages->newest->newer = page;
    else
        pages->oldest = page;
    pages->newest = page;
}

static void list_remove(struct gs_http_pages *pages, struct gs_http_page *page)
{
    if (page->newer)
        page->newer->older = page->older;
    else
        pages->newest = page->older;
    if (page->older)
        page->older->newer = page->newer;
    else
        pages->oldest = page->newer;
}

static bool grow(struct gs_http_pages *pages)
{
    size_t count = pages->bucket_count ? pages->bucket_count * 2 : 64;
    struct gs_http_page **buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return pages->bucket_count > 0;
    free(pages->buckets);
    pages->buckets = buckets;
    pages->bucket_count = count;
    for (struct gs_http_page *page = pages->oldest; page; page = page->newer) {
        struct gs_http_page **bucket = bucket_of(pages, page->hash);
        page->next_same_bucket = *bucket;
        *bucket = page;
    }
    return true;
}

void gs_http_pages_init(struct gs_http_pages *pages, size_t bytes_most, unsigned descriptors_most)
{
    *pages = (struct gs_http_pages){.bytes_most = bytes_most, .descriptors_most = descriptors_most};
}

void gs_http_pages_done(struct gs_http_pages *pages)
{
    while (pages->oldest)
        gs_http_pages_remove(pages, pages->oldest);
    free(pages->buckets);
}

struct gs_http_page *gs_http_pages_find(const struct gs_http_pages *pages, struct gs_http_text path)
{
    if (!pages->bucket_count)
        return NULL;
    uint32_t hash = hash_of(path);
    struct gs_http_page *page = *bucket_of(pages, hash);
    while (page && (page->hash != hash || page->path.n != path.n ||
                    memcmp(page->path.bytes, path.bytes, path.n) != 0))
        page = page->next_same_bucket;
    return page;
}

void gs_http_pages_insert(struct gs_http_pages *pages, struct gs_http_page *page,
                          uint64_t checked_ns)
{
    struct gs_http_page *former = gs_http_pages_find(pages, page->path);
    if (former)
        gs_http_pages_remove(pages, former);
    size_t bytes = bytes_of(page);
    unsigned descriptors = page->fd >= 0;
    if (bytes > pages->bytes_most || descriptors > pages->descriptors_most)
        return;
    while (pages->bytes + bytes > pages->bytes_most ||
           pages->descriptors + descriptors > pages->descriptors_most)
        gs_http_pages_remove(pages, pages->oldest);
    if (pages->count >= pages->bucket_count && !grow(pages))
        return;
    page->hash = hash_of(page->path);
    page->checked_ns = checked_ns;
    struct gs_http_page **bucket = bucket_of(pages, page->hash);
    page->next_same_bucket = *bucket;
    *bucket = gs_http_page_ref(page);
    list_append(pages, page);
    pages->bytes += bytes;
    pages->descriptors += descriptors;
    pages->count++;
}

void gs_http_pages_confirm(struct gs_http_pages *pages, struct gs_http_page *page,
                           uint64_t checked_ns)
{
    page->checked_ns = checked_ns;
    page->is_being_checked = false;
    list_remove(pages, page);
    list_append(pages, page);
}

void gs_http_pages_remove(struct gs_http_pages *pages, struct gs_http_page *page)
{
    struct gs_http_page **link = bucket_of(pages, page->hash);
    while (*link != page)
        link = &(*link)->next_same_bucket;
    *link = page->next_same_bucket;
    list_remove(pages, page);
    pages->bytes -= bytes_of(page);
    pages->descriptors -= page->fd >= 0;
    pages->count--;
    gs_http_page_unref(page);
}
