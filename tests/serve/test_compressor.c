/* Compression in the background: of many requests at once, of files of all kinds, and within its
 * limit. */
#include "http/page.h"
#include "serve/operations/compressor.h"
#include "serve/operations/encode.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/clock.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT_N 60000
#define THREADS 8
#define REQUESTS 125 /* of each thread */

static struct serve_compressor *compressor;
static const struct gs_http_compressor *http;
static enum gs_http_coding coding;

/* The first coding that this program has; false: none. */
static bool find_coding(void)
{
    for (coding = GS_HTTP_IN_BR; coding < GS_HTTP_CODINGS; coding++)
        if (serve_encodings() & GS_HTTP_CODING_BIT(coding))
            return true;
    return false;
}

static void start(size_t max_bytes)
{
    if (!find_coding())
        SKIP("no coding can be compressed");
    CHECK_EQ(serve_compressor_start(serve_encodings(), max_bytes, &compressor), 0);
    http = serve_compressor_http(compressor);
    CHECK_EQ(http->codings, serve_encodings());
}

static void stop(void)
{
    serve_compressor_stop(compressor);
    compressor = NULL;
}

static struct gs_http_page *new_page(uint64_t inode, bool is_text)
{
    struct stat stat = {.st_ino = inode, .st_size = TEXT_N, .st_mtim = {.tv_sec = 1}};
    struct gs_http_page *page =
        gs_http_page_new(GS_HTTP_TEXT("a.css"), &stat, NULL, GS_HTTP_PAGE_IN_MEMORY);
    CHECK(page);
    uint32_t random = 1;
    for (size_t i = 0; i < TEXT_N; i++) {
        random = random * 1664525 + 1013904223;
        page->body[i] = is_text ? "the text of a page\n"[i % 19] : (char)(random >> 24);
    }
    return page;
}

/* Ask until there is an answer. */
static int ask(struct gs_http_page *page, enum gs_http_coding in, struct gs_http_coded **ret_coded)
{
    int err;
    *ret_coded = NULL;
    while ((err = http->get(page, in, ret_coded, http->data)) == -EAGAIN)
        usleep(100);
    return err;
}

/* ---- Requests ---- */

static void *request(void *argument)
{
    struct gs_http_page *page = argument;
    struct gs_http_coded *coded;
    for (int i = 0; i < REQUESTS; i++)
        if (!http->get(page, coding, &coded, http->data))
            gs_http_coded_unref(coded);
    return NULL;
}

/* Each worker has a page of its own. */
TEST(thousand_first_requests_at_once_compress_once)
{
    pthread_t threads[THREADS];
    struct gs_http_page *pages[THREADS];
    struct gs_http_coded *coded;
    start(1 << 20);
    for (int i = 0; i < THREADS; i++) {
        pages[i] = new_page(1, true);
        CHECK_EQ(pthread_create(&threads[i], NULL, request, pages[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(ask(pages[i], coding, &coded), 0);
        CHECK(coded->n > 0 && coded->n < TEXT_N / 10);
        gs_http_coded_unref(coded);
    }
    struct serve_compressor_counts counts = serve_compressor_count(compressor);
    CHECK_EQ(counts.compressed, 1);
    CHECK_EQ(counts.dropped, 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pages[i]->references, 1);
        gs_http_page_unref(pages[i]);
    }
    stop();
}

TEST(what_compression_does_not_help_is_remembered)
{
    struct gs_http_coded *coded;
    start(1 << 20);
    struct gs_http_page *page = new_page(1, false);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ask(page, coding, &coded), -ENODATA);
    CHECK_EQ(serve_compressor_count(compressor).dropped, 1);
    gs_http_page_unref(page);
    stop();
}

TEST(another_version_or_coding_is_another_body)
{
    struct gs_http_coded *coded;
    uint64_t bodies = 0;
    start(1 << 20);
    for (int i = 0; i < 6; i++) {
        struct gs_http_page *page = new_page(1, true);
        page->stat.st_ino += i == 1;
        page->stat.st_mtim.tv_nsec += i == 2;
        page->stat.st_ctim.tv_nsec += i == 3;
        page->stat.st_dev += i == 4;
        for (unsigned in = 1; in < GS_HTTP_CODINGS; in++) {
            if (!(http->codings & GS_HTTP_CODING_BIT(in)))
                continue;
            CHECK_EQ(ask(page, (enum gs_http_coding)in, &coded), 0);
            gs_http_coded_unref(coded);
            bodies += i < 5;
        }
        gs_http_page_unref(page);
    }
    CHECK_EQ(serve_compressor_count(compressor).compressed, bodies);
    stop();
}

/* ---- Files ---- */

static struct gs_http_page *open_page(const char *path, size_t n)
{
    struct stat stat;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, (off_t)n), 0);
    CHECK_EQ(fstat(fd, &stat), 0);
    struct gs_http_page *page = gs_http_page_new(GS_HTTP_TEXT("a.css"), &stat, NULL, 0);
    CHECK(page);
    gs_http_page_set_fd(page, fd);
    return page;
}

