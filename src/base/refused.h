/* System calls that the kernel may lack, or that a sandbox refuses.
 *
 * Sandboxes answer calls that they do not know with -EPERM or -ENOSYS, some with -EINVAL. These are
 * also errors of the calls themselves. So at the first such error the call is made once more, with
 * arguments for which the kernel returns yet another error: if it does not, it never saw the
 * call. */
#ifndef GS_BASE_REFUSED_H
#define GS_BASE_REFUSED_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

enum gs_newer_call { GS_OPENAT2, GS_EPOLL_PWAIT2, GS_PREADV2, GS_PWRITEV2, GS_NEWER_CALLS };

extern _Atomic(bool) gs_known_refused[GS_NEWER_CALLS] __attribute__((visibility("hidden")));

/* Whether the call is known to be refused, so that it need not be made. */
static inline bool gs_is_known_refused(enum gs_newer_call call)
{
    return __builtin_expect(atomic_load_explicit(&gs_known_refused[call], memory_order_relaxed), 0);
}

/* Whether an error of the call, -ENOSYS, -EPERM or -EINVAL, is not its own. */
bool gs_is_refused_error(enum gs_newer_call call, long error);

static inline bool gs_is_refused(enum gs_newer_call call, long result)
{
    bool may_be = result == -ENOSYS || result == -EPERM || result == -EINVAL;
    return __builtin_expect(may_be, 0) && gs_is_refused_error(call, result);
}

#endif
