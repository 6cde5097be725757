#include "cli/options.h"

#include "cli/help.h"
#include "cli/suggestion.h"
#include "cli/value.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of getopt_long: OPTION_BASE + i is the long option in row i of the table; a short option
 * returns its letter. */
enum { OPTION_BASE = 256, OPTION_HELP = 'h', OPTION_VERSION = 'V' };

/* The table as getopt_long requires it. */
struct getopt_table {
    struct option names[CLI_OPTIONS_MAX + 3];
    char letters[2 * CLI_OPTIONS_MAX + 4];
};

int cli_fail(const struct cli_command *command, const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: %s\n", command->name, message);
    return -EINVAL;
}

void cli_list_done(struct cli_list *list)
{
    free(list->items);
    list->items = NULL;
    list->count = 0;
}

static void build_table(const struct cli_command *command, struct getopt_table *ret_table)
{
    char *letter = ret_table->letters;
    struct option *name = ret_table->names;

    assert(command->count <= CLI_OPTIONS_MAX);
    *letter++ = ':'; /* distinguishes a missing argument from an unknown option */
    for (size_t i = 0; i < command->count; i++) {
        const struct cli_option *option = &command->options[i];
        int argument = option->kind == CLI_FLAG ? no_argument : required_argument;
        *name++ = (struct option){option->name, argument, NULL, OPTION_BASE + (int)i};
        if (option->letter)
            *letter++ = option->letter;
        if (option->letter && argument)
            *letter++ = ':';
    }
    *name++ = (struct option){"help", no_argument, NULL, OPTION_HELP};
    *name++ = (struct option){"version", no_argument, NULL, OPTION_VERSION};
    *name = (struct option){NULL, 0, NULL, 0};
    memcpy(letter, "hV", sizeof "hV");
}

/* Returns the option for a value of getopt_long, or NULL. */
static const struct cli_option *find_option(const struct cli_command *command, int value)
{
    if (value >= OPTION_BASE)
        return &command->options[value - OPTION_BASE];
    for (size_t i = 0; i < command->count; i++) {
        if (value && command->options[i].letter == value)
            return &command->options[i];
    }
    return NULL;
}

static bool is_ambiguous(const struct cli_command *command, const char *prefix)
{
    size_t length = strcspn(prefix, "="), matches = 0;
    for (size_t i = 0; i < command->count; i++)
        matches += !strncmp(command->options[i].name, prefix, length);
    return matches > 1;
}

/* argument: "--listn" or "--listn=8080". */
static int fail_unknown(const struct cli_command *command, const char *argument)
{
    struct cli_suggestion suggestion = cli_suggestion_for(argument + 2, strcspn(argument + 2, "="));
    for (size_t i = 0; i < command->count; i++)
        cli_suggestion_consider(&suggestion, command->options[i].name);
    cli_suggestion_consider(&suggestion, "help");
    cli_suggestion_consider(&suggestion, "version");
    if (suggestion.name)
        return cli_fail(command, "unknown option: \"%s\" (did you mean --%s?)", argument,
                        suggestion.name);
    return cli_fail(command, "unknown option: \"%s\" (try %s --help)", argument, command->name);
}

/* Report the error for which getopt_long returned '?' or ':'. */
static int fail_option(const struct cli_command *command, int returned, char **argv)
{
    const struct cli_option *option = find_option(command, optopt);
    const char *argument = argv[optind - 1];

    if (returned == ':' && option)
        return cli_fail(command, "option --%s requires an argument: %s", option->name,
                        option->argument);
    if (option || optopt == OPTION_HELP || optopt == OPTION_VERSION)
        return cli_fail(command, "option takes no argument: \"%s\"", argument);
    if (optopt)
        return cli_fail(command, "unknown option: \"-%c\" (try %s --help)", optopt, command->name);
    if (is_ambiguous(command, argument + 2))
        return cli_fail(command, "ambiguous option: \"%s\" (try %s --help)", argument,
                        command->name);
    return fail_unknown(command, argument);
}

static int store_value(const struct cli_command *command, const struct cli_option *option,
                       const char *text)
{
    char problem[CLI_PROBLEM_SIZE];
    if (cli_value_read(option, text, option->target, problem))
        return cli_fail(command, "--%s: %s", option->name, problem);
    return 0;
}

static int store_rate(const struct cli_command *command, const struct cli_option *option,
                      const char *text)
{
    double rate;
    if (cli_rate_parse(text, &rate) || !(rate > 0))
        return cli_fail(command, "--%s: \"%s\" is not %s", option->name, text,
                        cli_value_example(option->kind));
    *(double *)option->target = rate;
    return 0;
}

static int append(const struct cli_command *command, struct cli_list *list, const char *text)
{
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return cli_fail(command, "out of memory");
    items[list->count++] = text;
    list->items = items;
    return 0;
}

int cli_store(const struct cli_command *command, const struct cli_option *option, const char *text)
{
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->target = true;
        return 0;
    case CLI_TEXT:
        *(const char **)option->target = text;
        return 0;
    case CLI_LIST:
        return append(command, option->target, text);
    case CLI_RATE:
        return store_rate(command, option, text);
    default:
        return store_value(command, option, text);
    }
}

/* Handle --help and --version before any value is stored, so that --help shows the defaults.
 * Returns whether one was given. */
static bool print_if_requested(const struct getopt_table *table, int argc, char **argv,
                               const struct cli_command *command)
{
    int value;
    optind = 0;
    while ((value = getopt_long(argc, argv, table->letters, table->names, NULL)) != -1) {
        if (value == '?' || value == ':')
            return false;
        if (value == OPTION_HELP)
            cli_help_print(command);
        else if (value == OPTION_VERSION)
            cli_version_print();
        if (value == OPTION_HELP || value == OPTION_VERSION)
            return true;
    }
    return false;
}

int cli_parse(const struct cli_command *command, int argc, char **argv, int *ret_first_operand)
{
    struct getopt_table table;
    int value;

    build_table(command, &table);
    opterr = 0;
    if (print_if_requested(&table, argc, argv, command))
        return CLI_DONE;
    optind = 0; /* restarts getopt */
    while ((value = getopt_long(argc, argv, table.letters, table.names, NULL)) != -1) {
        if (value == '?' || value == ':')
            return fail_option(command, value, argv);
        int err = cli_store(command, find_option(command, value), optarg);
        if (err)
            return err;
    }
    if (!command->operands && optind < argc)
        return cli_fail(command, "unexpected argument: \"%s\" (try %s --help)", argv[optind],
                        command->name);
    *ret_first_operand = optind;
    return 0;
}