TEST(large_file_is_read_unless_it_has_changed)
{
    char folder[] = "/tmp/gossamer-compressor-XXXXXX", path[64];
    struct gs_http_coded *coded;
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    start(1 << 20);
    struct gs_http_page *page = open_page(path, 200000);
    CHECK_EQ(ask(page, coding, &coded), 0);
    CHECK(coded->n < 2000);
    gs_http_coded_unref(coded);
    gs_http_page_unref(page);
    page = open_page(path, 300000);
    CHECK_EQ(ftruncate(page->fd, 100000), 0);
    uint64_t end_ns = gs_clock_now() + 20 * GS_MILLISECOND;
    while (gs_clock_now() < end_ns)
        CHECK_EQ(http->get(page, coding, &coded, http->data), -EAGAIN);
    CHECK_EQ(serve_compressor_count(compressor).compressed, 1);
    stop();
    CHECK_EQ(page->references, 1);
    gs_http_page_unref(page);
    unlink(path);
    rmdir(folder);
}

/* ---- Limits ---- */

TEST(least_recently_used_bodies_make_room)
{
    struct gs_http_coded *first, *coded;
    start(4000);
    struct gs_http_page *page = new_page(0, true);
    CHECK_EQ(ask(page, coding, &first), 0);
    gs_http_page_unref(page);
    for (uint64_t inode = 1; inode < 100; inode++) {
        page = new_page(inode, true);
        CHECK_EQ(ask(page, coding, &coded), 0);
        CHECK(coded->n == first->n && !memcmp(coded->bytes, first->bytes, coded->n));
        gs_http_coded_unref(coded);
        gs_http_page_unref(page);
        CHECK(serve_compressor_count(compressor).bytes <= 4000);
    }
    CHECK_EQ(serve_compressor_count(compressor).compressed, 100);
    stop();
    CHECK_EQ(first->references, 1);
    gs_http_coded_unref(first);
}

TEST(body_that_has_no_room_is_dropped)
{
    struct gs_http_coded *coded;
    start(140);
    struct gs_http_page *page = new_page(0, true);
    CHECK_EQ(ask(page, coding, &coded), -ENODATA);
    gs_http_page_unref(page);
    stop();
}

TEST(without_room_nothing_is_compressed)
{
    struct gs_http_coded *coded;
    start(0);
    struct gs_http_page *page = new_page(0, true);
    CHECK_EQ(http->get(page, coding, &coded, http->data), -ENODATA);
    gs_http_page_unref(page);
    stop();
}

TEST(what_waits_is_limited_and_dropped_at_the_end)
{
    struct gs_http_page *pages[200];
    struct gs_http_coded *coded;
    start(1 << 20);
    for (uint64_t i = 0; i < 200; i++) {
        pages[i] = new_page(i, true);
        if (!http->get(pages[i], coding, &coded, http->data))
            gs_http_coded_unref(coded);
    }
    stop();
    for (uint64_t i = 0; i < 200; i++) {
        CHECK_EQ(pages[i]->references, 1);
        gs_http_page_unref(pages[i]);
    }
}

/* ---- Memory ---- */

/* The allocation that fails, counted down by all kernel threads; below 1: none. */
static atomic_int fails_after;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
    return atomic_fetch_sub(&fails_after, 1) == 1 ? NULL : __real_malloc(n);
}

TEST(what_has_failed_for_lack_of_memory_is_tried_again)
{
    struct gs_http_coded *coded;
    start(1 << 20);
    struct gs_http_page *page = new_page(1, true);
    for (int n = 1; n <= 3; n++) {
        page->stat.st_ino++;
        atomic_store(&fails_after, n);
        CHECK_EQ(ask(page, coding, &coded), 0);
        atomic_store(&fails_after, 0);
        gs_http_coded_unref(coded);
    }
    atomic_store(&fails_after, 0);
    CHECK_EQ(serve_compressor_count(compressor).compressed, 3);
    gs_http_page_unref(page);
    stop();
}
