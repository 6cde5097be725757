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

/* Larger units first: the first that divides a value is the one to print it in. */
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

/* The size of the unit that the suffix names, or 0. */
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

/* What the digits after a decimal point are worth; what is below a nanosecond is dropped. */
static uint64_t fraction_of(const char *digits, uint64_t unit)
{
    uint64_t value = 0;
    for (; is_digit(*digits); digits++) {
        unit /= 10;
        value += unit * (uint64_t)(*digits - '0');
    }
    return value;
}

int cli_value_parse(enum cli_kind kind, const char *word, uint64_t *ret_value)
{
    const char *fraction = "";
    uint64_t value = 0;
    bool overflow = false;

    if (!is_digit(*word))
        return -EINVAL;
    for (; is_digit(*word); word++) {
        overflow |= __builtin_mul_overflow(value, UINT64_C(10), &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)(*word - '0'), &value);
    }
    if (*word == '.' && is_duration(kind)) {
        fraction = ++word;
        word += strspn(word, "0123456789");
        if (word == fraction)
            return -EINVAL;
    }
    uint64_t unit = unit_size(kind, word);
    if (!unit)
        return -EINVAL;
    overflow |= __builtin_mul_overflow(value, unit, &value);
    overflow |= __builtin_add_overflow(value, fraction_of(fraction, unit), &value);
    if (overflow)
        return -ERANGE;
    *ret_value = value;
    return 0;
}

void cli_value_format(enum cli_kind kind, uint64_t value, char ret_text[CLI_VALUE_LENGTH])
{
    const struct unit *unit = units_of(kind);
    while (unit->suffix && (value % unit->size || !value))
        unit++;
    if (unit->suffix)
        snprintf(ret_text, CLI_VALUE_LENGTH, "%" PRIu64 "%s", value / unit->size, unit->suffix);
    else if (is_duration(kind) && value)
        snprintf(ret_text, CLI_VALUE_LENGTH, "%" PRIu64 ".%09" PRIu64 "s", value / GS_SECOND,
                 value % GS_SECOND);
    else
        snprintf(ret_text, CLI_VALUE_LENGTH, "%" PRIu64, value);
}
