/* The version of the library: of these headers, and of the library that the program runs with.
 *
 *     #if GOSSAMER_VERSION_NUMBER < GOSSAMER_MAKE_VERSION(0, 1, 0)
 *     #error "needs Gossamer 0.1"
 *     #endif
 *
 * Threads: all functions may be called from any kernel thread and from signal handlers.
 */
#ifndef GOSSAMER_VERSION_H
#define GOSSAMER_VERSION_H

#include <gossamer/api.h>

GS_BEGIN_DECLS

/* The version of these headers. The build reads it from here. */
#define GOSSAMER_VERSION_MAJOR 0
#define GOSSAMER_VERSION_MINOR 1
#define GOSSAMER_VERSION_PATCH 0

/* A version as a number: a later version has a larger one. Each part is below 256. */
#define GOSSAMER_MAKE_VERSION(major_, minor_, patch_) ((major_) << 16 | (minor_) << 8 | (patch_))
#define GOSSAMER_VERSION_NUMBER                                                                    \
    GOSSAMER_MAKE_VERSION(GOSSAMER_VERSION_MAJOR, GOSSAMER_VERSION_MINOR, GOSSAMER_VERSION_PATCH)

/* The version as text: "MAJOR.MINOR.PATCH". */
#define GOSSAMER_VERSION                                                                           \
    GS_TEXT(GOSSAMER_VERSION_MAJOR)                                                                \
    "." GS_TEXT(GOSSAMER_VERSION_MINOR) "." GS_TEXT(GOSSAMER_VERSION_PATCH)

/* Returns GOSSAMER_VERSION of the library that the program runs with. A shared library may be newer
 * than the headers that the program was compiled with. */
GS_API const char *gs_version(void);

/* Returns GOSSAMER_VERSION_NUMBER of that library. */
GS_API int gs_version_number(void);

GS_END_DECLS

#endif
