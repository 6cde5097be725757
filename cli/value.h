/* Parsing and formatting of numbers, durations and sizes. */
#ifndef GS_CLI_VALUE_H
#define GS_CLI_VALUE_H

#include "cli/options.h"

/* Enough for any formatted value, with its terminating zero. */
enum { CLI_VALUE_SIZE = 40 };

/* Parse `text`, which must not have a sign, white space or trailing characters. Returns 0, -EINVAL
 * (malformed) or -ERANGE (does not fit in 64 bits). */
GS_MUST_CHECK int cli_value_parse(enum cli_kind kind, const char *text, uint64_t *ret_value);

/* Enough for what is said of a wrong value. */
enum { CLI_PROBLEM_SIZE = 512 };

/* Parse the value of an option that is a number, a duration or a size, within the option's bounds.
 * Returns 0, or -EINVAL with what is wrong: `"1x" is not a size (such as 8192, 64k, 1m)`. */
GS_MUST_CHECK int cli_value_read(const struct cli_option *option, const char *text,
                                 uint64_t *ret_value, char ret_problem[CLI_PROBLEM_SIZE]);

/* What a value of this kind looks like: "a size (such as 8192, 64k, 1m)". */
const char *cli_value_example(enum cli_kind kind);

/* Parse a rate, as described at CLI_RATE. Returns 0 or -EINVAL. */
GS_MUST_CHECK int cli_rate_parse(const char *text, double *ret_per_second);

/* Write the shortest exact text of the value: "64k", "300ms", "1h". */
void cli_value_format(enum cli_kind kind, uint64_t value, char ret_text[CLI_VALUE_SIZE]);

#endif
