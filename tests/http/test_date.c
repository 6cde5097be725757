#include "http/date.h"
#include "tests/test.h"

#define RFC_EXAMPLE 784111777
#define YEAR_2026 1795260676 /* 2026-11-21 11:31:16 */

static void check_format(int64_t seconds, const char *expected)
{
    char out[GS_HTTP_DATE_LENGTH + 1] = {0};
    gs_http_date_format(seconds, out);
    CHECK_STR(out, expected);
}

static void check_parse(struct gs_http_text text, int64_t expected)
{
    int64_t seconds;
    if (!gs_http_date_parse(text, YEAR_2026, &seconds))
        TEST_FAIL("not read: %.*s", (int)text.n, text.bytes);
    CHECK_EQ(seconds, expected);
}

static void check_refused(struct gs_http_text text)
{
    int64_t seconds = 7;
    if (gs_http_date_parse(text, YEAR_2026, &seconds))
        TEST_FAIL("read as %lld: %.*s", (long long)seconds, (int)text.n, text.bytes);
    CHECK_EQ(seconds, 7);
}

TEST(dates_are_formatted_as_imf_fixdate)
{
    check_format(RFC_EXAMPLE, "Sun, 06 Nov 1994 08:49:37 GMT");
    check_format(0, "Thu, 01 Jan 1970 00:00:00 GMT");
    check_format(-1, "Wed, 31 Dec 1969 23:59:59 GMT");
    check_format(951782400, "Tue, 29 Feb 2000 00:00:00 GMT");
    check_format(4107542400, "Mon, 01 Mar 2100 00:00:00 GMT");
    check_format(YEAR_2026, "Sat, 21 Nov 2026 11:31:16 GMT");
}

