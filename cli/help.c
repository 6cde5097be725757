#include "cli/help.h"

#include "cli/value.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The columns that help texts keep within. */
enum { LINE_WIDTH = 96, LABEL_LENGTH = 80 };

/* "-w, --workers N". Returns its length. */
static int format_label(const struct cli_option *option, char *label)
{
    char letter[] = {'-', option->letter, ',', ' ', '\0'};
    return snprintf(label, LABEL_LENGTH, "  %s--%s%s%s", option->letter ? letter : "    ",
                    option->name, option->argument ? " " : "",
                    option->argument ? option->argument : "");
}

static int label_width(const struct cli_command *command)
{
    int widest = (int)strlen("  -V, --version");
    char label[LABEL_LENGTH];
    for (size_t i = 0; i < command->count; i++) {
        int length = format_label(&command->options[i], label);
        widest = length > widest ? length : widest;
    }
    return widest;
}

/* " (default 64k)", or nothing where the help text tells the default itself. */
static void format_default(const struct cli_option *option, char *text, size_t n)
{
    char value[CLI_VALUE_LENGTH];
    *text = '\0';
    if (option->kind == CLI_FLAG || option->kind == CLI_LIST || strstr(option->help, "(default"))
        return;
    if (option->kind == CLI_TEXT) {
        const char *word = *(const char **)option->target;
        if (word)
            snprintf(text, n, " (default %s)", word);
    } else if (*(const uint64_t *)option->target) {
        cli_value_format(option->kind, *(const uint64_t *)option->target, value);
        snprintf(text, n, " (default %s)", value);
    }
}

/* The words, wrapped, each line starting in the given column, where the cursor is. */
static void print_wrapped(const char *words, int column)
{
    int at = column;
    while (*words) {
        int length = (int)strcspn(words, " ");
        if (at > column && at + 1 + length > LINE_WIDTH) {
            printf("\n%*s", column, "");
            at = column;
        } else if (at > column) {
            putchar(' ');
            at++;
        }
        printf("%.*s", length, words);
        at += length;
        words += length;
        words += strspn(words, " ");
    }
    putchar('\n');
}

static void print_option(const struct cli_option *option, int width)
{
    char label[LABEL_LENGTH], text[1024], standard[256];
    format_label(option, label);
    format_default(option, standard, sizeof standard);
    snprintf(text, sizeof text, "%s%s", option->help, standard);
    printf("%-*s  ", width, label);
    print_wrapped(text, width + 2);
}

void cli_help_print(const struct cli_command *command)
{
    static const struct cli_option common[] = {
        {"help", 'h', NULL, "print this and exit", CLI_FLAG, NULL, .group = NULL},
        {"version", 'V', NULL, "print the version and exit", CLI_FLAG, NULL, .group = NULL},
    };
    int width = label_width(command);
    const char *group = "Options";

    printf("Usage: %s [OPTION...]%s%s\n\n", command->name, command->operands ? " " : "",
           command->operands ? command->operands : "");
    print_wrapped(command->summary, 0);
    for (size_t i = 0; i < command->count; i++) {
        const struct cli_option *option = &command->options[i];
        bool starts = option->group && strcmp(option->group, group);
        if (option->group)
            group = option->group;
        if (starts || i == 0)
            printf("\n%s:\n", group);
        print_option(option, width);
    }
    printf("\nHelp:\n");
    print_option(&common[0], width);
    print_option(&common[1], width);
    if (command->epilogue)
        printf("\n%s\n", command->epilogue);
}

void cli_version_print(void)
{
    printf("gossamer %s\n", GS_VERSION);
}
