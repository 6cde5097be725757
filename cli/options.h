/* The option parser of the commands. A table describes the options; parsing, validation and --help
 * are derived from it.
 *
 *     static uint64_t workers = 1;
 *     static const struct cli_option options[] = {
 *         {"workers", 'w', "N", "event loops", CLI_NUMBER, &workers, .min = 1, .max = 64},
 *     };
 *     static const struct cli_command command = {
 *         .name = "gossamer serve", .operands = "ROOT", .summary = "Serve files.",
 *         .options = options, .count = 1,
 *     };
 *     int first, err = cli_parse(&command, argc, argv, &first);
 *     if (err)
 *         return err == CLI_DONE ? 0 : 2;
 *
 * Every command also has --help (-h) and --version (-V). Options and operands may be given in any
 * order, and `--` ends the options. If an option is repeated, the last value is used. The parser is
 * not thread-safe, as getopt_long is not. */
#ifndef GS_CLI_OPTIONS_H
#define GS_CLI_OPTIONS_H

#include <gossamer/api.h>
#include <stddef.h>
#include <stdint.h>

/* Returned by cli_parse after it printed --help or --version: the program should exit. */
enum { CLI_DONE = 1 };

/* Maximum number of options of a command. */
enum { CLI_OPTIONS_MAX = 64 };

/* The type of an option's value, and of its target. Numbers are unsigned. */
enum cli_kind {
    CLI_FLAG,     /* bool: set to true */
    CLI_NUMBER,   /* uint64_t */
    CLI_COUNT,    /* uint64_t: "8192", "64k", "1m", "2g" (powers of 1000) */
    CLI_RATE,     /* double, per second, positive: "0.5", "10k", or per time: "30/m", "1/2.5s" */
    CLI_DURATION, /* uint64_t, ns: "2.5" in seconds, or "300ms", "2.5s", "1m30s", "1h" */
    CLI_MILLISECONDS, /* uint64_t, ns: as CLI_DURATION, but a plain number is in milliseconds */
    CLI_SIZE,         /* uint64_t, bytes: "8192", "64k", "1m", "2g" (powers of 1024) */
    CLI_TEXT,         /* const char *: points into argv */
    CLI_LIST,         /* struct cli_list: appends an item */
};

/* The values of a CLI_LIST option. Starts zeroed. The items point into argv; cli_list_done frees
 * only the array. */
struct cli_list {
    const char **items;
    size_t count;
};

/* The default is the value of the target when cli_parse is called. --help shows it unless it is 0
 * or NULL, or the help text contains "(default". */
struct cli_option {
    const char *name;
    char letter;          /* '\0': no short option */
    const char *argument; /* its name in --help; NULL for flags */
    const char *help;
    enum cli_kind kind;
    void *target;
    uint64_t min, max;   /* in the unit of the target; max 0: no limit; not of a CLI_RATE */
    const char *group;   /* heading in --help; NULL: as the previous option, initially "Options" */
    const char *example; /* a value, for documents; NULL: the default is one, or there is none */
};

struct cli_command {
    const char *name;     /* "gossamer serve" */
    const char *operands; /* "ROOT"; NULL: operands are an error */
    const char *summary;
    const struct cli_option *options;
    size_t count;
    const char *epilogue; /* end of --help; may be NULL */
};

/* Parse argv from argv[1] on, and reorder it so that the operands come last; *ret_first_operand is
 * the index of the first. Returns 0, CLI_DONE, or -EINVAL after printing a line to stderr. On error
 * some targets may have been written. */
GS_MUST_CHECK int cli_parse(const struct cli_command *command, int argc, char **argv,
                            int *ret_first_operand);

/* Give the option a value, as the command line would. Returns 0, or -EINVAL after printing a line
 * to stderr. */
GS_MUST_CHECK int cli_store(const struct cli_command *command, const struct cli_option *option,
                            const char *text);

/* Print "NAME: " and the message to stderr, as cli_parse does. Returns -EINVAL. */
int cli_fail(const struct cli_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void cli_list_done(struct cli_list *list);

#endif