TEST(dates_outside_of_four_digit_years_are_clamped)
{
    check_format(-62167219200, "Sat, 01 Jan 0000 00:00:00 GMT");
    check_format(-62167219201, "Sat, 01 Jan 0000 00:00:00 GMT");
    check_format(INT64_MIN, "Sat, 01 Jan 0000 00:00:00 GMT");
    check_format(253402300799, "Fri, 31 Dec 9999 23:59:59 GMT");
    check_format(253402300800, "Fri, 31 Dec 9999 23:59:59 GMT");
    check_format(INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
}

/* Compare both directions of conversion with the C library. */
static void check_calendar(int64_t seconds)
{
    char out[GS_HTTP_DATE_LENGTH + 1] = {0}, expected[64];
    struct tm parts;
    time_t moment = (time_t)seconds;
    int64_t back;
    gs_http_date_format(seconds, out);
    strftime(expected, sizeof expected, "%a, %d %b ", gmtime_r(&moment, &parts));
    size_t n = strlen(expected);
    snprintf(expected + n, sizeof expected - n, "%04d %02d:%02d:%02d GMT", parts.tm_year + 1900,
             parts.tm_hour, parts.tm_min, parts.tm_sec);
    CHECK_STR(out, expected);
    CHECK(gs_http_date_parse((struct gs_http_text){out, GS_HTTP_DATE_LENGTH}, 0, &back));
    CHECK_EQ(back, seconds);
}

TEST(every_day_of_400_years_agrees_with_the_c_library)
{
    for (int64_t seconds = -5364662400; seconds < 7258118400; seconds += 86400)
        check_calendar(seconds);
}

TEST(days_of_10000_years_agree_with_the_c_library)
{
    for (int64_t seconds = -62167219200; seconds < 253402300800; seconds += 47 * 86400 + 3661)
        check_calendar(seconds);
}

TEST(three_formats_of_the_rfc_are_parsed_alike)
{
    check_parse(GS_HTTP_TEXT("Sun, 06 Nov 1994 08:49:37 GMT"), RFC_EXAMPLE);
    check_parse(GS_HTTP_TEXT("Sunday, 06-Nov-94 08:49:37 GMT"), RFC_EXAMPLE);
    check_parse(GS_HTTP_TEXT("Sun Nov  6 08:49:37 1994"), RFC_EXAMPLE);
    check_parse(GS_HTTP_TEXT("Wed Nov 16 08:49:37 1994"), RFC_EXAMPLE + 10 * 86400);
}

TEST(day_of_the_week_must_be_a_valid_name_but_may_be_wrong)
{
    check_parse(GS_HTTP_TEXT("Mon, 06 Nov 1994 08:49:37 GMT"), RFC_EXAMPLE);
    check_parse(GS_HTTP_TEXT("Wednesday, 06-Nov-94 08:49:37 GMT"), RFC_EXAMPLE);
    check_refused(GS_HTTP_TEXT("Abc, 06 Nov 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("sun, 06 Nov 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sunday, 06 Nov 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06-Nov-94 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT(", 06 Nov 1994 08:49:37 GMT"));
}

TEST(invalid_days_are_refused)
{
    check_refused(GS_HTTP_TEXT("Sun, 00 Nov 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 31 Nov 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 32 Dec 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 29 Feb 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 29 Feb 2100 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 30 Feb 2000 08:49:37 GMT"));
    check_parse(GS_HTTP_TEXT("Tue, 29 Feb 2000 00:00:00 GMT"), 951782400);
    check_parse(GS_HTTP_TEXT("Thu, 29 Feb 1996 00:00:00 GMT"), 825552000);
}

TEST(invalid_times_are_refused)
{
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 24:00:00 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 08:60:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 08:49:60 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 08:49:61 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 23:58:60 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 23:59:61 GMT"));
}

TEST(leap_second_is_parsed_as_the_second_before_it)
{
    check_parse(GS_HTTP_TEXT("Sat, 31 Dec 2016 23:59:60 GMT"), 1483228799);
    check_parse(GS_HTTP_TEXT("Sat, 31 Dec 2016 23:59:59 GMT"), 1483228799);
}

TEST(formats_are_parsed_strictly)
{
    check_refused(GS_HTTP_TEXT(""));
    check_refused(GS_HTTP_TEXT("Sun"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 08:49:37"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 08:49:37 UTC"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 08:49:37 gmt"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 08:49:37 GMT "));
    check_refused(GS_HTTP_TEXT(" Sun, 06 Nov 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 6 Nov 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun,  6 Nov 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 nov 1994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 94 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 8:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 +8:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov -994 08:49:37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 08-49-37 GMT"));
    check_refused(GS_HTTP_TEXT("Sun Nov 6 08:49:37 1994"));
    check_refused(GS_HTTP_TEXT("Sun Nov  6 08:49:37 1994 GMT"));
    check_refused(GS_HTTP_TEXT("Sun Nov  6 08:49:37 94"));
    check_refused(GS_HTTP_TEXT("Sun, 06 Nov 1994 08:49:37 GMT\0"));
}

TEST(every_prefix_of_a_date_is_refused)
{
    const char *forms[] = {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                           "Sun Nov  6 08:49:37 1994"};
    for (size_t i = 0; i < 3; i++)
        for (size_t n = 0; n < strlen(forms[i]); n++)
            check_refused((struct gs_http_text){forms[i], n});
}

static void check_century(const char *text, int64_t now, int year)
{
    int64_t seconds;
    char out[GS_HTTP_DATE_LENGTH + 1] = {0}, expected[8];
    CHECK(gs_http_date_parse((struct gs_http_text){text, strlen(text)}, now, &seconds));
    gs_http_date_format(seconds, out);
    out[16] = '\0';
    snprintf(expected, sizeof expected, "%04d", year);
    CHECK_STR(out + 12, expected);
}

TEST(two_digit_year_is_at_most_50_years_after_now)
{
    check_century("Sunday, 06-Nov-26 08:49:37 GMT", YEAR_2026, 2026);
    check_century("Sunday, 06-Nov-75 08:49:37 GMT", YEAR_2026, 2075);
    check_century("Sunday, 06-Nov-77 08:49:37 GMT", YEAR_2026, 1977);
    check_century("Sunday, 06-Nov-99 08:49:37 GMT", YEAR_2026, 1999);
    check_century("Sunday, 06-Nov-00 08:49:37 GMT", YEAR_2026, 2000);
    check_century("Sunday, 06-Nov-00 08:49:37 GMT", 4000000000, 2100);
    check_century("Sunday, 06-Nov-94 08:49:37 GMT", 0, 1994);
    check_century("Sunday, 06-Nov-21 08:49:37 GMT", 0, 1921);
}

TEST(two_digit_year_changes_its_century_to_the_second)
{
    check_century("Saturday, 21-Nov-76 11:31:16 GMT", YEAR_2026, 2076);
    check_century("Saturday, 21-Nov-76 11:31:17 GMT", YEAR_2026, 1976);
    check_century("Saturday, 20-Nov-76 23:59:59 GMT", YEAR_2026, 2076);
    check_century("Saturday, 22-Nov-76 00:00:00 GMT", YEAR_2026, 1976);
    check_century("Saturday, 01-Dec-76 00:00:00 GMT", YEAR_2026, 1976);
}

TEST(two_digit_year_is_parsed_for_any_current_time)
{
    int64_t seconds = 7;
    struct gs_http_text text = GS_HTTP_TEXT("Sunday, 06-Nov-99 08:49:37 GMT");
    CHECK(!gs_http_date_parse(text, INT64_MIN, &seconds));
    CHECK_EQ(seconds, 7);
    CHECK(gs_http_date_parse(text, INT64_MAX, &seconds));
    CHECK(!gs_http_date_parse(GS_HTTP_TEXT("Sunday, 06-Nov-49 08:49:37 GMT"), INT64_MAX, &seconds));
}

static void check_log(int64_t seconds, int offset_minutes, const char *expected)
{
    char out[GS_HTTP_DATE_LOG_LENGTH + 1] = {0};
    gs_http_date_format_log(seconds, offset_minutes, out);
    CHECK_STR(out, expected);
}

TEST(log_date_is_in_its_time_zone)
{
    check_log(YEAR_2026, 0, "21/Nov/2026:11:31:16 +0000");
    check_log(YEAR_2026, 60, "21/Nov/2026:12:31:16 +0100");
    check_log(YEAR_2026, -210, "21/Nov/2026:08:01:16 -0330");
    check_log(YEAR_2026, 13 * 60, "22/Nov/2026:00:31:16 +1300");
    check_log(YEAR_2026, -12 * 60, "20/Nov/2026:23:31:16 -1200");
}

TEST(log_date_is_formatted_for_any_time_and_zone)
{
    check_log(INT64_MAX, 60, "31/Dec/9999:23:59:59 +0100");
    check_log(INT64_MIN, -60, "01/Jan/0000:00:00:00 -0100");
    check_log(0, 1000000, "05/Jan/1970:03:59:00 +9959");
    check_log(0, -2147483647 - 1, "27/Dec/1969:20:01:00 -9959");
}

TEST(a_time_is_written_for_programs)
{
    char out[GS_HTTP_DATE_ISO_LENGTH + 1] = {0};
    gs_http_date_format_iso(784111777, out);
    CHECK_STR(out, "1994-11-06T08:49:37Z");
    gs_http_date_format_iso(INT64_MAX, out);
    CHECK_STR(out, "9999-12-31T23:59:59Z");
    gs_http_date_format_iso(INT64_MIN, out);
    CHECK_STR(out, "0000-01-01T00:00:00Z");
}
