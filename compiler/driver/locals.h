/* Thread-local variables of machine code that is linked with a converted program: the runtime has
 * to find those of a kernel thread. */
#ifndef GS_COMPILER_DRIVER_LOCALS_H
#define GS_COMPILER_DRIVER_LOCALS_H

#include <stdbool.h>

/* Append to a source of C the function by which the runtime finds them (abi.h). Returns 0, or 1
 * after a message. */
int cc_locals_write(const char *path, bool has_any);

/* Make an object that is to be before all machine code, or behind it. Returns its path, or NULL
 * after a message. */
const char *cc_locals_mark(const char *where);
#define BEFORE_CODE "begin"
#define BEHIND_CODE "end"

#endif
