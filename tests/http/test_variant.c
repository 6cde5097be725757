/* Responses with variants of a page: siblings, and what the test provides as a compressor. */
#include "http/service.h"
#include "http/variant.h"
#include "tests/http/drive_check.h"

#include <errno.h>
#include <stdlib.h>

#define ACCEPT(name_, value_)                                                                      \
    "GET /" name_ " HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " value_ "\r\n\r\n"
#define BROWSER "gzip, deflate, br, zstd"
#define TEXT_N 1000

static struct gs_http_options options;
static char text[TEXT_N + 1];

/* What the compressor answers: 0 or an error; and how often it was asked, for what. */
static int answer;
static unsigned asked;
static enum gs_http_coding asked_for;
static size_t coded_n;

static int get(struct gs_http_page *page, enum gs_http_coding coding,
               struct gs_http_coded **ret_coded, void *data)
{
    CHECK(data == &answer && !page->coding);
    asked++;
    asked_for = coding;
    if (answer)
        return answer;
    struct gs_http_coded *coded = malloc(sizeof *coded + coded_n);
    CHECK(coded);
    coded->references = 1;
    coded->n = coded_n;
    memset(coded->bytes, "-bzg"[coding], coded_n);
    *ret_coded = coded;
    return 0;
}

static const struct gs_http_compressor compressor = {
    .codings = GS_HTTP_CODING_BIT(GS_HTTP_IN_BR) | GS_HTTP_CODING_BIT(GS_HTTP_IN_ZSTD) |
               GS_HTTP_CODING_BIT(GS_HTTP_IN_GZIP),
    .get = get,
    .data = &answer,
};

static void start(bool precompressed, bool compresses)
{
    gs_http_options_default(&options);
    options.max_cached_file = 4000;
    options.precompressed = precompressed;
    options.compressor = compresses ? &compressor : NULL;
    drive_start(&drive, &options);
    memset(text, 'x', TEXT_N);
    drive_write(&drive, "a.css", text);
    answer = 0;
    asked = 0;
    coded_n = 100;
}

static void stop(void)
{
    CHECK_EQ(drive_stop(&drive), 0);
}

#define SIBLING_TEST(name_) FIXTURE_TEST(name_, start(true, false), stop())
#define COMPRESSOR_TEST(name_) FIXTURE_TEST(name_, start(false, true), stop())

/* The coding of the last response; NULL: none. It depends on Accept-Encoding in any case. */
static void check_coding(const char *coding)
{
    char field[64];
    snprintf(field, sizeof field, "Content-Encoding: %s", coding ? coding : "");
    CHECK(drive_has_field(&response, "Vary: Accept-Encoding"));
    if (coding)
        CHECK(drive_has_field(&response, field));
    else
        CHECK(!memmem(response.head, response.head_length, "Content-Encoding", 16));
}

static void check_variant(const char *request, const char *coding, const char *body)
{
    check_body(request, body);
    check_coding(coding);
}

static void get_etag(char etag[64])
{
    const char *at = memmem(response.head, response.head_length, "ETag: ", 6);
    CHECK(at);
    snprintf(etag, 64, "%.*s", (int)strcspn(at + 6, "\r"), at + 6);
}

static void write_siblings(void)
{
    drive_write(&drive, "a.css.br", "brotli");
    drive_write(&drive, "a.css.zst", "zstandard");
    drive_write(&drive, "a.css.gz", "gzipped.");
}

/* ---- Siblings ---- */

SIBLING_TEST(smallest_of_the_accepted_siblings_is_sent)
{
    write_siblings();
    for (int i = 0; i < 2; i++) {
        check_variant(ACCEPT("a.css", BROWSER), "br", "brotli");
        check_variant(ACCEPT("a.css", "gzip"), "gzip", "gzipped.");
        check_variant(ACCEPT("a.css", "zstd, gzip"), "gzip", "gzipped.");
        check_variant(ACCEPT("a.css", "zstd, gzip;q=0.9"), "zstd", "zstandard");
        check_variant(ACCEPT("a.css", "identity, br;q=0.5"), NULL, text);
        check_variant(ACCEPT("a.css", "deflate"), NULL, text);
        check_variant(GET("a.css"), NULL, text);
        CHECK(drive_has_field(&response, "Content-Type: text/css; charset=utf-8"));
        check_status(ACCEPT("a.css", "*;q=0"), 406);
        CHECK(drive_has_field(&response, "Vary: Accept-Encoding"));
    }
    CHECK_EQ(drive.service->cache.count, 1);
}

