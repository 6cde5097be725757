/* The command line of `gossamer cc`, which is clang's with a few options more. */
#ifndef GS_COMPILER_ARGUMENTS_H
#define GS_COMPILER_ARGUMENTS_H

#include "compiler/driver/words.h"

#include <stdbool.h>

enum word_kind {
    WORD_COMMON,  /* for compiling and linking */
    WORD_COMPILE, /* only for compiling */
    WORD_LINK,    /* only for linking, at its position among the inputs */
    WORD_SOURCE,
    WORD_OBJECT,   /* an input that is not compiled */
    WORD_LANGUAGE, /* of the inputs behind it */
};

struct word {
    const char *text, *value; /* value: the word after it that belongs to it; NULL: none */
    const char *language;     /* of a source, as -x gave it; NULL: by its name */
    enum word_kind kind;
};

/* Those that are passes of the compiler, which work on code that was converted. */
enum sanitizer {
    SANITIZER_ADDRESS = 1,
    SANITIZER_LEAK = 2,
    SANITIZER_UNKNOWN = 4, /* to the runtime */
};

struct arguments {
    struct word *words;
    size_t count;
    unsigned sources, inputs;
    bool links;          /* the command makes a program */
    bool compiles;       /* it makes objects */
    bool is_shared;      /* it would make a shared library */
    bool is_partial;     /* it makes an object of objects */
    unsigned sanitizers; /* enum sanitizer: several */
    const char *output, *level;
    struct words reports;
    const char *frames, *main, *stress; /* NULL: not given */
    bool warns_of_races, is_quiet;      /* is_quiet: no warnings of departures */
};

/* Replace arguments that name a file of arguments by its words. */
void cc_responses_expand(int *argc, char ***argv);

/* Returns 0, or the exit status after a message. */
int cc_arguments_parse(int argc, char **argv, struct arguments *ret_arguments);

/* Whether the option names the output. */
bool cc_is_output(const char *text);

/* Add a word, with its value, to a command. */
void cc_arguments_add(struct words *command, const struct word *word);

#endif
