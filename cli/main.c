/* gossamer COMMAND: finds the command and hands it the remaining words. */
#include "cli/help.h"
#include "cli/lab.h"
#include "cli/options.h"
#include "load/load.h"
#include "serve/serve.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", "serve the files of a directory over HTTP", gs_serve_main},
    {"load", "put a web server under load, and measure its answers", gs_load_main},
    {"lab", "run the experiments and write their reports", cli_lab_main},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void)
{
    puts("Usage: gossamer COMMAND [WORD...]\n\n"
         "A web server, a load generator, and a lab that measures servers.\n\nCommands:");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-8s%s\n", commands[i].name, commands[i].summary);
    puts("\nHelp:\n"
         "  gossamer COMMAND --help    the options of a command\n"
         "  gossamer --version         the version");
}

static bool is_either(const char *word, const char *name, const char *letter)
{
    return !strcmp(word, name) || !strcmp(word, letter);
}

/* A standard stream that the caller closed leads nowhere; a socket must not take its number, and
 * then be sent messages. */
static bool open_standard_streams(void)
{
    int fd = STDIN_FILENO;
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = fcntl(fd, F_GETFD) >= 0 ? fd + 1 : open("/dev/null", O_RDWR);
    return fd >= 0;
}

int main(int argc, char **argv)
{
    if (!open_standard_streams())
        return 1;
    if (argc < 2) {
        fputs("gossamer: no command given (try gossamer --help)\n", stderr);
        return 2;
    }
    if (is_either(argv[1], "--help", "-h")) {
        print_help();
        return 0;
    }
    if (is_either(argv[1], "--version", "-V")) {
        cli_version_print();
        return 0;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "gossamer: unknown command: \"%s\" (try gossamer --help)\n", argv[1]);
    return 2;
}
