#include "http/condition.h"

#include "http/etag.h"
#include "tests/test.h"

#define NOW INT64_C(1795262400)
#define MODIFIED "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER "Sun, 06 Nov 1994 08:49:38 GMT"

static struct gs_http_page page = {
    .stat = {.st_mtim = {.tv_sec = 784111777, .tv_nsec = 5}},
    .etag = {"\"1-2-3\"", 7},
};
static struct gs_http_request request;

static unsigned decide(const char *fields)
{
    char head[512];
    struct gs_http_options options;
    gs_http_options_default(&options);
    snprintf(head, sizeof head, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
    CHECK_EQ(gs_http_request_parse((struct gs_http_text){head, strlen(head)}, &options, &request),
             0);
    return gs_http_evaluate_preconditions(&request, &page, NOW);
}

static int range_counts(const char *fields)
{
    char head[512];
    struct gs_http_options options;
    gs_http_options_default(&options);
    snprintf(head, sizeof head, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
    CHECK_EQ(gs_http_request_parse((struct gs_http_text){head, strlen(head)}, &options, &request),
             0);
    return gs_http_if_range_matches(&request, &page, NOW);
}

TEST(request_without_preconditions_continues)
{
    CHECK_EQ(decide(""), 0);
    CHECK_EQ(decide("If-Range: \"x\"\r\n"), 0);
}

TEST(if_match_requires_this_page)
{
    CHECK_EQ(decide("If-Match: \"1-2-3\"\r\n"), 0);
    CHECK_EQ(decide("If-Match: *\r\n"), 0);
    CHECK_EQ(decide("If-Match: \"x\", \"1-2-3\"\r\n"), 0);
    CHECK_EQ(decide("If-Match: \"x\"\r\nIf-Match: \"1-2-3\"\r\n"), 0);
    CHECK_EQ(decide("If-Match: \"x\"\r\n"), 412);
    CHECK_EQ(decide("If-Match: W/\"1-2-3\"\r\n"), 412);
    CHECK_EQ(decide("If-Match: 1-2-3\r\n"), 412);
    CHECK_EQ(decide("If-Match:\r\n"), 412);
}

TEST(if_unmodified_since_counts_only_without_if_match)
{
    CHECK_EQ(decide("If-Unmodified-Since: " MODIFIED "\r\n"), 0);
    CHECK_EQ(decide("If-Unmodified-Since: " AFTER "\r\n"), 0);
    CHECK_EQ(decide("If-Unmodified-Since: " BEFORE "\r\n"), 412);
    CHECK_EQ(decide("If-Unmodified-Since: yesterday\r\n"), 0);
    CHECK_EQ(decide("If-Match: *\r\nIf-Unmodified-Since: " BEFORE "\r\n"), 0);
}

TEST(if_none_match_requires_another_page)
{
    CHECK_EQ(decide("If-None-Match: \"1-2-3\"\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: W/\"1-2-3\"\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: *\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: \"x\"\r\nIf-None-Match: \"1-2-3\"\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: \"x\"\r\n"), 0);
}

TEST(if_modified_since_counts_only_without_if_none_match)
{
    CHECK_EQ(decide("If-Modified-Since: " MODIFIED "\r\n"), 304);
    CHECK_EQ(decide("If-Modified-Since: " AFTER "\r\n"), 304);
    CHECK_EQ(decide("If-Modified-Since: " BEFORE "\r\n"), 0);
    CHECK_EQ(decide("If-Modified-Since: yesterday\r\n"), 0);
    CHECK_EQ(decide("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: \"x\"\r\nIf-Modified-Since: " MODIFIED "\r\n"), 0);
}

TEST(failed_precondition_takes_precedence_over_not_modified)
{
    CHECK_EQ(decide("If-None-Match: \"1-2-3\"\r\nIf-Match: \"x\"\r\n"), 412);
    CHECK_EQ(decide("If-None-Match: \"1-2-3\"\r\nIf-Match: \"1-2-3\"\r\n"), 304);
}

TEST(if_range_applies_to_this_page_only)
{
    CHECK(range_counts(""));
    CHECK(range_counts("If-Range: \"1-2-3\"\r\n"));
    CHECK(!range_counts("If-Range: W/\"1-2-3\"\r\n"));
    CHECK(!range_counts("If-Range: \"1-2-4\"\r\n"));
    CHECK(!range_counts("If-Range: \"1-2-3\", \"x\"\r\n"));
    CHECK(!range_counts("If-Range: *\r\n"));
    CHECK(!range_counts("If-Range:\r\n"));
    CHECK(range_counts("If-Range: " MODIFIED "\r\n"));
    CHECK(!range_counts("If-Range: " BEFORE "\r\n"));
    CHECK(!range_counts("If-Range: " AFTER "\r\n"));
}

/* The file may have been modified twice in that second. */
TEST(if_range_with_a_date_applies_only_if_the_file_is_unmodified_for_a_minute)
{
    const time_t before = page.stat.st_mtim.tv_sec;
    char field[64];
    for (int age = 0; age <= 120; age += 30) {
        page.stat.st_mtim.tv_sec = NOW - age;
        strftime(field, sizeof field, "If-Range: %a, %d %b %Y %H:%M:%S GMT\r\n",
                 gmtime(&page.stat.st_mtim.tv_sec));
        CHECK_EQ(range_counts(field), age > 60);
    }
    page.stat.st_mtim.tv_sec = before;
}

TEST(if_range_accepts_dates_of_a_wednesday)
{
    page.stat.st_mtim.tv_sec = 784371600;
    CHECK(range_counts("If-Range: Wed, 09 Nov 1994 09:00:00 GMT\r\n"));
    page.stat.st_mtim.tv_sec = 784111777;
    CHECK(!range_counts("If-Range: Wed, 09 Nov 1994 09:00:00 GMT\r\n"));
}
