#include "cli/value.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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
    {NULL, 0},
};
static const struct unit sizes[] = {
    {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}, {"", 1}, {NULL, 0},
};
static const struct unit numbers[] = {{"", 1}, {NULL, 0}};

static bool is_duration(enum cli_kind kind)
{
    return kind == CLI_DURATION || kind == CLI_MILLISECONDS;
}

static const struct unit *units_of(enum cli_kind kind)
{
    return is_duration(kind) ? durations : kind == CLI_SIZE ? sizes : numbers;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the size of the unit with this suffix, or 0. */
static uint64_t unit_size(enum cli_kind kind, const char *suffix)
{
    if (!*suffix && kind == CLI_DURATION)
        return GS_SECOND;
    if (!*suffix && kind == CLI_MILLISECONDS)
        return GS_MILLISECOND;
    for (const struct unit *unit = units_of(kind); unit->suffix; unit++) {
        if (!strcmp(unit->suffix, suffix))
            return unit->size;
    }
    return 0;
}

/* Returns the value of the digits after a decimal point, rounded down to a nanosecond. */
static uint64_t fraction_of(const char *digits, uint64_t unit)
{
    uint64_t value = 0;
    for (; is_digit(*digits); digits++) {
        unit /= 10;
        value += unit * (uint64_t)(*digits - '0');
    }
    return value;
}

int cli_value_parse(enum cli_kind kind, const char *text, uint64_t *ret_value)
{
    const char *fraction = "";
    uint64_t value = 0;
    bool overflow = false;

    if (!is_digit(*text))
        return -EINVAL;
    for (; is_digit(*text); text++) {
        overflow |= __builtin_mul_overflow(value, UINT64_C(10), &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value);
    }
    if (*text == '.' && is_duration(kind)) {
        fraction = ++text;
        text += strspn(text, "0123456789");
        if (text == fraction)
            return -EINVAL;
    }
    uint64_t unit = unit_size(kind, text);
    if (!unit)
        return -EINVAL;
    overflow |= __builtin_mul_overflow(value, unit, &value);
    overflow |= __builtin_add_overflow(value, fraction_of(fraction, unit), &value);
    if (overflow)
        return -ERANGE;
    *ret_value = value;
    return 0;
}

void cli_value_format(enum cli_kind kind, uint64_t value, char ret_text[CLI_VALUE_SIZE])
{
    const struct unit *unit = units_of(kind);
    while (unit->suffix && (value % unit->size || !value))
        unit++;
    if (unit->suffix)
        snprintf(ret_text, CLI_VALUE_SIZE, "%" PRIu64 "%s", value / unit->size, unit->suffix);
    else if (is_duration(kind) && value)
        snprintf(ret_text, CLI_VALUE_SIZE, "%" PRIu64 ".%09" PRIu64 "s", value / GS_SECOND,
                 value % GS_SECOND);
    else
        snprintf(ret_text, CLI_VALUE_SIZE, "%" PRIu64, value);
}
