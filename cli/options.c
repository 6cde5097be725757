#include "cli/options.h"

#include "cli/help.h"
#include "cli/value.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What getopt_long returns for the option in row i of the table is OPTION_BASE + i, by letter as
 * well as by name. */
enum { OPTION_BASE = 256, OPTION_HELP = 'h', OPTION_VERSION = 'V' };

/* The table in getopt's terms. */
struct translation {
    struct option names[CLI_MOST_OPTIONS + 3];
    char letters[2 * CLI_MOST_OPTIONS + 4];
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

static void translate(const struct cli_command *command, struct translation *ret)
{
    char *letter = ret->letters;
    struct option *name = ret->names;

    assert(command->count <= CLI_MOST_OPTIONS);
    *letter++ = ':'; /* tells a missing argument from an unknown option */
    for (size_t i = 0; i < command->count; i++) {
        const struct cli_option *option = &command->options[i];
        int takes = option->kind == CLI_FLAG ? no_argument : required_argument;
        *name++ = (struct option){option->name, takes, NULL, OPTION_BASE + (int)i};
        if (option->letter)
            *letter++ = option->letter;
        if (option->letter && takes)
            *letter++ = ':';
    }
    *name++ = (struct option){"help", no_argument, NULL, OPTION_HELP};
    *name++ = (struct option){"version", no_argument, NULL, OPTION_VERSION};
    *name = (struct option){NULL, 0, NULL, 0};
    memcpy(letter, "hV", sizeof "hV");
}

/* The row of the table that getopt's value stands for, or NULL. */
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

static bool is_ambiguous(const struct cli_command *command, const char *word)
{
    size_t length = strcspn(word, "="), matches = 0;
    for (size_t i = 0; i < command->count; i++)
        matches += !strncmp(command->options[i].name, word, length);
    return matches > 1;
}

/* getopt_long returned '?' or ':'. */
static int fail_option(const struct cli_command *command, int returned, char **argv)
{
    const struct cli_option *option = find_option(command, optopt);
    const char *word = argv[optind - 1];

    if (returned == ':' && option)
        return cli_fail(command, "option --%s needs an argument: %s", option->name,
                        option->argument);
    if (option || optopt == OPTION_HELP || optopt == OPTION_VERSION)
        return cli_fail(command, "option takes no argument: \"%s\"", word);
    if (optopt)
        return cli_fail(command, "unknown option: \"-%c\" (try %s --help)", optopt, command->name);
    if (is_ambiguous(command, word + 2))
        return cli_fail(command, "ambiguous option: \"%s\" (try %s --help)", word, command->name);
    return cli_fail(command, "unknown option: \"%s\" (try %s --help)", word, command->name);
}

static int fail_value(const struct cli_command *command, const struct cli_option *option,
                      const char *word)
{
    static const char *const expected[] = {
        [CLI_NUMBER] = "a number",
        [CLI_DURATION] = "a duration (such as 10, 2.5, 300ms, 1m)",
        [CLI_MILLISECONDS] = "a duration (such as 300, 2.5, 10s, 1m)",
        [CLI_SIZE] = "a size (such as 8192, 64k, 1m)",
    };
    return cli_fail(command, "--%s: \"%s\" is not %s", option->name, word, expected[option->kind]);
}

static int fail_range(const struct cli_command *command, const struct cli_option *option,
                      const char *word)
{
    char least[CLI_VALUE_LENGTH], most[CLI_VALUE_LENGTH];
    cli_value_format(option->kind, option->least, least);
    cli_value_format(option->kind, option->most ? option->most : UINT64_MAX, most);
    return cli_fail(command, "--%s: \"%s\" is out of range: %s to %s", option->name, word, least,
                    most);
}

static int store_value(const struct cli_command *command, const struct cli_option *option,
                       const char *word)
{
    uint64_t value;
    int err = cli_value_parse(option->kind, word, &value);
    if (err == -EINVAL)
        return fail_value(command, option, word);
    if (err || value < option->least || (option->most && value > option->most))
        return fail_range(command, option, word);
    *(uint64_t *)option->target = value;
    return 0;
}

static int append(const struct cli_command *command, struct cli_list *list, const char *word)
{
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return cli_fail(command, "out of memory");
    items[list->count++] = word;
    list->items = items;
    return 0;
}

static int store(const struct cli_command *command, const struct cli_option *option,
                 const char *word)
{
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->target = true;
        return 0;
    case CLI_TEXT:
        *(const char **)option->target = word;
        return 0;
    case CLI_LIST:
        return append(command, option->target, word);
    default:
        return store_value(command, option, word);
    }
}

/* Looked for before anything is stored, so that --help shows the defaults and not what the words
 * before it set. */
static bool prints(const struct translation *table, int argc, char **argv,
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
    struct translation table;
    int value;

    translate(command, &table);
    opterr = 0;
    if (prints(&table, argc, argv, command))
        return CLI_DONE;
    optind = 0; /* the value with which getopt begins anew */
    while ((value = getopt_long(argc, argv, table.letters, table.names, NULL)) != -1) {
        if (value == '?' || value == ':')
            return fail_option(command, value, argv);
        int err = store(command, find_option(command, value), optarg);
        if (err)
            return err;
    }
    if (!command->operands && optind < argc)
        return cli_fail(command, "unexpected word: \"%s\" (try %s --help)", argv[optind],
                        command->name);
    *ret_first_operand = optind;
    return 0;
}
