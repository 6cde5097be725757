/* Lists of words: command lines. */
#ifndef GS_COMPILER_WORDS_H
#define GS_COMPILER_WORDS_H

#include <stddef.h>

/* Ends with NULL. The words are borrowed. */
struct words {
    char **at;
    size_t count, room;
};

/* Returns memory of zeros that is never freed: the process is short. Ends the process if there is
 * none. */
void *cc_allocate(size_t size);

void cc_words_add(struct words *words, const char *word);
void cc_words_add_all(struct words *words, const struct words *others);

/* Returns formatted text, from cc_allocate. */
char *cc_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Run the command. output: where its standard output goes; NULL: where ours does. Returns its exit
 * status; 127 if it cannot be started. */
int cc_run(const struct words *command, const char *output);

#endif
