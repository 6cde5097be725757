#include "http/pages.h"
#include "tests/test.h"

#include <fcntl.h>
#include <unistd.h>

static struct gs_http_pages pages;

/* P1 to P3. */
static void check_pages(void)
{
    size_t count = 0, in_buckets = 0, bytes = 0;
    unsigned descriptors = 0;
    struct gs_http_page *older = NULL;
    for (struct gs_http_page *page = pages.oldest; page; older = page, page = page->newer) {
        CHECK(page->older == older);
        CHECK(gs_http_pages_find(&pages, page->path) == page);
        bytes += sizeof *page + page->path.n + page->head.n +
                 (page->body ? (size_t)page->stat.st_size : 0);
        descriptors += page->fd >= 0;
        count++;
    }
    CHECK(pages.newest == older);
    for (size_t i = 0; i < pages.bucket_count; i++)
        for (struct gs_http_page *page = pages.buckets[i]; page; page = page->next_same_bucket)
            in_buckets++;
    CHECK_EQ(count, pages.count);
    CHECK_EQ(in_buckets, count);
    CHECK_EQ(pages.bytes, bytes);
    CHECK_EQ(pages.descriptors, descriptors);
    CHECK(bytes <= pages.bytes_most && descriptors <= pages.descriptors_most);
}

static struct gs_http_text name(unsigned number)
{
    static char text[32];
    return (struct gs_http_text){text,
                                 (size_t)snprintf(text, sizeof text, "folder/%u.html", number)};
}

/* A page of so many bytes, or of a descriptor, inserted. */
static struct gs_http_page *insert(unsigned number, off_t size, bool with_body)
{
    struct stat stat = {.st_size = size};
    struct gs_http_page *page = gs_http_page_new(name(number), &stat, with_body);
    CHECK(page);
    if (!with_body)
        CHECK((page->fd = open("/dev/null", O_RDONLY)) >= 0);
    gs_http_pages_insert(&pages, page, number);
    gs_http_page_unref(page);
    check_pages();
    return gs_http_pages_find(&pages, name(number));
}

TEST(pages_are_found_by_their_path)
{
    gs_http_pages_init(&pages, 1 << 24, 10);
    CHECK(!gs_http_pages_find(&pages, name(1)));
    for (unsigned i = 0; i < 1000; i++)
        CHECK(insert(i, 1, true));
    for (unsigned i = 0; i < 1000; i++) {
        struct gs_http_page *page = gs_http_pages_find(&pages, name(i));
        CHECK(page && page->checked_ns == i);
    }
    CHECK(!gs_http_pages_find(&pages, name(1000)));
    CHECK(!gs_http_pages_find(&pages, GS_HTTP_TEXT("")));
    gs_http_pages_done(&pages);
}

TEST(page_takes_the_place_of_another_of_its_path)
{
    gs_http_pages_init(&pages, 1 << 20, 10);
    struct gs_http_page *former = gs_http_page_ref(insert(1, 5, true));
    struct gs_http_page *page = insert(1, 6, true);
    CHECK(page != former && page->stat.st_size == 6);
    CHECK_EQ(pages.count, 1);
    CHECK_EQ(former->references, 1);
    gs_http_page_unref(former);
    gs_http_pages_done(&pages);
}

TEST(page_that_was_confirmed_longest_ago_goes_first)
{
    gs_http_pages_init(&pages, 10000, 10);
    CHECK(insert(1, 2000, true));
    CHECK(insert(2, 2000, true));
    CHECK(insert(3, 2000, true));
    gs_http_pages_confirm(&pages, gs_http_pages_find(&pages, name(1)), 7);
    check_pages();
    CHECK_EQ(gs_http_pages_find(&pages, name(1))->checked_ns, 7);
    CHECK(insert(4, 3000, true));
    CHECK(gs_http_pages_find(&pages, name(1)));
    CHECK(!gs_http_pages_find(&pages, name(2)));
    CHECK(gs_http_pages_find(&pages, name(3)));
    gs_http_pages_done(&pages);
}

TEST(page_larger_than_the_cache_is_not_kept_and_drives_nothing_out)
{
    gs_http_pages_init(&pages, 5000, 10);
    CHECK(insert(1, 1000, true));
    CHECK(!insert(2, 5000, true));
    CHECK(gs_http_pages_find(&pages, name(1)));
    /* But what it replaces is out of date. */
    CHECK(!insert(1, 5000, true));
    CHECK_EQ(pages.count, 0);
    gs_http_pages_done(&pages);
}

TEST(descriptors_are_bounded_too)
{
    gs_http_pages_init(&pages, 1 << 20, 2);
    struct gs_http_page *first = insert(1, 1000000, false);
    int fd = first->fd;
    CHECK(insert(2, 10, true));
    CHECK(insert(3, 1000000, false));
    CHECK(insert(4, 1000000, false));
    CHECK(!gs_http_pages_find(&pages, name(1)));
    CHECK(fcntl(fd, F_GETFD) < 0 || gs_http_pages_find(&pages, name(4))->fd == fd);
    CHECK(gs_http_pages_find(&pages, name(3)));
    CHECK_EQ(pages.descriptors, 2);
    gs_http_pages_done(&pages);
    gs_http_pages_init(&pages, 1 << 20, 0);
    CHECK(!insert(1, 1000000, false));
    gs_http_pages_done(&pages);
}

TEST(page_that_was_removed_lives_as_long_as_it_is_used)
{
    gs_http_pages_init(&pages, 1 << 20, 2);
    struct gs_http_page *page = gs_http_page_ref(insert(1, 4, true));
    insert(2, 4, true);
    gs_http_pages_remove(&pages, page);
    check_pages();
    CHECK(!gs_http_pages_find(&pages, name(1)));
    memcpy(page->body, "abcd", 4);
    gs_http_pages_done(&pages);
    CHECK_EQ(page->references, 1);
    gs_http_page_unref(page);
}
