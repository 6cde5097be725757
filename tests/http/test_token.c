#include "http/token.h"
#include "tests/test.h"

#include <inttypes.h>

static bool is_one_of(int c, const char *list)
{
    return c && strchr(list, c);
}

static bool is_alphanumeric(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static unsigned classes(int c)
{
    return gs_http_classes[c];
}

TEST(token_characters_are_those_of_the_rfc)
{
    for (int c = 0; c < 256; c++)
        CHECK_EQ(!!(classes(c) & GS_HTTP_TCHAR),
                 is_alphanumeric(c) || is_one_of(c, "!#$%&'*+-.^_`|~"));
}

TEST(field_characters_exclude_controls_except_tab)
{
    for (int c = 0; c < 256; c++)
        CHECK_EQ(!!(classes(c) & GS_HTTP_FIELD), c == '\t' || (c >= 0x20 && c != 0x7f));
}

TEST(digits_and_hexadecimal_digits_are_classified)
{
    for (int c = 0; c < 256; c++)
        CHECK_EQ(!!(classes(c) & GS_HTTP_DIGIT), c >= '0' && c <= '9');
    for (int c = 0; c < 256; c++)
        CHECK_EQ(!!(classes(c) & GS_HTTP_HEX), is_one_of(c, "0123456789abcdefABCDEF"));
}

TEST(hexadecimal_digits_have_their_values)
{
    for (unsigned i = 0; i < 16; i++)
        CHECK_EQ(gs_http_hex_value("0123456789abcdef"[i]), i);
    for (unsigned i = 0; i < 16; i++)
        CHECK_EQ(gs_http_hex_value("0123456789ABCDEF"[i]), i);
}

TEST(target_characters_are_visible_and_exclude_delimiters_and_fragments)
{
    for (int c = 0; c < 256; c++)
        CHECK_EQ(!!(classes(c) & GS_HTTP_TARGET), c > 0x20 && c < 0x7f && !strchr("#\"<>", c));
}

TEST(segment_characters_have_no_special_meaning)
{
    for (int c = 0; c < 256; c++)
        CHECK_EQ(!!(classes(c) & GS_HTTP_SEGMENT),
                 c >= 0x20 && c != 0x7f && c != '/' && c != '\\' && c != '%');
}

TEST(host_characters_exclude_delimiters)
{
    for (int c = 0; c < 256; c++)
        CHECK_EQ(!!(classes(c) & GS_HTTP_HOST),
                 is_alphanumeric(c) || is_one_of(c, "-._~!$&'()*+;="));
}

static size_t utf8_length(const char *text)
{
    return gs_http_utf8_length((struct gs_http_text){text, strlen(text)});
}

TEST(only_well_formed_utf8_has_a_length)
{
    CHECK_EQ(utf8_length("\xc2\x80"), 2);
    CHECK_EQ(utf8_length("\xdf\xbfx"), 2);
    CHECK_EQ(utf8_length("\xe0\xa0\x80"), 3);
    CHECK_EQ(utf8_length("\xed\x9f\xbf"), 3);
    CHECK_EQ(utf8_length("\xef\xbf\xbf"), 3);
    CHECK_EQ(utf8_length("\xf0\x90\x80\x80"), 4);
    CHECK_EQ(utf8_length("\xf4\x8f\xbf\xbf"), 4);
    static const char *const malformed[] = {
        "",
        "a",
        "\x80",
        "\xbf\x80",
        "\xc0\xae",
        "\xc1\xbf",
        "\xc2",
        "\xc2x",
        "\xc2\xc2",
        "\xe0\x9f\xbf",
        "\xe1\x80",
        "\xe1\x80x",
        "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf1\x80\x80",
        "\xff",
        "\xf1\x80\x80x",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
    };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        CHECK_EQ(utf8_length(malformed[i]), 0);
}

TEST(token_is_not_empty_and_has_no_delimiter)
{
    CHECK(gs_http_is_token(GS_HTTP_TEXT("Content-Length")));
    CHECK(gs_http_is_token(GS_HTTP_TEXT("M-SEARCH")));
    CHECK(gs_http_is_token(GS_HTTP_TEXT("~")));
    CHECK(!gs_http_is_token(GS_HTTP_TEXT("")));
    CHECK(!gs_http_is_token(GS_HTTP_TEXT("a b")));
    CHECK(!gs_http_is_token(GS_HTTP_TEXT("a:")));
    CHECK(!gs_http_is_token(GS_HTTP_TEXT("a\0b")));
    CHECK(!gs_http_is_token(GS_HTTP_TEXT("\xc3\xa9")));
}

static void check_trimmed(struct gs_http_text text, const char *expected)
{
    CHECK(gs_http_text_is(gs_http_trim(text), expected));
}

TEST(trimming_removes_spaces_and_tabs_at_both_ends)
{
    check_trimmed(GS_HTTP_TEXT(" \t a b\t "), "a b");
    check_trimmed(GS_HTTP_TEXT(" \t "), "");
    check_trimmed(GS_HTTP_TEXT(""), "");
    check_trimmed(GS_HTTP_TEXT("\ra\n"), "\ra\n");
}

/* expected: the elements, with '|' after each. */
static void check_list(struct gs_http_text list, const char *expected)
{
    char seen[256];
    size_t n = 0;
    struct gs_http_text element;
    while (gs_http_list_next(&list, &element)) {
        memcpy(seen + n, element.bytes, element.n);
        n += element.n;
        seen[n++] = '|';
    }
    seen[n] = '\0';
    CHECK_STR(seen, expected);
    CHECK_EQ(list.n, 0);
}

TEST(list_yields_its_elements_without_white_space)
{
    check_list(GS_HTTP_TEXT("close"), "close|");
    check_list(GS_HTTP_TEXT("foo ,bar,charlie"), "foo|bar|charlie|");
    check_list(GS_HTTP_TEXT("\tkeep-alive \t, Upgrade "), "keep-alive|Upgrade|");
    check_list(GS_HTTP_TEXT("a b, c"), "a b|c|");
}

TEST(empty_elements_of_a_list_are_skipped)
{
    check_list(GS_HTTP_TEXT("foo , ,bar,charlie"), "foo|bar|charlie|");
    check_list(GS_HTTP_TEXT(""), "");
    check_list(GS_HTTP_TEXT(","), "");
    check_list(GS_HTTP_TEXT(" ,   , "), "");
    check_list(GS_HTTP_TEXT(",a,"), "a|");
}

TEST(commas_in_quoted_strings_do_not_separate_elements)
{
    check_list(GS_HTTP_TEXT("\"a,b\", c"), "\"a,b\"|c|");
    check_list(GS_HTTP_TEXT("x=\"a\\\",b\" , c"), "x=\"a\\\",b\"|c|");
    check_list(GS_HTTP_TEXT("\"a\\\\\",b"), "\"a\\\\\"|b|");
    check_list(GS_HTTP_TEXT("a\\,b"), "a\\|b|");
}

TEST(unterminated_quoted_string_extends_to_the_end_of_the_list)
{
    check_list(GS_HTTP_TEXT("a, \"b, c"), "a|\"b, c|");
    check_list(GS_HTTP_TEXT("\"b\\"), "\"b\\|");
}

TEST(quotation_marks_do_not_quote_in_a_list_of_tokens)
{
    struct gs_http_text list = GS_HTTP_TEXT("\"a, close ,,b\\"), token;
    CHECK(gs_http_tokens_next(&list, &token) && gs_http_text_is(token, "\"a"));
    CHECK(gs_http_tokens_next(&list, &token) && gs_http_text_is(token, "close"));
    CHECK(gs_http_tokens_next(&list, &token) && gs_http_text_is(token, "b\\"));
    CHECK(!gs_http_tokens_next(&list, &token));
}

TEST(absent_list_has_no_element)
{
    struct gs_http_text absent = {NULL, 0}, element;
    CHECK(!gs_http_list_next(&absent, &element));
}

static void check_decimal(uint64_t value)
{
    char expected[32], out[GS_HTTP_DECIMAL_MAX + 1];
    snprintf(expected, sizeof expected, "%" PRIu64, value);
    size_t n = gs_http_put_decimal(out, value);
    CHECK(n <= GS_HTTP_DECIMAL_MAX);
    out[n] = '\0';
    CHECK_STR(out, expected);

    uint64_t back;
    CHECK(gs_http_get_decimal((struct gs_http_text){out, n}, &back));
    CHECK(back == value);
}

TEST(decimals_of_every_length_are_formatted_and_parsed)
{
    uint64_t power = 1;
    for (int i = 0; i < 20; i++, power *= 10) {
        check_decimal(power);
        check_decimal(power - 1);
        check_decimal(power + 1);
        check_decimal(power / 2 * 3);
    }
    for (unsigned bits = 0; bits < 64; bits++) {
        check_decimal(UINT64_C(1) << bits);
        check_decimal((UINT64_C(1) << bits) - 1);
    }
    check_decimal(UINT64_MAX);
    for (uint64_t value = 0; value < 20000; value++)
        check_decimal(value);
}

TEST(decimal_with_other_characters_is_refused)
{
    uint64_t value = 7;
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT(""), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("+1"), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("-1"), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT(" 1"), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("1 "), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("0x1"), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("1,1"), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("1\0"), &value));
    CHECK_EQ(value, 7);
}

TEST(decimal_above_64_bits_is_refused)
{
    uint64_t value = 7;
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("18446744073709551616"), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("18446744073709551620"), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("99999999999999999999"), &value));
    CHECK(!gs_http_get_decimal(GS_HTTP_TEXT("100000000000000000000"), &value));
    CHECK_EQ(value, 7);
    CHECK(gs_http_get_decimal(GS_HTTP_TEXT("000000000000000000000018446744073709551615"), &value));
    CHECK(value == UINT64_MAX);
}
