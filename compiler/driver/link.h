/* Linking: as clang does, and once more what was converted if the program starts threads. */
#ifndef GS_COMPILER_LINK_H
#define GS_COMPILER_LINK_H

#include "compiler/driver/arguments.h"

/* They are called when sources were compiled, and return the exit status. */
int cc_link_program(struct arguments *arguments);
/* A shared library is not converted. */
int cc_link_library(const struct arguments *arguments);
/* An object of objects has the bitcode of all, or none: the machine code of one without would be
 * missing in the program. */
int cc_link_objects(struct arguments *arguments);

#endif
