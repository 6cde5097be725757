/* Joining and detaching threads. */
#include "compiler/runtime/threads/thread.h"

#include <pthread.h>

/* Only threads of the program use `join`: with one worker they do so in turn, and need no atomic
 * operations. */
uintptr_t gs_cc_end_for_joiner(struct thread *thread)
{
    if (gs_cc_workers > 1)
        return atomic_exchange(&thread->join, JOIN_DONE);
    uintptr_t old = atomic_load_explicit(&thread->join, memory_order_relaxed);
    atomic_store_explicit(&thread->join, JOIN_DONE, memory_order_relaxed);
    return old;
}

static bool replace_join(struct thread *thread, uintptr_t *expected, uintptr_t value)
{
    if (gs_cc_workers > 1)
        return atomic_compare_exchange_strong(&thread->join, expected, value);
    uintptr_t old = atomic_load_explicit(&thread->join, memory_order_relaxed);
    bool is_equal = old == *expected;
    if (is_equal)
        atomic_store_explicit(&thread->join, value, memory_order_relaxed);
    *expected = old;
    return is_equal;
}

/* Returns 0 if the thread is done, EAGAIN: self waits for it, or another error. */
static int begin_join(struct thread *self, struct thread *thread)
{
    uintptr_t join = atomic_load(&thread->join);
    if (join == JOIN_NONE && replace_join(thread, &join, (uintptr_t)self))
        return EAGAIN;
    if (join == (uintptr_t)self)
        return EAGAIN;
    return join == JOIN_DONE ? 0 : EINVAL;
}

/* Returns whether the thread will not wake self any more. */
static bool end_join(struct thread *self, struct thread *thread)
{
    uintptr_t join = (uintptr_t)self;
    return replace_join(thread, &join, JOIN_NONE);
}

static int join_until(struct thread *thread, void **ret_result, uint64_t deadline_ns)
{
    struct thread *self = thread_self();
    if (!thread)
        return ESRCH;
    if (thread == self)
        return EDEADLK;
    for (;;) {
        if (must_cancel(self)) {
            end_join(self, thread);
            gs_cc_test_cancel(self);
            return 0;
        }
        int err = begin_join(self, thread);
        if (!err)
            break;
        bool has_failed = err != EAGAIN;
        if (!has_failed && is_late(deadline_ns)) {
            has_failed = end_join(self, thread);
            err = ETIMEDOUT;
        }
        if (has_failed) {
            gs_cc_complete(self);
            return err;
        }
        if (gs_cc_wait_until(self, deadline_ns, false))
            return 0;
    }
    if (ret_result)
        *ret_result = thread->argument;
    gs_cc_free_thread(thread);
    gs_cc_complete(self);
    jump_if_told(self);
    return 0;
}

int gs_cc_pthread_join(pthread_t id, void **ret_result)
{
    return join_until((struct thread *)id, ret_result, GS_NEVER);
}

/* time: NULL: without a limit. */
int gs_cc_pthread_clockjoin_np(pthread_t id, void **ret_result, clockid_t clock,
                               const struct timespec *time)
{
    if (!is_known_clock(clock) || (time && !is_valid_time(time)))
        return EINVAL;
    if (!time)
        return gs_cc_pthread_join(id, ret_result);
    return join_until((struct thread *)id, ret_result, gs_cc_from_clock(clock, time));
}

int gs_cc_pthread_timedjoin_np(pthread_t id, void **ret_result, const struct timespec *time)
{
    return gs_cc_pthread_clockjoin_np(id, ret_result, CLOCK_REALTIME, time);
}

int gs_cc_pthread_tryjoin_np(pthread_t id, void **ret_result)
{
    struct thread *thread = (struct thread *)id;
    if (atomic_load(&thread->join) == JOIN_DONE)
        return gs_cc_pthread_join(id, ret_result);
    return EBUSY;
}

int gs_cc_pthread_detach(pthread_t id)
{
    struct thread *thread = (struct thread *)id;
    uintptr_t join = JOIN_NONE;
    if (replace_join(thread, &join, JOIN_DETACHED))
        return 0;
    if (join != JOIN_DONE)
        return EINVAL;
    gs_cc_free_thread(thread);
    return 0;
}
