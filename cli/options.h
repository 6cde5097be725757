/* The options of the commands: a table says what there is; parsing, checking and --help follow from
 * it.
 *
 *     static uint64_t workers = 1;
 *     static const struct cli_option options[] = {
 *         {"workers", 'w', "N", "event loops", CLI_NUMBER, &workers, .least = 1, .most = 64},
 *     };
 *     static const struct cli_command command = {"gossamer serve", "ROOT", "Serve files.", options,
 * 1, NULL}; int first, err = cli_parse(&command, argc, argv, &first); if (err) return err ==
 * CLI_DONE ? 0 : 2;
 *
 * Every command also has --help (-h) and --version (-V). Options and operands may come in any
 * order, and `--` ends the options. An option that is given twice has its last value. Not for
 * several threads at once: getopt_long is beneath.
 */
#ifndef GS_CLI_OPTIONS_H
#define GS_CLI_OPTIONS_H

#include <gossamer/api.h>
#include <stddef.h>
#include <stdint.h>

/* --help or --version was printed: there is nothing left to do. */
enum { CLI_DONE = 1 };

/* The most options that a command may have. */
enum { CLI_MOST_OPTIONS = 64 };

/* What an option takes, and what its target points to. Values have no sign. */
enum cli_kind {
    CLI_FLAG,         /* bool: set to true */
    CLI_NUMBER,       /* uint64_t */
    CLI_DURATION,     /* uint64_t, nanoseconds: "2.5" is seconds; "300ms", "2.5s", "1m", "1h" */
    CLI_MILLISECONDS, /* uint64_t, nanoseconds: like CLI_DURATION, but a bare number is milliseconds
                       */
    CLI_SIZE,         /* uint64_t, bytes: "8192", "64k", "1m", "2g" (of 1024) */
    CLI_TEXT,         /* const char *: the word itself, which stays in argv */
    CLI_LIST,         /* struct cli_list: one more word each time */
};

/* The words given to a CLI_LIST. Start from zero; cli_list_done frees the array, not the words. */
struct cli_list {
    const char **items;
    size_t count;
};

/* The target's value when cli_parse is called is the default. --help shows it unless it is 0 or NULL,
 * or the help text has a "(default ...)" of its own. */
struct cli_option {
    const char *name;
    char letter;          /* '\0': none */
    const char *argument; /* its name in --help; NULL for flags */
    const char *help;
    enum cli_kind kind;
    void *target;
    uint64_t least, most; /* of the value in the target's unit; most 0: no limit */
    const char *group; /* heading in --help; NULL: that of the option before, at first "Options" */
};

struct cli_command {
    const char *name;     /* "gossamer serve" */
    const char *operands; /* "ROOT"; NULL: the command takes none, and is refused any */
    const char *summary;
    const struct cli_option *options;
    size_t count;
    const char *epilogue; /* what --help ends with; may be NULL */
};

/* Read argv[1] and on. argv is reordered so that the operands are its last words; the index of the
 * first is stored. Returns 0, CLI_DONE, or -EINVAL after one line on stderr. Targets may have been
 * written in any case. */
GS_MUST_CHECK int cli_parse(const struct cli_command *command, int argc, char **argv,
                            int *ret_first_operand);

/* One line on stderr in the manner of cli_parse: "NAME: " and the message. Returns -EINVAL. */
int cli_fail(const struct cli_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void cli_list_done(struct cli_list *list);

#endif
