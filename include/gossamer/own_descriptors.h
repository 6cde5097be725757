/* The library's own descriptors, in a program that does not expect any. Such a program may close
 * every number from 3 on, as daemons do, and expect that the next open returns 3. The library can
 * therefore move the descriptors of its loops and rings to high numbers. Code that intercepts the
 * program's calls can ask whether a number belongs to the library.
 *
 *     gs_own_descriptors_start();
 *     err = gs_threads_run(NULL, first, NULL, NULL);
 *
 *     int close_for_program(int fd)
 *     {
 *         return gs_is_own_descriptor(fd) ? -EBADF : gs_close(fd);
 *     }
 *
 * Threads: all functions may be called from any kernel thread and from signal handlers.
 */
#ifndef GOSSAMER_OWN_DESCRIPTORS_H
#define GOSSAMER_OWN_DESCRIPTORS_H

#include <gossamer/api.h>
#include <stdbool.h>

GS_BEGIN_DECLS

/* From now on, give the library's descriptors numbers from 800 on, or from half of RLIMIT_NOFILE if
 * that is lower, and remember them. Call this before the first loop is created. Without it nothing
 * is moved, and no descriptor counts as the library's. */
GS_API void gs_own_descriptors_start(void);

/* Makes a descriptor, which has just been opened, one of the library's own. Returns the number that
 * it has now: the same if it cannot be moved. An error, which is negative, is returned as it is. */
GS_API int gs_own_descriptor(int fd);

/* Closes a descriptor, which is then no longer the library's own. Returns 0 or -errno. */
GS_API int gs_own_descriptor_close(int fd);

/* Returns whether the descriptor is open for the library itself. Numbers from 4096 on never are. */
GS_API bool gs_is_own_descriptor(int fd);

/* Like close_range(2), but skip the library's own descriptors. Returns 0 or -errno: -EINVAL if last
 * is less than first. This does not wake user threads that wait for the descriptors: call gs_forget
 * for these. */
GS_API int gs_close_range_but_own(unsigned first, unsigned last, unsigned flags);

/* Closes all of the library's own descriptors. For the child of a fork that does not use the
 * parent's loops. */
GS_API void gs_own_descriptors_close(void);

GS_END_DECLS

#endif
