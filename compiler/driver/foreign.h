/* Machine code that is linked with a converted program: objects and archives of clang. */
#ifndef GS_COMPILER_FOREIGN_H
#define GS_COMPILER_FOREIGN_H

#include <stdbool.h>

/* Make a copy of an object or archive whose calls that wait, and those on objects of
 * synchronisation, are the runtime's, as the program's are. It runs on the stack of a thread.
 * Returns its path, or NULL after a message. */
const char *cc_foreign_copy(const char *path, unsigned number);

/* Whether it has an allocator: that is called where no thread may wait, and stays as it is. */
bool cc_has_allocator(const char *path);

#endif
