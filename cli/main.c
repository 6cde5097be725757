/* gossamer COMMAND: dispatches to the command with the remaining arguments. */
#include "cli/help.h"
#include "cli/lab.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/suggestion.h"
#include "compiler/cc.h"
#include "load/load.h"
#include "serve/serve.h"

#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", "web server for the files of a directory", gs_serve_main},
    {"load", "HTTP load generator", gs_load_main},
    {"run", "run an unchanged program on user-level threads", cli_run_main},
    {"cc", "compile threaded C programs into event-driven ones", gs_cc_main_command},
    {"lab", "run experiments and write reports", cli_lab_main},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void)
{
    puts("Usage: gossamer COMMAND [ARGUMENT...]\n\n"
         "A web server, an HTTP load generator, and a lab that measures web servers.\n\nCommands:");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-8s%s\n", commands[i].name, commands[i].summary);
    puts("\nHelp:\n"
         "  gossamer COMMAND --help    print the options; also: gossamer help COMMAND\n"
         "  gossamer --version         print the version; --verbose: also missing system calls");
}

static bool is_option(const char *argument, const char *name, const char *letter)
{
    return !strcmp(argument, name) || !strcmp(argument, letter);
}

/* Open closed standard streams on /dev/null. Otherwise a socket could get descriptor 2, and error
 * messages would be sent on it. */
static bool open_standard_streams(void)
{
    int fd = STDIN_FILENO;
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = fcntl(fd, F_GETFD) >= 0 ? fd + 1 : open("/dev/null", O_RDWR);
    return fd >= 0;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (!strcmp(name, commands[i].name))
            return &commands[i];
    }
    return NULL;
}

static int fail_unknown(const char *word)
{
    static const char *const others[] = {"help", "--help", "--version"};
    struct cli_suggestion suggestion = cli_suggestion_for(word, strlen(word));
    for (size_t i = 0; i < COMMANDS; i++)
        cli_suggestion_consider(&suggestion, commands[i].name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cli_suggestion_consider(&suggestion, others[i]);
    if (suggestion.name)
        fprintf(stderr, "gossamer: unknown command: \"%s\" (did you mean %s?)\n", word,
                suggestion.name);
    else
        fprintf(stderr, "gossamer: unknown command: \"%s\" (try gossamer --help)\n", word);
    return 2;
}

/* "gossamer help load" as "gossamer load --help". */
static int help(int argc, char **argv)
{
    static char option[] = "--help";
    if (argc == 2) {
        print_help();
        return 0;
    }
    const struct command *command = find_command(argv[2]);
    if (!command)
        return fail_unknown(argv[2]);
    memmove(&argv[1], &argv[2], (size_t)(argc - 2) * sizeof *argv);
    argv[argc - 1] = option;
    return command->run(argc - 1, argv + 1);
}

/* System calls in whose place older ones are used. */
static void print_refused(void)
{
    const char *name;
    for (unsigned i = 0; (name = gs_sys_refused(i)); i++)
        printf("%s%s", i ? ", " : "the kernel lacks or refuses: ", name);
    puts(gs_sys_refused(0) ? "" : "the kernel lacks and refuses no system call");
}

int main(int argc, char **argv)
{
    if (!open_standard_streams())
        return 1;
    if (argc < 2) {
        fputs("gossamer: no command given (try gossamer --help)\n", stderr);
        return 2;
    }
    if (is_option(argv[1], "--help", "-h")) {
        print_help();
        return 0;
    }
    if (is_option(argv[1], "--version", "-V")) {
        cli_version_print();
        gs_cc_print_lacks();
        if (argc > 2 && is_option(argv[2], "--verbose", "-v"))
            print_refused();
        return 0;
    }
    if (!strcmp(argv[1], "help"))
        return help(argc, argv);
    const struct command *command = find_command(argv[1]);
    return command ? command->run(argc - 1, argv + 1) : fail_unknown(argv[1]);
}
