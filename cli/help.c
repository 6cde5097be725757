#include "cli/help.h"

#include "cli/value.h"

#include <gossamer/version.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* LINE_WIDTH: columns of a help text. */
enum { LINE_WIDTH = 96, LABEL_SIZE = 80 };

/* Write "-w, --workers N". Returns its length. */
static int format_label(const struct cli_option *option, char *label)
{
    char letter[] = {'-', option->letter, ',', ' ', '\0'};
    return snprintf(label, LABEL_SIZE, "  %s--%s%s%s", option->letter ? letter : "    ",
                    option->name, option->argument ? " " : "",
                    option->argument ? option->argument : "");
}

static int label_width(const struct cli_command *command)
{
    int widest = (int)strlen("  -V, --version");
    char label[LABEL_SIZE];
    for (size_t i = 0; i < command->count; i++) {
        int length = format_label(&command->options[i], label);
        widest = length > widest ? length : widest;
    }
    return widest;
}

/* Write " (default 64k)", or "" if the help text states the default itself. */
static void format_default(const struct cli_option *option, char *text, size_t n)
{
    char value[CLI_VALUE_SIZE];
    *text = '\0';
    if (option->kind == CLI_FLAG || option->kind == CLI_LIST || option->kind == CLI_RATE ||
        strstr(option->help, "(default"))
        return;
    if (option->kind == CLI_TEXT) {
        const char *value_text = *(const char **)option->target;
        if (value_text)
            snprintf(text, n, " (default %s)", value_text);
    } else if (*(const uint64_t *)option->target) {
        cli_value_format(option->kind, *(const uint64_t *)option->target, value);
        snprintf(text, n, " (default %s)", value);
    }
}

/* Print `text` wrapped, each line starting at `column`, where the cursor is. */
static void print_wrapped(const char *text, int column)
{
    int position = column;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (position > column && position + 1 + length > LINE_WIDTH) {
            printf("\n%*s", column, "");
            position = column;
        } else if (position > column) {
            putchar(' ');
            position++;
        }
        printf("%.*s", length, text);
        position += length;
        text += length;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_option(const struct cli_option *option, int width)
{
    char label[LABEL_SIZE], text[1024], default_text[256];
    format_label(option, label);
    format_default(option, default_text, sizeof default_text);
    snprintf(text, sizeof text, "%s%s", option->help, default_text);
    printf("%-*s  ", width, label);
    print_wrapped(text, width + 2);
}

void cli_help_print(const struct cli_command *command)
{
    static const struct cli_option common[] = {
        {"help", 'h', NULL, "print this help and exit", CLI_FLAG, NULL, .group = NULL},
        {"version", 'V', NULL, "print the version and exit", CLI_FLAG, NULL, .group = NULL},
    };
    int width = label_width(command);
    const char *group = "Options";

    printf("Usage: %s [OPTION...]%s%s\n\n", command->name, command->operands ? " " : "",
           command->operands ? command->operands : "");
    print_wrapped(command->summary, 0);
    for (size_t i = 0; i < command->count; i++) {
        const struct cli_option *option = &command->options[i];
        bool starts_group = option->group && strcmp(option->group, group);
        if (option->group)
            group = option->group;
        if (starts_group || i == 0)
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
    printf("gossamer %s\n", GOSSAMER_VERSION);
}
