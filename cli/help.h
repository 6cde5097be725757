/* What --help and --version print. */
#ifndef GS_CLI_HELP_H
#define GS_CLI_HELP_H

#include "cli/options.h"

/* On stdout: usage, summary, the options by group with their defaults, epilogue. */
void cli_help_print(const struct cli_command *command);

/* On stdout: the program's name and version. */
void cli_version_print(void);

#endif
