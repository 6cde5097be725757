/* The folders of `gossamer cc`: that of the plugin, the runtime and the headers, and its own for
 * what it makes meanwhile. */
#ifndef GS_COMPILER_FOLDERS_H
#define GS_COMPILER_FOLDERS_H

/* The program that compiles. */
#define CLANG "clang-19"

/* Print a message. Returns the exit status, 1. */
int cc_fail(const char *subject, const char *reason);

/* Beside the program in a build, and below lib where it is installed. Returns 0 or the exit
 * status. */
int cc_find_home(void);

/* Whether clang and the plugin are there. Returns 0, or the exit status after a message that says
 * what is missing. */
int cc_check_installation(void);

/* Make the folder of this command, which is removed when the process ends. Returns 0 or the exit
 * status. */
int cc_make_own(void);

/* The path of a file in one of them, from cc_allocate. */
const char *cc_home_file(const char *name);
const char *cc_own_file(const char *name);

#endif
