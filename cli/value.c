#include "cli/value.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
    const char *suffix;
    uint64_t size;
};

/* In descending order: a value is formatted in the first unit that divides it. */
static const struct unit durations[] = {
    {"h", 3600 * GS_SECOND},
    {"m", 60 * GS_SECOND},
    {"s", GS_SECOND},
    {"ms", GS_MILLISECOND},
    {"us", GS_MICROSECOND},
    {"ns", 1},
    {NULL, 0},
};
static const struct unit sizes[] = {
    {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}, {"", 1}, {NULL, 0},
};
static const struct unit counts[] = {
    {"g", 1000000000}, {"m", 1000000}, {"k", 1000}, {"", 1}, {NULL, 0},
};
static const struct unit numbers[] = {{"", 1}, {NULL, 0}};

static const char digits[] = "0123456789";

static bool is_duration(enum cli_kind kind)
{
    return kind == CLI_DURATION || kind == CLI_MILLISECONDS;
}

static const struct unit *units_of(enum cli_kind kind)
{
    return is_duration(kind)    ? durations
           : kind == CLI_SIZE   ? sizes
           : kind == CLI_NUMBER ? numbers
                                : counts;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the size of the unit with this suffix of n characters, or 0. Only suffixes of durations
 * are case-sensitive. */
static uint64_t unit_size(enum cli_kind kind, const char *suffix, size_t n)
{
    if (!n && kind == CLI_DURATION)
        return GS_SECOND;
    if (!n && kind == CLI_MILLISECONDS)
        return GS_MILLISECOND;
    for (const struct unit *unit = units_of(kind); unit->suffix; unit++) {
        bool is_same = is_duration(kind) ? !strncmp(unit->suffix, suffix, n)
                                         : !strncasecmp(unit->suffix, suffix, n);
        if (is_same && strlen(unit->suffix) == n)
            return unit->size;
    }
    return 0;
}

/* Returns the value of the digits after a decimal point, rounded down to a nanosecond. */
static uint64_t fraction_of(const char *fraction, uint64_t unit)
{
    uint64_t value = 0;
    for (; is_digit(*fraction); fraction++) {
        unit /= 10;
        value += unit * (uint64_t)(*fraction - '0');
    }
    return value;
}

/* Parse a number with its unit, and advance *text past them. Returns 0, -EINVAL or -ERANGE. */
static int parse_part(enum cli_kind kind, const char **text, uint64_t *ret_value)
{
    const char *at = *text, *fraction = "";
    uint64_t value = 0;
    bool overflow = false;

    if (!is_digit(*at))
        return -EINVAL;
    for (; is_digit(*at); at++) {
        overflow |= __builtin_mul_overflow(value, UINT64_C(10), &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value);
    }
    if (*at == '.' && is_duration(kind)) {
        fraction = ++at;
        at += strspn(at, digits);
        if (at == fraction)
            return -EINVAL;
    }
    size_t suffix_length = strcspn(at, digits);
    uint64_t unit = unit_size(kind, at, suffix_length);
    if (!unit)
        return -EINVAL;
    overflow |= __builtin_mul_overflow(value, unit, &value);
    overflow |= __builtin_add_overflow(value, fraction_of(fraction, unit), &value);
    *text = at + suffix_length;
    *ret_value = value;
    return overflow ? -ERANGE : 0;
}

int cli_value_parse(enum cli_kind kind, const char *text, uint64_t *ret_value)
{
    const char *at = text;
    uint64_t value, sum = 0;
    bool overflow = false;
    do {
        const char *part = at;
        int err = parse_part(kind, &at, &value);
        overflow |= err == -ERANGE;
        bool has_unit = at > text && !is_digit(at[-1]);
        bool is_only_part = part == text && !*at;
        if (err == -EINVAL || (!is_only_part && !(is_duration(kind) && has_unit)))
            return -EINVAL;
        overflow |= __builtin_add_overflow(sum, value, &sum);
    } while (*at);
    if (overflow)
        return -ERANGE;
    *ret_value = sum;
    return 0;
}

const char *cli_value_example(enum cli_kind kind)
{
    static const char *const examples[] = {
        [CLI_NUMBER] = "a number",
        [CLI_COUNT] = "a number (such as 500, 20k, 1m)",
        [CLI_RATE] = "a rate above 0 (such as 1000, 0.5, 10k, 30/m)",
        [CLI_DURATION] = "a duration (such as 10, 2.5, 300ms, 1m)",
        [CLI_MILLISECONDS] = "a duration (such as 300, 2.5, 10s, 1m)",
        [CLI_SIZE] = "a size (such as 8192, 64k, 1m)",
    };
    return examples[kind];
}

int cli_value_read(const struct cli_option *option, const char *text, uint64_t *ret_value,
                   char ret_problem[CLI_PROBLEM_SIZE])
{
    char min[CLI_VALUE_SIZE], max[CLI_VALUE_SIZE];
    uint64_t value;
    int err = cli_value_parse(option->kind, text, &value);
    if (err == -EINVAL) {
        snprintf(ret_problem, CLI_PROBLEM_SIZE, "\"%.300s\" is not %s", text,
                 cli_value_example(option->kind));
        return err;
    }
    if (!err && value >= option->min && (!option->max || value <= option->max)) {
        *ret_value = value;
        return 0;
    }
    cli_value_format(option->kind, option->min, min);
    cli_value_format(option->kind, option->max ? option->max : UINT64_MAX, max);
    snprintf(ret_problem, CLI_PROBLEM_SIZE, "\"%.300s\" is out of range: %s to %s", text, min, max);
    return -EINVAL;
}

/* Parse the time after a slash: "m", "s" or "500ms". Returns 0 or -EINVAL. */
static int parse_period(const char *text, uint64_t *ret_ns)
{
    *ret_ns = unit_size(CLI_DURATION, text, strlen(text));
    bool is_unit = *text && *ret_ns;
    int err = is_unit ? 0 : cli_value_parse(CLI_DURATION, text, ret_ns);
    return err || !*ret_ns ? -EINVAL : 0;
}

int cli_rate_parse(const char *text, double *ret_per_second)
{
    uint64_t period_ns = GS_SECOND;
    size_t n = strspn(text, "0123456789.");
    size_t suffix_length = strcspn(text + n, "/");
    const char *slash = text + n + suffix_length, *point = memchr(text, '.', n);
    uint64_t unit = unit_size(CLI_COUNT, text + n, suffix_length);
    bool is_decimal = is_digit(*text) && is_digit(text[n - 1]) &&
                      (!point || !memchr(point + 1, '.', (size_t)(text + n - point - 1)));
    if (!is_decimal || !unit || (*slash && parse_period(slash + 1, &period_ns)))
        return -EINVAL;
    *ret_per_second = strtod(text, NULL) * (double)unit * (double)GS_SECOND / (double)period_ns;
    return 0;
}

void cli_value_format(enum cli_kind kind, uint64_t value, char ret_text[CLI_VALUE_SIZE])
{
    const struct unit *unit = units_of(kind);
    while (unit->suffix && (value % unit->size || !value))
        unit++;
    if (unit->suffix)
        snprintf(ret_text, CLI_VALUE_SIZE, "%" PRIu64 "%s", value / unit->size, unit->suffix);
    else
        snprintf(ret_text, CLI_VALUE_SIZE, "%" PRIu64, value);
}
