/* An allocator of the program's own (compiler/plugin/decide/allocator.h): it runs outside of the
 * threads, as a handler does that a thread has called itself. */
#include "compiler/runtime/signals/signals.h"

struct gs_cc_allocation {
    struct thread *self, *interrupted, *own, *target;
    uint32_t suspending, may_leave;
    bool is_allocating;
};
_Static_assert(sizeof(struct gs_cc_allocation) <= 6 * sizeof(void *), "compiled code has the room");

void gs_cc_allocator_enter(struct gs_cc_allocation *ret_before)
{
    struct gs_cc_state *state = &gs_cc_state;
    struct handling *handling = &gs_cc_handling;
    struct thread *self = state->self;
    *ret_before = (struct gs_cc_allocation){self,
                                            handling->interrupted,
                                            handling->own,
                                            handling->target,
                                            state->suspending,
                                            state->may_leave,
                                            handling->is_allocating};
    if (self)
        handling->interrupted = handling->own = handling->target = self;
    handling->is_allocating = true;
    state->self = NULL;
    state->suspending = state->may_leave = 0;
}

void gs_cc_allocator_leave(const struct gs_cc_allocation *before)
{
    struct gs_cc_state *state = &gs_cc_state;
    struct handling *handling = &gs_cc_handling;
    handling->interrupted = before->interrupted;
    handling->own = before->own;
    handling->target = before->target;
    handling->is_allocating = before->is_allocating;
    state->self = before->self;
    state->suspending = before->suspending;
    state->may_leave = before->may_leave;
}
