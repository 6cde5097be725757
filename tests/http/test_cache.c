#include "http/cache.h"
#include "tests/test.h"

static struct gs_http_cache cache;

static size_t bytes;
static unsigned descriptors;

static void add(const struct gs_http_page *page)
{
    bytes += sizeof *page + page->path.n + page->head.n + page->http2_fields_n +
             (page->body ? (size_t)page->stat.st_size : 0);
    descriptors += page->fd >= 0;
}

/* Checks invariants P1 to P3. */
static void check_cache(void)
{
    size_t count = 0, in_buckets = 0;
    bytes = descriptors = 0;
    struct gs_http_page *older = NULL;
    for (struct gs_http_page *page = cache.oldest; page; older = page, page = page->newer) {
        CHECK(page->older == older);
        CHECK(gs_http_cache_find(&cache, NULL, page->path) == page);
        add(page);
        for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++)
            if (page->variants[coding])
                add(page->variants[coding]);
        count++;
    }
    CHECK(cache.newest == older);
    for (size_t i = 0; i < cache.bucket_count; i++)
        for (struct gs_http_page *page = cache.buckets[i]; page; page = page->next_same_bucket)
            in_buckets++;
    CHECK_EQ(count, cache.count);
    CHECK_EQ(in_buckets, count);
    CHECK_EQ(cache.bytes, bytes);
    CHECK_EQ(cache.descriptors, descriptors);
    CHECK(bytes <= cache.max_bytes && descriptors <= cache.max_descriptors);
}

static struct gs_http_text name(unsigned number)
{
    static char text[32];
    return (struct gs_http_text){text,
                                 (size_t)snprintf(text, sizeof text, "folder/%u.html", number)};
}

/* Insert a page of `size` bytes, or with a descriptor. */
static struct gs_http_page *insert(unsigned number, off_t size, bool with_body)
{
    struct stat stat = {.st_size = size};
    struct gs_http_page *page =
        gs_http_page_new(name(number), &stat, NULL, with_body ? GS_HTTP_PAGE_IN_MEMORY : 0);
    CHECK(page);
    if (!with_body)
        CHECK((page->fd = open("/dev/null", O_RDONLY)) >= 0);
    gs_http_cache_insert(&cache, page, number);
    gs_http_page_unref(page);
    check_cache();
    return gs_http_cache_find(&cache, NULL, name(number));
}

TEST(pages_are_found_by_their_path)
{
    gs_http_cache_init(&cache, 1 << 24, 10);
    CHECK(!gs_http_cache_find(&cache, NULL, name(1)));
    for (unsigned i = 0; i < 1000; i++)
        CHECK(insert(i, 1, true));
    for (unsigned i = 0; i < 1000; i++) {
        struct gs_http_page *page = gs_http_cache_find(&cache, NULL, name(i));
        CHECK(page && page->validated_ns == i);
    }
    CHECK(!gs_http_cache_find(&cache, NULL, name(1000)));
    CHECK(!gs_http_cache_find(&cache, NULL, GS_HTTP_TEXT("")));
    gs_http_cache_done(&cache);
}

TEST(page_replaces_another_of_its_path)
{
    gs_http_cache_init(&cache, 1 << 20, 10);
    struct gs_http_page *previous = gs_http_page_ref(insert(1, 5, true));
    struct gs_http_page *page = insert(1, 6, true);
    CHECK(page != previous && page->stat.st_size == 6);
    CHECK_EQ(cache.count, 1);
    CHECK_EQ(previous->references, 1);
    gs_http_page_unref(previous);
    gs_http_cache_done(&cache);
}

TEST(page_validated_least_recently_is_evicted_first)
{
    gs_http_cache_init(&cache, 10000, 10);
    CHECK(insert(1, 2000, true));
    CHECK(insert(2, 2000, true));
    CHECK(insert(3, 2000, true));
    gs_http_cache_revalidate(&cache, gs_http_cache_find(&cache, NULL, name(1)), 7);
    check_cache();
    CHECK_EQ(gs_http_cache_find(&cache, NULL, name(1))->validated_ns, 7);
    CHECK(insert(4, 3000, true));
    CHECK(gs_http_cache_find(&cache, NULL, name(1)));
    CHECK(!gs_http_cache_find(&cache, NULL, name(2)));
    CHECK(gs_http_cache_find(&cache, NULL, name(3)));
    gs_http_cache_done(&cache);
}

TEST(page_larger_than_the_cache_is_not_inserted_and_evicts_nothing)
{
    gs_http_cache_init(&cache, 5000, 10);
    CHECK(insert(1, 1000, true));
    CHECK(!insert(2, 5000, true));
    CHECK(gs_http_cache_find(&cache, NULL, name(1)));
    /* The page that it would replace is removed. */
    CHECK(!insert(1, 5000, true));
    CHECK_EQ(cache.count, 0);
    gs_http_cache_done(&cache);
}

TEST(fields_of_http_2_count_as_part_of_a_page)
{
    gs_http_cache_init(&cache, 10000, 10);
    insert(1, 3000, true);
    struct gs_http_page *second = gs_http_page_ref(insert(2, 3000, true));
    size_t before = cache.bytes;
    gs_http_cache_set_fields(&cache, second, malloc(300), 300);
    check_cache();
    CHECK_EQ(cache.bytes, before + 300);
    insert(3, (off_t)(10000 - cache.bytes) - 800, true);
    CHECK_EQ(cache.count, 3u);
    struct gs_http_page *third = gs_http_cache_find(&cache, NULL, name(3));
    gs_http_cache_set_fields(&cache, third, malloc(1000), 1000);
    check_cache();
    CHECK(!gs_http_cache_find(&cache, NULL, name(1)));
    CHECK(gs_http_cache_find(&cache, NULL, name(2)) && gs_http_cache_find(&cache, NULL, name(3)));
    before = cache.bytes;
    gs_http_cache_remove(&cache, second);
    check_cache();
    CHECK(before - cache.bytes > 3300);
    gs_http_page_unref(second);
    gs_http_cache_done(&cache);
}

