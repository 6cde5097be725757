/* What the C library and the processor keep for each kernel thread: a thread of the program takes
 * along what the program may change of it. */
#ifndef GS_COMPILER_KEPT_H
#define GS_COMPILER_KEPT_H

enum { KEPT_LOCALE = 1, KEPT_H_ERRNO = 2, KEPT_NUMBERS = 4 };

#endif
