/* A library that is closed and loaded again (reloaded.c). */
#ifndef GS_TEST_RELOADED_H
#define GS_TEST_RELOADED_H

/* Add to a variable of the thread, and wait. */
int reloaded_add(int number);

/* Print the number when the thread ends, although the library may be closed before. */
void reloaded_at_end(int *number);

#endif
