/* The end of a member of a scope (thread.c, scope.c). Invariants of a scope, under its lock:
 *
 *   1. `count` is the number of members in the list, of those that are removed from it but have not
 *      left, and of places that were reserved for a spawn.
 *   2. With a limit, count <= max_threads; threads wait in `spawning` only while they are equal.
 *      A place is handed to the thread that has waited longest: then count does not change.
 *   3. After the cancellation nobody waits in `spawning`, and each member in the list is canceled.
 *   4. A member in the list is not completed, so its control block is valid. */
#ifndef GS_THREAD_SCOPE_H
#define GS_THREAD_SCOPE_H

#include "thread/schedule/thread.h"

#include <gossamer/scope.h>

/* Remove the member, which has ended, from the list. */
void gs_scope_remove(struct gs_scope *scope, struct gs_thread *thread);

/* Give back its place. The scope may be freed as soon as its owner is ready. */
void gs_scope_leave(struct worker *worker, struct gs_scope *scope);

#endif
