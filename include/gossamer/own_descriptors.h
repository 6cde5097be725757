/* The descriptors of the library itself, in a program that does not know of them: it may close
 * every number from 3 up, as daemons do, and expect that the first that it opens is 3. So loops and
 * rings get high numbers for what they open, and who passes the program's calls on can ask whether
 * a number is one of those.
 *
 *     gs_own_descriptors_start();
 *     err = gs_threads_run(NULL, first, NULL, NULL);
 *
 *     int close_for_program(int fd)
 *     {
 *         return gs_is_own_descriptor(fd) ? -EBADF : gs_close(fd);
 *     }
 *
 * The functions may be called in any kernel thread, and in handlers of signals.
 */
#ifndef GOSSAMER_OWN_DESCRIPTORS_H
#define GOSSAMER_OWN_DESCRIPTORS_H

#include <gossamer/api.h>
#include <stdbool.h>

GS_BEGIN_DECLS

/* From now on the library's descriptors have numbers from 800 on, or from half of the limit
 * (RLIMIT_NOFILE) if that is lower, and are remembered. Call it before the first loop is made.
 * Without this call nothing is moved, and no descriptor counts as the library's. */
GS_API void gs_own_descriptors_start(void);

/* Makes a descriptor, which has just been opened, one of the library's own. Returns the number that
 * it has now: the same if it cannot be moved. An error, which is negative, is returned as it is. */
GS_API int gs_own_descriptor(int fd);

/* Closes a descriptor, which is then no longer the library's own. Returns 0 or -errno. */
GS_API int gs_own_descriptor_close(int fd);

/* Returns whether the descriptor is open for the library itself. Numbers from 4096 on never are. */
GS_API bool gs_is_own_descriptor(int fd);

/* As close_range(2), with its flags, around the library's own. Returns 0 or -errno: -EINVAL if last
 * is less than first. User threads that wait for the descriptors are not told (gs_forget). */
GS_API int gs_close_range_but_own(unsigned first, unsigned last, unsigned flags);

/* Closes all that are the library's own: in the child of a fork, where they are the parent's, if
 * the child does not use its loops. */
GS_API void gs_own_descriptors_close(void);

GS_END_DECLS

#endif
