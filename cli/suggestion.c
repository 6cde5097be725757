#include "cli/suggestion.h"

#include <string.h>

/* Longer words are near to nothing. */
enum { MAX_LENGTH = 40, MAX_DISTANCE = 2 };

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance. distances[j] is that of the first i characters of the word to the first j
 * of the name; the loop replaces the row of i - 1 by that of i. */
static size_t distance_between(const char *word, size_t length, const char *name)
{
    size_t name_length = strlen(name), distances[MAX_LENGTH + 1];
    for (size_t j = 0; j <= name_length; j++)
        distances[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = distances[0];
        distances[0] = i;
        for (size_t j = 1; j <= name_length; j++) {
            size_t replaced = diagonal + (word[i - 1] != name[j - 1]);
            diagonal = distances[j];
            distances[j] = min(replaced, min(distances[j], distances[j - 1]) + 1);
        }
    }
    return distances[name_length];
}

struct cli_suggestion cli_suggestion_for(const char *word, size_t length)
{
    return (struct cli_suggestion){
        .word = word, .length = length, .distance = min(length, MAX_DISTANCE + 1)};
}

void cli_suggestion_consider(struct cli_suggestion *suggestion, const char *name)
{
    const char *word = suggestion->word;
    size_t length = suggestion->length, distance;
    if (!length || length > MAX_LENGTH || strlen(name) > MAX_LENGTH)
        return;
    distance = strncmp(name, word, length) ? distance_between(word, length, name) : 0;
    if (distance < suggestion->distance) {
        suggestion->distance = distance;
        suggestion->name = name;
    }
}
