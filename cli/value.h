/* Parsing and formatting of numbers, durations and sizes. */
#ifndef GS_CLI_VALUE_H
#define GS_CLI_VALUE_H

#include "cli/options.h"

/* Enough for any formatted value, with its terminating zero. */
enum { CLI_VALUE_SIZE = 40 };

/* Parse `text`, which must not have a sign, white space or trailing characters. Returns 0, -EINVAL
 * (malformed) or -ERANGE (does not fit in 64 bits). */
GS_MUST_CHECK int cli_value_parse(enum cli_kind kind, const char *text, uint64_t *ret_value);

/* Parse a rate, as described at CLI_RATE. Returns 0 or -EINVAL. */
GS_MUST_CHECK int cli_rate_parse(const char *text, double *ret_per_second);

/* Write the shortest exact text of the value: "64k", "300ms", "1h". */
void cli_value_format(enum cli_kind kind, uint64_t value, char ret_text[CLI_VALUE_SIZE]);

#endif
