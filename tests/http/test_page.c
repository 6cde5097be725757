#include "http/page.h"

#include "tests/test.h"

static const struct stat state = {
    .st_ino = 10, .st_size = 16, .st_mtim = {.tv_sec = 784111777, .tv_nsec = 1}};

TEST(page_has_the_head_of_its_response)
{
    struct gs_http_page *page =
        gs_http_page_new(GS_HTTP_TEXT("a/b.txt"), &state, NULL, GS_HTTP_PAGE_IN_MEMORY);
    CHECK(page);
    char expected[512];
    int n = snprintf(expected, sizeof expected,
                     "HTTP/1.1 200 OK\r\nServer: gossamer\r\nDate: %29s\r\n"
                     "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 16\r\n"
                     "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                     "ETag: \"%.16s-10\"\r\nAccept-Ranges: bytes\r\n\r\n",
                     "", page->etag.bytes + 1);
    CHECK_EQ(page->head.n, n);
    CHECK(!memcmp(page->head.bytes, expected, page->head.n));
    CHECK(!memcmp(page->head.bytes + GS_HTTP_PAGE_DATE - 6, "Date: ", 6));
    CHECK(!memcmp(page->validators.bytes, "Last-Modified: Sun", 18));
    CHECK(!memcmp(page->validators.bytes + GS_HTTP_PAGE_LAST_MODIFIED, "Sun, 06", 7));
    CHECK(page->validators.bytes + page->validators.n == page->head.bytes + page->head.n);
    CHECK(page->body == page->head.bytes + page->head.n);
    CHECK(gs_http_text_is(page->path, "a/b.txt"));
    gs_http_page_unref(page);
}

/* Two servers have the same files, each with inodes of its own. */
TEST(portable_tags_of_copies_are_equal)
{
    struct stat copy = state;
    copy.st_ino++;
    for (unsigned flags = 0; flags <= GS_HTTP_PAGE_PORTABLE_ETAG;
         flags += GS_HTTP_PAGE_PORTABLE_ETAG) {
        struct gs_http_page *a = gs_http_page_new(GS_HTTP_TEXT("x"), &state, NULL, flags);
        struct gs_http_page *b = gs_http_page_new(GS_HTTP_TEXT("x"), &copy, NULL, flags);
        CHECK(a && b);
        CHECK_EQ(gs_http_text_is(a->etag, "") || memcmp(a->etag.bytes, b->etag.bytes, a->etag.n),
                 !flags);
        gs_http_page_unref(a);
        gs_http_page_unref(b);
    }
}

TEST(page_of_any_file_has_room_for_its_head)
{
    struct stat largest = {.st_ino = UINT64_MAX,
                           .st_size = INT64_MAX,
                           .st_mtim = {.tv_sec = INT64_MIN / 1000000000, .tv_nsec = 999999999}};
    struct gs_http_page *page = gs_http_page_new(GS_HTTP_TEXT("x.docx"), &largest, NULL, 0);
    CHECK(page);
    CHECK(page->head.n < 512);
    CHECK(!page->body);
    CHECK_EQ(page->fd, -1);
    gs_http_page_unref(page);
    gs_http_page_unref(NULL);
}

TEST(last_reference_closes_the_descriptor)
{
    struct gs_http_page *page = gs_http_page_new(GS_HTTP_TEXT("x"), &state, NULL, 0);
    CHECK(page);
    int fd = page->fd = open("/dev/null", O_RDONLY);
    CHECK(fd >= 0);
    CHECK(gs_http_page_ref(page) == page);
    gs_http_page_unref(page);
    CHECK(fcntl(fd, F_GETFD) >= 0);
    gs_http_page_unref(page);
    CHECK(fcntl(fd, F_GETFD) < 0);
}

TEST(same_file_requires_equality_of_all_attributes)
{
    struct stat other = state;
    CHECK(gs_http_page_is_same_file(&state, &other));
    other.st_size++;
    CHECK(!gs_http_page_is_same_file(&state, &other));
    other = state, other.st_ino++;
    CHECK(!gs_http_page_is_same_file(&state, &other));
    other = state, other.st_dev++;
    CHECK(!gs_http_page_is_same_file(&state, &other));
    other = state, other.st_mtim.tv_nsec++;
    CHECK(!gs_http_page_is_same_file(&state, &other));
    other = state, other.st_ctim.tv_sec++;
    CHECK(!gs_http_page_is_same_file(&state, &other));
    other = state, other.st_atim.tv_sec++;
    CHECK(gs_http_page_is_same_file(&state, &other));
}
