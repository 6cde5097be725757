/* The output of --help and --version. */
#ifndef GS_CLI_HELP_H
#define GS_CLI_HELP_H

#include "cli/options.h"

/* Print usage, summary, the options by group with their defaults, and the epilogue to stdout. */
void cli_help_print(const struct cli_command *command);

/* Print the program's name and version to stdout. */
void cli_version_print(void);

#endif
