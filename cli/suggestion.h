/* "Did you mean": the nearest name to a mistyped word.
 *
 *     struct cli_suggestion suggestion = cli_suggestion_for(word, length);
 *     for (...)
 *         cli_suggestion_consider(&suggestion, names[i]);
 *     if (suggestion.name)
 *         printf("did you mean %s?\n", suggestion.name);
 *
 * A name is near if it begins with the word, or if at most two characters must be inserted, deleted
 * or replaced, and fewer than the word has. Of several names the nearest is suggested, and of those
 * the first. */
#ifndef GS_CLI_SUGGESTION_H
#define GS_CLI_SUGGESTION_H

#include <stddef.h>

struct cli_suggestion {
    const char *name; /* NULL: no name is near */

    const char *word; /* the remaining members are private */
    size_t length, distance;
};

/* The word need not end with a zero. */
struct cli_suggestion cli_suggestion_for(const char *word, size_t length);

void cli_suggestion_consider(struct cli_suggestion *suggestion, const char *name);

#endif
