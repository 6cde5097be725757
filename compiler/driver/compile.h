/* Compiling sources to objects that have bitcode. */
#ifndef GS_COMPILER_COMPILE_H
#define GS_COMPILER_COMPILE_H

#include "compiler/driver/arguments.h"

/* Both return the exit status. */

/* The command as it is, when it makes no program. */
int cc_pass_through(const struct arguments *arguments);

/* Replace each source by its object. */
int cc_compile_all(struct arguments *arguments);

#endif
