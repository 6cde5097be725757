#include "cli/value.h"
#include "tests/test.h"

#include <gossamer/clock.h>

/* Returns the value of a valid text. */
static uint64_t value_of(enum cli_kind kind, const char *text)
{
    uint64_t value = 12345;
    if (cli_value_parse(kind, text, &value))
        return UINT64_MAX - 1;
    return value;
}

static int error_of(enum cli_kind kind, const char *text)
{
    uint64_t value = 12345;
    int err = cli_value_parse(kind, text, &value);
    return value == 12345 ? err : 1;
}

TEST(numbers_are_digits_only)
{
    CHECK_EQ(value_of(CLI_NUMBER, "0"), 0);
    CHECK_EQ(value_of(CLI_NUMBER, "0017"), 17);
    CHECK(value_of(CLI_NUMBER, "18446744073709551615") == UINT64_MAX);
    const char *const refused[] = {"",     "-1",  "+1", " 1",  "1 ", "1x",
                                   "0x10", "1.5", "1k", "one", "1\n"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_EQ(error_of(CLI_NUMBER, refused[i]), -EINVAL);
}

TEST(values_that_do_not_fit_64_bits_are_out_of_range)
{
    CHECK_EQ(error_of(CLI_NUMBER, "18446744073709551616"), -ERANGE);
    CHECK_EQ(error_of(CLI_NUMBER, "99999999999999999999999999"), -ERANGE);
    CHECK_EQ(error_of(CLI_DURATION, "18446744074"), -ERANGE);
    CHECK_EQ(error_of(CLI_DURATION, "18446744073.709551616s"), -ERANGE);
    CHECK_EQ(error_of(CLI_SIZE, "17179869184g"), -ERANGE);
}

TEST(durations_are_seconds_unless_a_suffix_says_otherwise)
{
    CHECK_EQ(value_of(CLI_DURATION, "10"), 10 * GS_SECOND);
    CHECK_EQ(value_of(CLI_DURATION, "2.5"), 2500 * GS_MILLISECOND);
    CHECK_EQ(value_of(CLI_DURATION, "0.000000001"), 1);
    CHECK_EQ(value_of(CLI_DURATION, "0.0000000019"), 1);
    CHECK_EQ(value_of(CLI_DURATION, "300ms"), 300 * GS_MILLISECOND);
    CHECK_EQ(value_of(CLI_DURATION, "1.5ms"), 1500 * GS_MICROSECOND);
    CHECK_EQ(value_of(CLI_DURATION, "3s"), 3 * GS_SECOND);
    CHECK_EQ(value_of(CLI_DURATION, "1.5m"), 90 * GS_SECOND);
    CHECK_EQ(value_of(CLI_DURATION, "2h"), 7200 * GS_SECOND);
    CHECK_EQ(value_of(CLI_DURATION, "20us"), 20 * GS_MICROSECOND);
    CHECK_EQ(value_of(CLI_DURATION, "7ns"), 7);
    CHECK_EQ(value_of(CLI_DURATION, "1m30s"), 90 * GS_SECOND);
    CHECK_EQ(value_of(CLI_DURATION, "1h0.5m1s500ms"), 3631500 * GS_MILLISECOND);
}

TEST(counts_may_have_suffixes_that_are_powers_of_1000)
{
    CHECK_EQ(value_of(CLI_COUNT, "12"), 12);
    CHECK_EQ(value_of(CLI_COUNT, "20k"), 20000);
    CHECK_EQ(value_of(CLI_COUNT, "3M"), 3000000);
    CHECK_EQ(value_of(CLI_COUNT, "1g"), 1000000000);
    const char *const refused[] = {"", "k", "1.5k", "1kk", "1k5", "1ms", "-1k"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_EQ(error_of(CLI_COUNT, refused[i]), -EINVAL);
}

TEST(rates_may_have_fractions_suffixes_and_periods)
{
    static const struct {
        const char *text;
        double per_second;
    } rows[] = {
        {"1000", 1000}, {"0.5", 0.5},    {"2k", 2000},          {"1.5k", 1500},
        {"30/m", 0.5},  {"30/1m", 0.5},  {"1/500ms", 2},        {"50/1s", 50},
        {"50/s", 50},   {"7.2k/h", 2.0}, {"1/1m30s", 1 / 90.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double rate = 0;
        CHECK_EQ(cli_rate_parse(rows[i].text, &rate), 0);
        CHECK(rate > rows[i].per_second * 0.999999 && rate < rows[i].per_second * 1.000001);
    }
    const char *const refused[] = {"",    ".5", "5.",   "1..2", "1.2.3", "-1",  "1e3", "0x1",
                                   "inf", "1/", "1/0s", "1/x",  "/s",    "1ks", "1k ", "1/s/s"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        double rate = 0;
        CHECK_EQ(cli_rate_parse(refused[i], &rate), -EINVAL);
    }
}

TEST(plain_numbers_of_milliseconds_are_milliseconds)
{
    CHECK_EQ(value_of(CLI_MILLISECONDS, "300"), 300 * GS_MILLISECOND);
    CHECK_EQ(value_of(CLI_MILLISECONDS, "0.5"), 500 * GS_MICROSECOND);
    CHECK_EQ(value_of(CLI_MILLISECONDS, "2s"), 2 * GS_SECOND);
}

TEST(malformed_durations_are_refused)
{
    const char *const refused[] = {"",    ".5",   "1.",   "1.s",  "1..5",  "-1",
                                   "1 s", "1sec", "s",    "1e3",  "1.5.5", "1S",
                                   "inf", "1k",   "1m30", "1m s", "1ms-1s"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_EQ(error_of(CLI_DURATION, refused[i]), -EINVAL);
}

TEST(size_suffixes_are_powers_of_1024)
{
    CHECK_EQ(value_of(CLI_SIZE, "8192"), 8192);
    CHECK_EQ(value_of(CLI_SIZE, "64k"), 65536);
    CHECK_EQ(value_of(CLI_SIZE, "64K"), 65536);
    CHECK_EQ(value_of(CLI_SIZE, "3m"), 3 << 20);
    CHECK_EQ(value_of(CLI_SIZE, "2g"), INT64_C(2) << 30);
    const char *const refused[] = {"k", "1.5m", "1kb", "1s", "-1k", "1 k"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_EQ(error_of(CLI_SIZE, refused[i]), -EINVAL);
}

TEST(formatted_values_are_parsed_as_the_same_value)
{
    static const struct {
        enum cli_kind kind;
        uint64_t value;
        const char *text;
    } rows[] = {
        {CLI_NUMBER, 0, "0"},
        {CLI_NUMBER, 4096, "4096"},
        {CLI_NUMBER, UINT64_MAX, "18446744073709551615"},
        {CLI_SIZE, 65536, "64k"},
        {CLI_SIZE, 1 << 20, "1m"},
        {CLI_SIZE, 1000, "1000"},
        {CLI_DURATION, 0, "0"},
        {CLI_DURATION, 10 * GS_SECOND, "10s"},
        {CLI_DURATION, 90 * GS_SECOND, "90s"},
        {CLI_DURATION, 3600 * GS_SECOND, "1h"},
        {CLI_DURATION, 1500 * GS_MILLISECOND, "1500ms"},
        {CLI_DURATION, 1, "1ns"},
        {CLI_DURATION, 1500, "1500ns"},
        {CLI_MILLISECONDS, 20 * GS_MILLISECOND, "20ms"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[CLI_VALUE_SIZE];
        cli_value_format(rows[i].kind, rows[i].value, text);
        CHECK_STR(text, rows[i].text);
        CHECK(value_of(rows[i].kind, text) == rows[i].value);
    }
}
