/* Scopes of user threads: structured concurrency. The threads of a scope, its members, all end
 * before gs_scope_wait returns, and the first error of a member cancels the others.
 *
 *     static int fetch(void *page)                       returns 0 or -errno
 *
 *     struct gs_scope scope = {0};                       all zero is ready for use
 *     int err = gs_scope_spawn(&scope, fetch, &first, GS_NEVER);
 *     if (!err)
 *         err = gs_scope_spawn(&scope, fetch, &second, GS_NEVER);
 *     if (err)
 *         gs_scope_cancel(&scope);
 *     int result = gs_scope_wait(&scope, gs_clock_now() + 5 * GS_SECOND);
 *
 * This is the nursery of Trio and the errgroup of Go. The thread that waits for a scope is its
 * owner. The scope is usually on the owner's stack, where members find what they share. The owner
 * always calls gs_scope_wait, even if it could spawn nothing: until then the scope must stay valid.
 *
 * Threads: the owner and the members may spawn and cancel, as may other user threads that end
 * before the wait returns. Only the owner waits. Members may be canceled and may wait for each
 * other as all threads; they have no handle, and are not joined.
 *
 * Lifetime: gs_scope_wait returns when all members have ended, with their cleanups, the destructors
 * of their thread-specific values, and their stacks: after that nothing uses the scope, what was on
 * the owner's stack, or a member's stack. To use a scope again, set it to zero again. In a child of
 * gs_fork the members do not exist, so the scope must not be used there.
 */
#ifndef GOSSAMER_SCOPE_H
#define GOSSAMER_SCOPE_H

#include <gossamer/sync.h>
#include <gossamer/thread.h>

GS_BEGIN_DECLS

/* ---- Scopes: threads that all end before their owner continues ---- */

/* What a member runs. Returns 0, or a negative error, which cancels the other members. A member
 * that calls gs_thread_exit ends without an error. */
typedef int gs_scope_fn(void *argument);

/* All zero: the defaults. The first two members may be set before use, the rest is private. */
struct gs_scope {
    unsigned max_threads;                          /* that exist at the same time; 0: any number */
    const struct gs_thread_attributes *attributes; /* of all members, without `stack` and `start` */

    struct gs_spin lock;
    bool is_canceled;
    int error;    /* what the wait will return */
    size_t count; /* members that exist or are being spawned */
    struct gs_thread *members;
    struct gs_wait_queue spawning, waiting;
};

/* Start a thread as a member, which calls fn(argument). If there are max_threads members, wait
 * until one has ended: a member that spawns needs another one that ends. Returns 0, -ETIMEDOUT,
 * -ECANCELED (the scope was canceled, or the caller while it waited), -ENOMEM, -EAGAIN (no stack of
 * that size is left), -EINVAL (an attribute is invalid), or -EOPNOTSUPP (a thread pointer is
 * not possible). With the deadline 0 and without max_threads, resumables may call it, too. */
GS_API GS_MUST_CHECK int gs_scope_spawn(struct gs_scope *scope, gs_scope_fn *fn, void *argument,
                                        uint64_t deadline_ns);

/* Cancel all members, also the caller if it is one, and let spawns fail from now on. This is no
 * error: the wait returns 0 if the members return 0 or -ECANCELED. */
GS_API void gs_scope_cancel(struct gs_scope *scope);

/* Wait until all members have ended. The deadline is that of the members: when it passes, they are
 * canceled, and still waited for; so they are if the caller is canceled. Returns what came first:
 * 0; the error of a member (-ECANCELED only from one that was not canceled by the scope);
 * -ETIMEDOUT (the deadline has passed); -ECANCELED (the caller was canceled); -ENOMEM (there is no
 * memory for the deadline, so the members were canceled); or -EDEADLK (the caller is a member). */
GS_API int gs_scope_wait(struct gs_scope *scope, uint64_t deadline_ns);

GS_END_DECLS

#endif
