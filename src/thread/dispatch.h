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

/* What the call returns that a thread goes on in. */
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

/* Run others on this worker. The caller is in its run queue, or will be put there. */
ALWAYS_INLINE int dispatch(struct worker *worker, struct gs_thread *self)
{
    struct gs_thread *next = dispatch_next(worker);
    return LIKELY(next != self) ? dispatch_to(worker, self, next) : 0;
}

/* The same; then(argument) is called once the stack has been left. */
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

/* Release a spin lock. */
void gs_thread_unlock(void *lock);
/* As dispatch_unlock, whatever is next. */
int gs_dispatch_unlock(struct worker *worker, struct gs_thread *self, struct gs_spin *lock);

/* Run others; the lock is released once the stack has been left. The thread waits: it is not the next. The usual case calls nothing
 * but the switch, and that last. */
ALWAYS_INLINE int dispatch_unlock(struct worker *worker, struct gs_thread *self,
                                  struct gs_spin *lock)
{
    if (UNLIKELY(!worker->ready_mask) || UNLIKELY(worker->countdown <= 0) ||
        UNLIKELY(worker->is_based) || GS_TSAN)
        return gs_dispatch_unlock(worker, self, lock);
    unsigned level = (unsigned)__builtin_ctz(worker->ready_mask);
    struct gs_thread *next = thread_of(worker->queues[level].first);
    if (UNLIKELY(next->run.resume != NULL))
        return gs_dispatch_unlock(worker, self, lock);
    worker->countdown--;
    queue_take(worker, level);
    worker->current = next;
    fiber_leave(&self->fiber, &next->fiber, false);
    int result = UNLIKELY(gs_runtime.is_multi)
                     ? gs_context_switch_unlock(&self->sp, next->sp, dispatch_result(next), lock)
                     : gs_context_switch(&self->sp, next->sp, dispatch_result(next));
    fiber_enter(&self->fiber);
    return result;
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
        gs_context_switch_then(&self->sp, sp, dispatch_result(next), then, self);
    else
        gs_context_switch(&self->sp, sp, dispatch_result(next));
    __builtin_unreachable();
}

#endif
