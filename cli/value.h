/* Words to values, and values to words, for options that take numbers. */
#ifndef GS_CLI_VALUE_H
#define GS_CLI_VALUE_H

#include "cli/options.h"

/* Enough for any value in words. */
enum { CLI_VALUE_LENGTH = 40 };

/* The strict reading of a word: no sign, no white space, nothing after it. Returns 0, -EINVAL (not
 * such a value) or -ERANGE (does not fit 64 bits). */
GS_MUST_CHECK int cli_value_parse(enum cli_kind kind, const char *word, uint64_t *ret_value);

/* The shortest exact words for the value: "64k", "300ms", "1h". */
void cli_value_format(enum cli_kind kind, uint64_t value, char ret_text[CLI_VALUE_LENGTH]);

#endif
