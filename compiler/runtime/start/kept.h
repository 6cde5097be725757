/* What the C library and the processor keep for each kernel thread: a thread of the program takes
 * along what the program may change of it; and the thread-local variables of libraries
 * (library_locals.h), which is known when they are loaded. */
#ifndef GS_COMPILER_KEPT_H
#define GS_COMPILER_KEPT_H

enum { KEPT_LOCALE = 1, KEPT_H_ERRNO = 2, KEPT_NUMBERS = 4, KEPT_LIBRARIES = 8 };

#endif