/* After so many values of Accept-Encoding, the choice is still the own one. */
SIBLING_TEST(choice_is_not_that_for_an_earlier_client)
{
    write_siblings();
    check_variant(GET("a.css"), NULL, text);
    drive.service->accepting_id = UINT32_MAX - 1;
    check_variant(ACCEPT("a.css", "gzip;q=0.7"), "gzip", "gzipped.");
    check_variant(ACCEPT("a.css", "br;q=0.7"), "br", "brotli");
    check_variant(ACCEPT("a.css", "zstd;q=0.7"), "zstd", "zstandard");
    check_variant(GET("a.css"), NULL, text);
}

SIBLING_TEST(lines_of_accept_encoding_are_one_list)
{
    write_siblings();
    check_variant("GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: zstd\r\n"
                  "Accept-Encoding: gzip\r\n\r\n",
                  "gzip", "gzipped.");
    check_variant(ACCEPT("a.css", "zstd"), "zstd", "zstandard");
    check_variant("GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Language: de\r\n"
                  "accept-encodinG: gzip;q=0.100, br;q=0.200, zstd;q=0.300, deflate, bzip2\r\n\r\n",
                  "zstd", "zstandard");
}

SIBLING_TEST(each_variant_has_an_entity_tag)
{
    char etags[4][64];
    const char *const requests[] = {GET("a.css"), ACCEPT("a.css", "br"), ACCEPT("a.css", "zstd"),
                                    ACCEPT("a.css", "gzip")};
    write_siblings();
    for (int i = 0; i < 4; i++) {
        check_status(requests[i], 200);
        get_etag(etags[i]);
        CHECK_EQ(etags[i][0], '"');
        for (int j = 0; j < i; j++)
            CHECK(strcmp(etags[i], etags[j]));
    }
    CHECK(strstr(etags[1], "-br\""));
    char request[256];
    for (int i = 0; i < 4; i++) {
        snprintf(
            request, sizeof request,
            "GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\nIf-None-Match: %s\r\n\r\n",
            etags[i]);
        check_status(request, i == 1 ? 304 : 200);
        CHECK(drive_has_field(&response, "Vary: Accept-Encoding"));
        snprintf(request, sizeof request,
                 "GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\nIf-Match: %s\r\n\r\n",
                 etags[i]);
        check_status(request, i == 1 ? 200 : 412);
        CHECK(drive_has_field(&response, "Vary: Accept-Encoding"));
    }
}

SIBLING_TEST(ranges_are_those_of_the_chosen_variant)
{
    write_siblings();
    check_status("GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n"
                 "Range: bytes=1-2\r\n\r\n",
                 206);
    check_coding("br");
    CHECK(drive_has_field(&response, "Content-Range: bytes 1-2/6"));
    CHECK(response.body_length == 2 && !memcmp(response.body, "ro", 2));
    check_status("GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n"
                 "Range: bytes=0-0,3-3\r\n\r\n",
                 206);
    static const char part[] = "Content-Type: text/css; charset=utf-8\r\nContent-Encoding: br\r\n"
                               "Content-Range: bytes 0-0/6\r\n\r\nb\r\n";
    CHECK(memmem(response.body, response.body_length, part, sizeof part - 1));
    CHECK(!memmem(response.head, response.head_length, "Content-Encoding", 16));
    check_status("GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n"
                 "Range: bytes=500-\r\n\r\n",
                 416);
    CHECK(drive_has_field(&response, "Content-Range: bytes */6"));
    CHECK(drive_has_field(&response, "Vary: Accept-Encoding"));
}

