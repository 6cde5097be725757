/* Switching from a thread to the next one. Inline in each blocking call: after a switch the
 * processor mispredicts each return, so there should be few frames on a stack that is left. */
#ifndef GS_THREAD_DISPATCH_H
#define GS_THREAD_DISPATCH_H

#include "thread/schedule/thread.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The item, which may be NULL, cannot just be switched to. Returns it if a stack was made ready for
 * it; else NULL: it is stored for the worker's own stack to resume. */
struct gs_thread *gs_worker_defer(struct worker *worker, struct runnable *item);

/* The next thread; NULL: switch to the worker's own stack, which does all that is not running
 * threads. */
ALWAYS_INLINE struct gs_thread *dispatch_next(struct worker *worker)
{
    if (UNLIKELY(--worker->countdown < 0) && gs_worker_tick(worker))
        return NULL;
    struct runnable *item =
        UNLIKELY(!worker->ready_mask) ? gs_worker_next(worker) : queue_pop(worker);
    if (UNLIKELY(!item) || UNLIKELY(item->resume != NULL))
        return gs_worker_defer(worker, item);
    return thread_of(item);
}

/* The result of the blocking call in which the next thread resumes; only waits that end in a tail
 * call use it. */
ALWAYS_INLINE int dispatch_result(const struct gs_thread *next)
{
    return next ? atomic_load_explicit(&next->claim, memory_order_relaxed) : 0;
}

ALWAYS_INLINE int dispatch_to(struct worker *worker, struct gs_thread *self, struct gs_thread *next)
{
    worker->current = next;
    fiber_leave(&self->fiber, next ? &next->fiber : &worker->fiber, false);
    int result = gs_context_switch(&self->sp, next ? next->sp : worker->sp, dispatch_result(next));
    fiber_enter(&self->fiber);
    return result;
}

/* Run other threads of this worker. The caller is queued already, or waits. */
ALWAYS_INLINE int dispatch(struct worker *worker, struct gs_thread *self)
{
    struct gs_thread *next = dispatch_next(worker);
    return LIKELY(next != self) ? dispatch_to(worker, self, next) : 0;
}

/* Run other threads of this worker; then(argument) is called when the stack has been left. */
ALWAYS_INLINE int dispatch_then(struct worker *worker, struct gs_thread *self, void (*then)(void *),
                                void *argument)
{
    struct gs_thread *next = dispatch_next(worker);
    worker->current = next;
    fiber_leave(&self->fiber, next ? &next->fiber : &worker->fiber, false);
    int result = gs_context_switch_then(&self->sp, next ? next->sp : worker->sp,
                                        dispatch_result(next), then, argument);
    fiber_enter(&self->fiber);
    return result;
}

/* Release a spin lock; a callback for the functions that call then(argument). */
void gs_spin_unlock_callback(void *lock);

/* dispatch_waiting in every case, not inline. */
int gs_dispatch_waiting(struct worker *worker, struct gs_thread *self);

/* Run other threads. The calling thread, which is not mobile, is in no run queue: it waits, and has
 * released the lock of the object. The usual case calls nothing but the switch, as a tail call. */
ALWAYS_INLINE int dispatch_waiting(struct worker *worker, struct gs_thread *self)
{
    unsigned levels_before_the_next = (2u << NORMAL_LEVEL) - 1;
    struct runnable *item = worker->queues[NORMAL_LEVEL].first;
    if (UNLIKELY((worker->ready_mask & levels_before_the_next) != 1u << NORMAL_LEVEL) ||
        UNLIKELY(worker->countdown <= 0))
        return gs_dispatch_waiting(worker, self);
    if (UNLIKELY(item->resume != NULL))
        return gs_dispatch_waiting(worker, self);
    struct gs_thread *next = thread_of(item);
    worker->countdown--;
    queue_pop_level(worker, NORMAL_LEVEL);
    return dispatch_to(worker, self, next);
}

/* Switch away from a thread that has ended, and has nothing to do when its stack has been left.
 * After fiber_leave, the address sanitizer has no memory for variables of this frame. */
_Noreturn ALWAYS_INLINE void leave_to(struct worker *worker, struct gs_thread *self,
                                      struct gs_thread *next)
{
    int result = dispatch_result(next);
    worker->current = next;
    fiber_leave(&self->fiber, next ? &next->fiber : &worker->fiber, true);
    context_leave(next ? next->sp : worker->sp, result);
}

/* Switch away from a thread that has ended, and call then(self), unless `then` is NULL. */
_Noreturn ALWAYS_INLINE void dispatch_last(struct worker *worker, struct gs_thread *self,
                                           void (*then)(void *))
{
    struct gs_thread *next = dispatch_next(worker);
    if (!then)
        leave_to(worker, self, next);
    int result = dispatch_result(next);
    worker->current = next;
    fiber_leave(&self->fiber, next ? &next->fiber : &worker->fiber, true);
    gs_context_switch_then(&self->sp, next ? next->sp : worker->sp, result, then, self);
    __builtin_unreachable();
}

#endif