TEST(fields_of_http_2_count_for_a_page_that_is_cached_later)
{
    struct stat stat = {.st_size = 10};
    gs_http_cache_init(&cache, 10000, 10);
    struct gs_http_page *page = gs_http_page_new(name(1), &stat, NULL, GS_HTTP_PAGE_IN_MEMORY);
    CHECK(page);
    gs_http_cache_set_fields(&cache, page, malloc(300), 300);
    CHECK_EQ(cache.bytes, 0u);
    gs_http_cache_insert(&cache, page, 1);
    gs_http_page_unref(page);
    check_cache();
    CHECK(cache.bytes > 300);
    gs_http_cache_done(&cache);
}

TEST(descriptors_are_bounded_too)
{
    gs_http_cache_init(&cache, 1 << 20, 2);
    struct gs_http_page *first = insert(1, 1000000, false);
    int fd = first->fd;
    CHECK(insert(2, 10, true));
    CHECK(insert(3, 1000000, false));
    CHECK(insert(4, 1000000, false));
    CHECK(!gs_http_cache_find(&cache, NULL, name(1)));
    CHECK(fcntl(fd, F_GETFD) < 0 || gs_http_cache_find(&cache, NULL, name(4))->fd == fd);
    CHECK(gs_http_cache_find(&cache, NULL, name(3)));
    CHECK_EQ(cache.descriptors, 2);
    gs_http_cache_done(&cache);
    gs_http_cache_init(&cache, 1 << 20, 0);
    CHECK(!insert(1, 1000000, false));
    gs_http_cache_done(&cache);
}

TEST(removed_page_lives_until_its_last_reference)
{
    gs_http_cache_init(&cache, 1 << 20, 2);
    struct gs_http_page *page = gs_http_page_ref(insert(1, 4, true));
    insert(2, 4, true);
    gs_http_cache_remove(&cache, page);
    check_cache();
    CHECK(!gs_http_cache_find(&cache, NULL, name(1)));
    memcpy(page->body, "abcd", 4);
    gs_http_cache_done(&cache);
    CHECK_EQ(page->references, 1);
    gs_http_page_unref(page);
}

/* ---- Variants ---- */

/* Returns whether the page has the variant now. */
static bool set_variant(struct gs_http_page *page, enum gs_http_coding coding, off_t size)
{
    struct stat stat = {.st_size = size};
    bool with_body = size > 0;
    unsigned flags = with_body ? GS_HTTP_PAGE_IN_MEMORY : 0;
    struct gs_http_page *variant =
        gs_http_page_new(page->path, &stat, NULL, flags | GS_HTTP_PAGE_IN(coding));
    CHECK(variant);
    if (!with_body)
        CHECK((variant->fd = open("/dev/null", O_RDONLY)) >= 0);
    bool is_set = gs_http_cache_set_variant(&cache, page, coding, variant);
    gs_http_page_unref(variant);
    check_cache();
    return is_set;
}

TEST(variants_count_as_part_of_a_page)
{
    gs_http_cache_init(&cache, 20000, 2);
    struct gs_http_page *first = insert(1, 1000, true), *page = insert(2, 1000, true);
    CHECK(set_variant(page, GS_HTTP_IN_BR, 500));
    CHECK(set_variant(page, GS_HTTP_IN_BR, 600));
    CHECK(set_variant(page, GS_HTTP_IN_GZIP, 0));
    CHECK_EQ(cache.descriptors, 1);
    struct gs_http_page *variant = page->variants[GS_HTTP_IN_BR];
    size_t before = cache.bytes;
    gs_http_cache_set_fields(&cache, variant, malloc(300), 300);
    check_cache();
    CHECK_EQ(cache.bytes, before + 300);
    CHECK(gs_http_cache_set_variant(&cache, page, GS_HTTP_IN_GZIP, NULL));
    check_cache();
    gs_http_cache_remove(&cache, first);
    gs_http_cache_remove(&cache, page);
    check_cache();
    CHECK_EQ(cache.bytes, 0);
    gs_http_cache_done(&cache);
}

TEST(variants_evict_other_pages_but_not_their_own)
{
    gs_http_cache_init(&cache, 10000, 1);
    struct gs_http_page *page = insert(1, 1000, true);
    CHECK(insert(2, 1000, true) && insert(3, 1000, true));
    CHECK(insert(4, 0, false));
    CHECK(set_variant(page, GS_HTTP_IN_BR, 0));
    CHECK(!gs_http_cache_find(&cache, NULL, name(4)));
    CHECK(!set_variant(page, GS_HTTP_IN_GZIP, 0));
    CHECK(!set_variant(page, GS_HTTP_IN_ZSTD, 10000));
    CHECK(set_variant(page, GS_HTTP_IN_ZSTD, 6000));
    CHECK(page->variants[GS_HTTP_IN_BR] && page->variants[GS_HTTP_IN_ZSTD]);
    CHECK_EQ(cache.count, 1);
    gs_http_cache_done(&cache);
}
