/* From one stack to the next. Inlined where it is used: after a switch the processor predicts each return wrongly, so the fewer
 * calls stand on a stack that is left, the better. */
#ifndef GS_THREAD_DISPATCH_H
#define GS_THREAD_DISPATCH_H

#include "thread/state.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* What is ready but no thread with a stack is for the worker's own stack to resume. Returns NULL. */
struct gs_thread *gs_worker_defer(struct worker *worker, struct gs_policy_item *item);

/* Where to go: a thread that is ready, or NULL: the worker's own stack, which has the rest to do. */
ALWAYS_INLINE struct gs_thread *dispatch_next(struct worker *worker)
{
    if (UNLIKELY(--worker->countdown < 0) && gs_worker_tick(worker))
        return NULL;
    struct gs_policy_item *item =
        UNLIKELY(!worker->ready_mask) ? gs_worker_next(worker) : queue_pop(worker);
    if (UNLIKELY(!item) || UNLIKELY(thread_of(item)->run.resume != NULL))
        return gs_worker_defer(worker, item);
    return thread_of(item);
}

ALWAYS_INLINE void dispatch_to(struct worker *worker, struct gs_thread *self,
                               struct gs_thread *next)
{
    worker->current = next;
    fiber_leave(&self->fiber, next ? &next->fiber : &worker->fiber, false);
    gs_context_switch(&self->sp, next ? next->sp : worker->sp);
    fiber_enter(&self->fiber);
}

/* Run others on this worker. The caller is in its run queue, or will be put there. */
ALWAYS_INLINE void dispatch(struct worker *worker, struct gs_thread *self)
{
    struct gs_thread *next = dispatch_next(worker);
    if (LIKELY(next != self))
        dispatch_to(worker, self, next);
}

/* The same; then(argument) is called once the stack has been left. */
ALWAYS_INLINE void dispatch_then(struct worker *worker, struct gs_thread *self,
                                 void (*then)(void *), void *argument)
{
    struct gs_thread *next = dispatch_next(worker);
    worker->current = next;
    fiber_leave(&self->fiber, next ? &next->fiber : &worker->fiber, false);
    gs_context_switch_then(&self->sp, next ? next->sp : worker->sp, then, argument);
    fiber_enter(&self->fiber);
}

/* Does not come back. then(self), unless `then` is NULL. */
_Noreturn ALWAYS_INLINE void dispatch_last(struct worker *worker, struct gs_thread *self,
                                           void (*then)(void *))
{
    struct gs_thread *next = dispatch_next(worker);
    worker->current = next;
    fiber_leave(&self->fiber, next ? &next->fiber : &worker->fiber, true);
    void *sp = next ? next->sp : worker->sp;
    if (then)
        gs_context_switch_then(&self->sp, sp, then, self);
    else
        gs_context_switch(&self->sp, sp);
    __builtin_unreachable();
}

#endif