SIBLING_TEST(head_of_a_variant_has_its_length)
{
    write_siblings();
    drive_send(&drive, "HEAD /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
    CHECK(drive_next_response(&drive, true, &response));
    CHECK_EQ(response.status, 200);
    CHECK(drive_has_field(&response, "Content-Length: 6"));
    check_coding("br");
}

SIBLING_TEST(path_with_siblings_only_is_sent_to_those_that_accept_them)
{
    drive_write(&drive, "b.js.gz", "gzipped");
    drive_mkdir(&drive, "d");
    drive_write(&drive, "d/index.html.br", "index");
    for (int i = 0; i < 2; i++) {
        check_variant(ACCEPT("b.js", BROWSER), "gzip", "gzipped");
        CHECK(drive_has_field(&response, "Content-Type: text/javascript; charset=utf-8"));
        check_variant(GET("b.js"), "gzip", "gzipped"); /* RFC 9110, 12.5.3: all is acceptable */
        check_status(ACCEPT("b.js", "br"), 406);
        check_status(ACCEPT("b.js", ""), 406);
        check_variant(ACCEPT("d/", "br"), "br", "index");
        CHECK(drive_has_field(&response, "Content-Type: text/html; charset=utf-8"));
        drive.now_ns += GS_SECOND;
    }
    check_status(ACCEPT("none.js", BROWSER), 404);
    drive_write(&drive, "b.js", "plain");
    drive.now_ns += GS_SECOND;
    check_variant(ACCEPT("b.js", "br"), NULL, "plain");
    CHECK_EQ(unlink(drive_path(&drive, "b.js")), 0);
    drive.now_ns += GS_SECOND;
    check_variant(GET("b.js"), "gzip", "gzipped");
    CHECK_EQ(unlink(drive_path(&drive, "b.js.gz")), 0);
    drive.now_ns += GS_SECOND;
    check_status(GET("b.js"), 404);
    CHECK_EQ(unlink(drive_path(&drive, "d/index.html.br")), 0);
    drive.now_ns += GS_SECOND;
    check_status(GET("d/"), 403);
}

SIBLING_TEST(siblings_come_change_and_go_within_a_second)
{
    check_variant(ACCEPT("a.css", BROWSER), NULL, text);
    drive_write(&drive, "a.css.br", "first");
    drive.now_ns += GS_SECOND;
    check_variant(ACCEPT("a.css", BROWSER), "br", "first");
    drive_write(&drive, "a.css.br", "second");
    drive.now_ns += GS_SECOND;
    check_variant(ACCEPT("a.css", BROWSER), "br", "second");
    struct gs_http_page *page =
        gs_http_cache_find(&drive.service->cache, drive.service->site, GS_HTTP_TEXT("a.css"));
    struct gs_http_page *variant = page->variants[GS_HTTP_IN_BR];
    drive.now_ns += GS_SECOND;
    check_variant(ACCEPT("a.css", BROWSER), "br", "second");
    CHECK(page->variants[GS_HTTP_IN_BR] == variant);
    CHECK_EQ(unlink(drive_path(&drive, "a.css.br")), 0);
    drive.now_ns += GS_SECOND;
    check_variant(ACCEPT("a.css", BROWSER), NULL, text);
}

SIBLING_TEST(large_siblings_are_sent_from_their_descriptors)
{
    static char large[10000], larger[20000];
    memset(large, 'b', sizeof large);
    memset(larger, 'i', sizeof larger);
    drive_write_bytes(&drive, "l.js", larger, sizeof larger);
    drive_write_bytes(&drive, "l.js.br", large, sizeof large);
    for (int i = 0; i < 3; i++) {
        check_status(ACCEPT("l.js", BROWSER), 200);
        check_coding("br");
        CHECK(response.body_length == sizeof large && !memcmp(response.body, large, sizeof large));
        check_status(GET("l.js"), 200);
        CHECK(response.body_length == sizeof larger);
        CHECK_EQ(drive.service->cache.descriptors, 2);
        drive.now_ns += i ? GS_SECOND : 0;
    }
    /* Fresh, but changed under its descriptor. */
    memset(large, 'B', sizeof large);
    drive_write_bytes(&drive, "l.js.br", large, sizeof large);
    drive_set_mtime(&drive, "l.js.br", DRIVE_MODIFIED_S + 1);
    check_status(ACCEPT("l.js", BROWSER), 200);
    CHECK(response.body_length == sizeof large && !memcmp(response.body, large, sizeof large));
}

SIBLING_TEST(siblings_that_are_older_empty_or_of_another_kind_are_no_siblings)
{
    write_siblings();
    drive_set_mtime(&drive, "a.css.br", DRIVE_MODIFIED_S - 1);
    drive_write(&drive, "a.css.zst", "");
    CHECK_EQ(unlink(drive_path(&drive, "a.css.gz")), 0);
    drive_mkdir(&drive, "a.css.gz");
    check_variant(ACCEPT("a.css", BROWSER), NULL, text);
}

SIBLING_TEST(siblings_are_counted_in_the_limits_of_the_cache)
{
    struct gs_http_cache *cache = &drive.service->cache;
    write_siblings();
    check_variant(ACCEPT("a.css", BROWSER), "br", "brotli");
    size_t with = cache->bytes;
    drive.now_ns += 3 * GS_SECOND;
    gs_http_service_expire(drive.service, drive.now_ns);
    CHECK_EQ(cache->bytes, 0);
    /* There is room for the page, but not for all siblings: they are sent, but not kept. */
    cache->max_bytes = with - 1;
    for (int i = 0; i < 2; i++)
        check_variant(ACCEPT("a.css", BROWSER), "br", "brotli");
    CHECK_EQ(cache->bytes, 0);
    cache->max_bytes = with;
    check_variant(ACCEPT("a.css", BROWSER), "br", "brotli");
    CHECK_EQ(cache->bytes, with);
}

SIBLING_TEST(pictures_have_no_siblings)
{
    drive_write(&drive, "p.png", "picture");
    drive_write(&drive, "p.png.gz", "gz");
    check_body(ACCEPT("p.png", "gzip"), "picture");
    CHECK(!drive_has_field(&response, "Vary: Accept-Encoding"));
}

/* ---- The compressor ---- */

COMPRESSOR_TEST(page_is_sent_as_it_is_until_it_is_compressed)
{
    answer = -EAGAIN;
    check_variant(GET("a.css"), NULL, text);
    CHECK_EQ(asked, 0);
    check_variant(ACCEPT("a.css", BROWSER), NULL, text);
    check_variant(ACCEPT("a.css", BROWSER), NULL, text);
    CHECK_EQ(asked, 2);
    CHECK_EQ(asked_for, GS_HTTP_IN_BR);
    check_variant(ACCEPT("a.css", "identity;q=0, gzip"), NULL, text);
    answer = 0;
    coded_n = 3;
    for (int i = 0; i < 3; i++)
        check_variant(ACCEPT("a.css", BROWSER), "br", "bbb");
    CHECK_EQ(asked, 4);
    check_variant(ACCEPT("a.css", "gzip"), "gzip", "ggg");
    check_variant(ACCEPT("a.css", "gzip"), "gzip", "ggg");
    check_variant(ACCEPT("a.css", "br;q=0.5, gzip"), "gzip", "ggg");
    check_variant(ACCEPT("a.css", BROWSER), "br", "bbb");
    check_variant(GET("a.css"), NULL, text);
    check_status(ACCEPT("a.css", "*;q=0"), 406);
    CHECK_EQ(asked, 5);
    drive.now_ns += GS_SECOND;
    check_variant(ACCEPT("a.css", BROWSER), "br", "bbb");
    CHECK_EQ(asked, 5);
}

COMPRESSOR_TEST(page_that_compression_does_not_help_is_not_asked_for_again)
{
    answer = -ENODATA;
    for (int i = 0; i < 3; i++)
        check_variant(ACCEPT("a.css", BROWSER), NULL, text);
    check_variant(ACCEPT("a.css", "gzip, identity;q=0"), NULL, text);
    CHECK_EQ(asked, 1);
}

COMPRESSOR_TEST(only_pages_of_certain_sizes_and_types_are_compressed)
{
    drive_write(&drive, "small.css", "small");
    drive_write(&drive, "p.jpeg", text);
    check_body(ACCEPT("small.css", BROWSER), "small");
    CHECK(!drive_has_field(&response, "Vary: Accept-Encoding"));
    check_body(ACCEPT("p.jpeg", BROWSER), text);
    CHECK(!drive_has_field(&response, "Vary: Accept-Encoding"));
    CHECK_EQ(asked, 0);
}

COMPRESSOR_TEST(changed_page_is_compressed_again)
{
    check_status(ACCEPT("a.css", BROWSER), 200);
    check_coding("br");
    text[0] = 'y';
    drive_write(&drive, "a.css", text);
    drive.now_ns += GS_SECOND;
    check_variant(GET("a.css"), NULL, text);
    check_status(ACCEPT("a.css", BROWSER), 200);
    check_coding("br");
    CHECK_EQ(asked, 2);
}

/* The version that is compressed could not be told from one that follows at once. */
COMPRESSOR_TEST(page_that_has_just_changed_is_not_compressed)
{
    struct stat stat;
    CHECK_EQ(fstatat(drive.root_fd, "a.css", &stat, 0), 0);
    uint64_t changed_ns =
        (uint64_t)stat.st_ctim.tv_sec * GS_SECOND + (uint64_t)stat.st_ctim.tv_nsec;
    gs_http_service_set_wall_clock(drive.service, drive.now_ns, changed_ns + GS_SECOND);
    check_variant(ACCEPT("a.css", BROWSER), NULL, text);
    CHECK_EQ(asked, 0);
    drive.now_ns += 2 * GS_SECOND;
    check_status(ACCEPT("a.css", BROWSER), 200);
    check_coding("br");
}

COMPRESSOR_TEST(large_page_is_compressed_and_a_large_body_is_shared)
{
    static char large[20000];
    drive_write_bytes(&drive, "l.js", large, sizeof large);
    static const size_t sizes[] = {3999, 4000, 4001, 9000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        coded_n = sizes[i];
        drive.now_ns += 3 * GS_SECOND;
        gs_http_service_expire(drive.service, drive.now_ns);
        for (int j = 0; j < 3; j++) {
            check_status(ACCEPT("l.js", BROWSER), 200);
            check_coding("br");
            CHECK_EQ(response.body_length, coded_n);
            CHECK(response.body[0] == 'b' && response.body[coded_n - 1] == 'b');
        }
    }
    options.max_cached_file = 100;
    drive.service->options.max_cached_file = 100;
    coded_n = 200; /* shared, although it is short enough to be copied into the output */
    drive.now_ns += 3 * GS_SECOND;
    gs_http_service_expire(drive.service, drive.now_ns);
    check_status(ACCEPT("l.js", BROWSER), 200);
    check_status(ACCEPT("l.js", BROWSER), 200);
    CHECK(response.body_length == coded_n && response.body[0] == 'b');
}

COMPRESSOR_TEST(variants_that_have_no_room_are_not_kept)
{
    struct gs_http_cache *cache = &drive.service->cache;
    check_variant(GET("a.css"), NULL, text);
    cache->max_bytes = cache->bytes + 50;
    check_variant(ACCEPT("a.css", BROWSER), NULL, text);
    CHECK_EQ(cache->count, 1);
}

TEST(siblings_are_preferred_to_compression)
{
    start(true, true);
    drive_write(&drive, "a.css.gz", "gz");
    check_variant(ACCEPT("a.css", BROWSER), "gzip", "gz");
    check_variant(ACCEPT("a.css", "br"), NULL, text);
    CHECK_EQ(asked, 0);
    CHECK_EQ(unlink(drive_path(&drive, "a.css.gz")), 0);
    drive.now_ns += GS_SECOND;
    check_status(ACCEPT("a.css", "br"), 200);
    check_coding("br");
    CHECK_EQ(asked, 1);
    drive_write(&drive, "a.css.gz", "gz");
    drive.now_ns += GS_SECOND;
    check_variant(ACCEPT("a.css", BROWSER), "gzip", "gz");
    stop();
}

TEST(without_the_options_accept_encoding_is_ignored)
{
    start(false, false);
    write_siblings();
    check_body(ACCEPT("a.css", BROWSER), text);
    CHECK(!drive_has_field(&response, "Vary: Accept-Encoding"));
    check_body(ACCEPT("a.css", "*;q=0"), text);
    stop();
}
