#include "http/pattern.h"
#include "tests/test.h"

static void check(bool expected, const char *pattern, const char *path)
{
    struct gs_http_text text = {path, strlen(path)};
    CHECK(!gs_http_pattern_problem(pattern));
    if (gs_http_pattern_match(pattern, text, NULL) != expected)
        TEST_FAIL("%s %s %s", pattern, expected ? "does not match" : "matches", path);
}

TEST(a_pattern_without_a_slash_is_for_the_last_name)
{
    check(true, "*.js", "a.js");
    check(true, "*.js", "one/two/a.min.js");
    check(true, "*.js", ".js");
    check(true, "a", "b/a");
    check(true, "*", "b/a");
    check(true, "*", "");
    check(true, "*", "docs/");
    check(true, "**", "one/two/three");
    check(false, "*.js", "a.js/b");
    check(false, "*.js", "a.json");
    check(false, "a", "a/");
    check(false, "a", "b/aa");
}

TEST(a_pattern_with_a_slash_is_for_the_whole_path)
{
    check(true, "/a", "a");
    check(false, "/a", "b/a");
    check(true, "/", "");
    check(false, "/", "a");
    check(true, "docs/", "docs/");
    check(false, "docs/", "docs");
    check(false, "docs/", "docs/a");
    check(true, "img/logo-*", "img/logo-1.png");
    check(true, "/img/logo-*", "img/logo-");
    check(false, "img/logo-*", "img/logo-1/x");
    check(false, "img/logo-*", "x/img/logo-1");
    check(true, "*/x", "a/x");
    check(false, "*/x", "a/b/x");
    check(false, "*/x", "x");
}

TEST(asterisks_within_a_name_do_not_cross_a_slash)
{
    check(true, "a*b*c", "abc");
    check(true, "a*b*c", "aXbYbZc");
    check(false, "a*b*c", "aXbY");
    check(true, "/a*b/c*d", "axxb/cxd");
    check(false, "/a*b/c*d", "ax/b/cxd");
    check(true, "/a**b", "aXb");
    check(false, "/a**b", "a/b");
    check(true, "***", "x");
    check(true, "/***", "x");
    check(false, "/***", "x/y");
}

TEST(two_asterisks_are_any_number_of_names)
{
    check(true, "/**", "");
    check(true, "/**", "a/b/c");
    check(true, "assets/**", "assets/a");
    check(true, "assets/**", "assets/a/b.css");
    check(true, "assets/**", "assets/");
    check(false, "assets/**", "assets");
    check(false, "assets/**", "assetsx/a");
    check(true, "**/draft", "draft");
    check(true, "**/draft", "a/b/draft");
    check(false, "**/draft", "a/xdraft");
    check(true, "a/**/b", "a/b");
    check(true, "a/**/b", "a/x/y/b");
    check(false, "a/**/b", "a/x/yb");
    check(true, "**/x/**", "x/");
    check(true, "**/x/**", "a/x/b/c");
    check(true, "**/a*b/*.c", "a/ab/ab/x.c");
    check(true, "**/a/**/b/c", "a/b/a/x/b/b/c");
    check(false, "**/a/**/b/c", "b/a/x/b/c/d");
    check(true, "a/**/", "a/b/");
    check(false, "a/**/", "a/b");
}

TEST(other_bytes_stand_for_themselves)
{
    check(true, "[id].html", "x/[id].html");
    check(false, "[id].html", "i.html");
    check(true, "a{b}%.$", "a{b}%.$");
    check(true, "f\xc3\xbc*", "f\xc3\xbcr");
}

/* With the wildcards of each pattern, and what they stand for. */
static void check_captures(const char *pattern, const char *path, const char *expected)
{
    struct gs_http_text text = {path, strlen(path)}, captures[GS_HTTP_CAPTURES_MAX];
    char found[256] = "";
    CHECK(gs_http_pattern_match(pattern, text, captures));
    for (unsigned i = 0; i < gs_http_pattern_wildcards(pattern) && i < GS_HTTP_CAPTURES_MAX; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "[%.*s]", (int)captures[i].n,
                 captures[i].bytes);
    CHECK_STR(found, expected);
}

TEST(wildcards_tell_what_they_stand_for)
{
    check_captures("*.js", "one/a.min.js", "[a.min]");
    check_captures("/old/**", "old/a/b", "[a/b]");
    check_captures("/old/**", "old/", "[]");
    check_captures("/old/**", "old/a/", "[a/]");
    check_captures("**/x", "x", "[]");
    check_captures("**/x", "a/x/b/x", "[a/x/b]");
    check_captures("/*/**/*-*.html", "de/a/b/c-d-e.html", "[de][a/b][c][d-e]");
    check_captures("/**/a*/b*c", "x/ay/bb/azz/bqcqc", "[x/ay/bb][zz][qcq]");
    check_captures("*a*b*c*d*e*f*g*h*i*j*", "abcdefghij", "[][][][][][][][][]");
    check_captures("/plain", "plain", "");
    check_captures("***", "abc", "[abc]");
}

TEST(patterns_that_match_no_path_are_refused)
{
    static const char *const wrong[] = {"",    "//",   "a//b", "a/./b", "..",    "a/..",
                                        "./a", "a\\b", "a\n",  "\x7f",  "a.js?", "a/\x01"};
    char longer[GS_HTTP_PATTERN_MAX + 2];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!gs_http_pattern_problem(wrong[i]))
            TEST_FAIL("%s is taken", wrong[i]);
    memset(longer, 'a', sizeof longer);
    longer[GS_HTTP_PATTERN_MAX + 1] = '\0';
    CHECK(gs_http_pattern_problem(longer));
    CHECK(!gs_http_pattern_problem(longer + 1));
    CHECK(!gs_http_pattern_problem("a.b/...c/.well-known/x.."));
}

/* It would take longer than the test may with an algorithm that tries all. */
TEST(no_path_takes_long_to_match)
{
    static char path[8192], pattern[GS_HTTP_PATTERN_MAX + 1];
    memset(path, 'a', sizeof path);
    for (size_t i = 0; i + 2 < sizeof pattern - 2; i += 2)
        memcpy(pattern + i, "*a", 2);
    strcat(pattern, "b");
    CHECK(!gs_http_pattern_match(pattern, (struct gs_http_text){path, sizeof path}, NULL));
    for (size_t i = 1; i < sizeof path; i += 2)
        path[i] = '/';
    for (size_t i = 0; i + 5 < sizeof pattern; i += 5)
        memcpy(pattern + i, "**/a/", 6);
    strcat(pattern, "b");
    CHECK(!gs_http_pattern_match(pattern, (struct gs_http_text){path, sizeof path}, NULL));
}
