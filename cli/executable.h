/* What `gossamer run` must know of a program before it executes it. */
#ifndef GS_CLI_EXECUTABLE_H
#define GS_CLI_EXECUTABLE_H

#include <stddef.h>

/* Find the program as a shell does: a name without a slash in the directories of PATH. Returns 0,
 * -ENOENT, -EACCES or -ENAMETOOLONG. */
int cli_executable_find(const char *name, char *ret_path, size_t n);

/* Returns why the program cannot run with a preloaded library and the dispatch of its system calls,
 * or NULL if it can. Of a script, its interpreter is examined. */
const char *cli_executable_refusal(const char *path);

#endif
