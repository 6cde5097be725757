/* Files of arguments, "@FILE" on the command line, as clang reads them. */
#include "compiler/driver/arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One file may name another, and itself. */
#define DEPTH_MAX 16

static void add_argument(struct words *words, char *word, unsigned depth);

/* Returns the file's text, or NULL: then the word is an argument as it is. */
static char *read_text(const char *path)
{
    char *text = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    ssize_t n = getdelim(&text, &room, 0, file);
    fclose(file);
    char *kept = cc_text("%s", n > 0 ? text : "");
    free(text);
    return kept;
}

static bool is_space(char byte)
{
    return byte && strchr(" \t\r\n", byte);
}

/* Take a word, without its quotes and backslashes, off the text. */
static char *take_word(char **text)
{
    char *from = *text, *to = *text, *word = *text, quote = 0;
    for (; *from && (quote || !is_space(*from)); from++) {
        bool is_quote = quote ? *from == quote : *from == '"' || *from == '\'';
        if (is_quote) {
            quote = quote ? 0 : *from;
            continue;
        }
        if (*from == '\\' && from[1] && quote != '\'')
            from++;
        *to++ = *from;
    }
    *text = from + (*from != 0);
    *to = 0;
    return word;
}

static void add_file(struct words *words, char *text, unsigned depth)
{
    for (;;) {
        while (is_space(*text))
            text++;
        if (!*text)
            return;
        add_argument(words, take_word(&text), depth + 1);
    }
}

static void add_argument(struct words *words, char *word, unsigned depth)
{
    char *text = word[0] == '@' && depth < DEPTH_MAX ? read_text(word + 1) : NULL;
    if (text)
        add_file(words, text, depth);
    else
        cc_words_add(words, word);
}

void cc_responses_expand(int *argc, char ***argv)
{
    struct words words = {0};
    for (int i = 0; i < *argc; i++)
        add_argument(&words, (*argv)[i], i ? 0 : DEPTH_MAX);
    *argc = (int)words.count;
    *argv = words.at;
}
