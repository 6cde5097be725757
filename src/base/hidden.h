/* Declares an object that several files of the library share. The compiler then knows that it is
 * not another library's: position-independent code accesses it without the global offset table. */
#ifndef GS_BASE_HIDDEN_H
#define GS_BASE_HIDDEN_H

#define GS_HIDDEN __attribute__((visibility("hidden")))

#endif
