#include "http/coding.h"
#include "tests/test.h"

static struct gs_http_accepted accepted;

/* fields: whole lines. */
static void accept_fields(const char *fields)
{
    accepted = gs_http_accepted_in((struct gs_http_text){fields, strlen(fields)});
}

static void accept_value(const char *value)
{
    char fields[256];
    snprintf(fields, sizeof fields, "Host: a\r\nAccept-Encoding: %s\r\n\r\n", value);
    accept_fields(fields);
}

/* The weights of identity, br, zstd and gzip. */
static void check(const char *value, int identity, int br, int zstd, int gzip)
{
    const int expected[] = {identity, br, zstd, gzip};
    accept_value(value);
    for (int i = 0; i < 4; i++)
        if (accepted.weights[i] != expected[i])
            TEST_FAIL("\"%s\": %s has %u, not %d", value,
                      gs_http_coding_name((enum gs_http_coding)i), accepted.weights[i],
                      expected[i]);
}

TEST(what_is_not_listed_is_refused_except_for_identity)
{
    check("gzip", 1, 0, 0, 1001);
    check("gzip, deflate, br, zstd", 1, 1001, 1001, 1001);
    check("", 1, 0, 0, 0);
    check("deflate", 1, 0, 0, 0);
}

TEST(without_a_field_all_is_accepted_and_identity_preferred)
{
    accept_fields("Host: a\r\nAccept: text/html\r\n\r\n");
    for (int i = 1; i < GS_HTTP_CODINGS; i++)
        CHECK(accepted.weights[i] && accepted.weights[i] < accepted.weights[GS_HTTP_IN_IDENTITY]);
    CHECK_EQ(accepted.above[GS_HTTP_IN_IDENTITY], 0);
}

TEST(weights_are_thousandths)
{
    check("br;q=0.5, gzip;q=1.000, zstd;q=0.123", 1, 501, 124, 1001);
    check("br;q=0, gzip;q=0.0, zstd;q=0.001", 1, 0, 2, 0);
    check("br;q=1., gzip;q=0.", 1, 1001, 0, 0);
    check("gzip;Q=0.5", 1, 0, 0, 501);
    check("gzip \t;  q=0.5 ,br", 1, 1001, 0, 501);
}

TEST(asterisk_is_all_that_is_not_listed)
{
    check("*", 1001, 1001, 1001, 1001);
    check("*;q=0", 0, 0, 0, 0);
    check("br, *;q=0", 0, 1001, 0, 0);
    check("*;q=0.2, gzip;q=0", 201, 201, 201, 0);
    check("identity, *;q=0", 1001, 0, 0, 0);
}

TEST(identity_is_refused_only_by_name_or_asterisk)
{
    check("identity;q=0", 0, 0, 0, 0);
    check("identity;q=0, br", 0, 1001, 0, 0);
    check("identity;q=0.5, gzip;q=0.4", 501, 0, 0, 401);
}

TEST(names_have_no_case_and_an_alias)
{
    check("GZip", 1, 0, 0, 1001);
    check("x-gzip", 1, 0, 0, 1001);
    check("X-GZIP;q=0.5", 1, 0, 0, 501);
    check("BR, ZSTD, Identity;q=0", 0, 1001, 1001, 0);
}

TEST(first_element_of_a_coding_counts)
{
    check("gzip;q=0.5, gzip;q=0", 1, 0, 0, 501);
    check("gzip;q=0, x-gzip", 1, 0, 0, 0);
    check("*;q=0.5, *;q=0", 501, 501, 501, 501);
}

TEST(malformed_elements_are_ignored)
{
    static const char *const malformed[] = {
        "gzip;",         "gzip;q",       "gzip;q=",       "gzip;q=2",      "gzip;q=1.001",
        "gzip;q=0.1234", "gzip;q=-1",    "gzip;q=.5",     "gzip;q=0,5x;q", "gzip;q =1",
        "gzip;q= 1",     "gzip;q=1;q=1", "gzip;level=5",  "gzip q=1",      "\"gzip\"",
        ";q=1",          "gz ip",        "gzip;q=0.5\t0", ",,,",           "gzip=1",
    };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        char value[64];
        check(malformed[i], 1, 0, 0, 0);
        snprintf(value, sizeof value, "%s, br;q=0.5", malformed[i]);
        check(value, 1, 501, 0, 0);
    }
    check(", gzip,, ,br,", 1, 1001, 0, 1001);
}

TEST(lines_are_one_list)
{
    accept_fields("Accept-Encoding: gzip\r\nHost: a\r\naccept-encoding: br;q=0.5, identity;q=0\r\n"
                  "Accept-Encodings: zstd\r\n\r\n");
    CHECK_EQ(accepted.weights[GS_HTTP_IN_GZIP], 1001);
    CHECK_EQ(accepted.weights[GS_HTTP_IN_BR], 501);
    CHECK_EQ(accepted.weights[GS_HTTP_IN_ZSTD], 0);
    CHECK_EQ(accepted.weights[GS_HTTP_IN_IDENTITY], 0);
}

TEST(codings_are_ranked_by_weight_then_by_preference)
{
    const unsigned br = GS_HTTP_CODING_BIT(GS_HTTP_IN_BR),
                   zstd = GS_HTTP_CODING_BIT(GS_HTTP_IN_ZSTD),
                   gzip = GS_HTTP_CODING_BIT(GS_HTTP_IN_GZIP);
    accept_value("gzip, br, zstd");
    CHECK_EQ(accepted.above[GS_HTTP_IN_IDENTITY], br | zstd | gzip);
    CHECK_EQ(accepted.above[GS_HTTP_IN_BR], 0);
    CHECK_EQ(accepted.above[GS_HTTP_IN_ZSTD], br);
    CHECK_EQ(accepted.above[GS_HTTP_IN_GZIP], br | zstd);
    accept_value("gzip, br;q=0.5, identity;q=0.7");
    CHECK_EQ(accepted.above[GS_HTTP_IN_IDENTITY], gzip);
    CHECK_EQ(accepted.above[GS_HTTP_IN_BR], gzip);
    CHECK_EQ(accepted.above[GS_HTTP_IN_GZIP], 0);
    accept_value("zstd;q=0.1, identity;q=0");
    CHECK_EQ(accepted.above[GS_HTTP_IN_IDENTITY], zstd);
}
