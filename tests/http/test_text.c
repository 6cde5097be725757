#include "http/text.h"
#include "tests/test.h"

TEST(text_equals_a_word_only_byte_by_byte)
{
    CHECK(gs_http_text_is(GS_HTTP_TEXT("GET"), "GET"));
    CHECK(!gs_http_text_is(GS_HTTP_TEXT("get"), "GET"));
    CHECK(!gs_http_text_is(GS_HTTP_TEXT("GE"), "GET"));
    CHECK(!gs_http_text_is(GS_HTTP_TEXT("GETS"), "GET"));
    CHECK(!gs_http_text_is(GS_HTTP_TEXT("GE\0T"), "GE"));
}

TEST(absent_text_equals_the_empty_word)
{
    struct gs_http_text absent = {NULL, 0};
    CHECK(gs_http_text_is(absent, ""));
    CHECK(gs_http_text_is_nocase(absent, ""));
    CHECK(!gs_http_text_is(absent, "a"));
}

TEST(only_letters_are_case_folded)
{
    CHECK(gs_http_text_is_nocase(GS_HTTP_TEXT("Keep-ALIVE"), "keep-alive"));
    CHECK(gs_http_text_is_nocase(GS_HTTP_TEXT("AZaz09"), "azaz09"));
    CHECK(!gs_http_text_is_nocase(GS_HTTP_TEXT("@"), "`"));
    CHECK(!gs_http_text_is_nocase(GS_HTTP_TEXT("["), "{"));
    CHECK(!gs_http_text_is_nocase(GS_HTTP_TEXT("\xc0"), "\xe0"));
    CHECK(!gs_http_text_is_nocase(GS_HTTP_TEXT("close "), "close"));
}
