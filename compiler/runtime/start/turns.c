/* Turns of threads that would not wait by themselves. */
#include "compiler/runtime/threads/thread.h"

#include <sched.h>

/* Not inline: a thread without a stack would save registers for it. */
static __attribute__((noinline)) int yield_on_stack(struct thread *self)
{
    int err = errno;
    leave_stack(self);
    gs_thread_yield();
    return_to_stack(self);
    errno = err;
    if (must_leave(self))
        gs_cc_test_cancel(self);
    return 0;
}

int gs_cc_sched_yield(void)
{
    struct thread *self = thread_self();
    if (!self)
        return sched_yield();
    if (self->stack)
        return yield_on_stack(self);
    if (must_leave(self) && gs_cc_test_cancel(self))
        return 0;
    if (self->phase == PHASE_NEW) {
        set_phase(self, PHASE_SECOND);
        gs_resumable_again(&self->resumable);
        gs_cc_state.suspending = 1;
        return 0;
    }
    set_phase(self, PHASE_NEW);
    return 0;
}

int gs_cc_pthread_yield(void) ALIAS(gs_cc_sched_yield);

/* So many calls that fail at once are a turn. */
#define TRIES 32u

bool gs_cc_turn(struct thread *self)
{
    static _Thread_local unsigned tries;
    if (!self || ++tries % TRIES)
        return false;
    set_phase(self, PHASE_NEW);
    gs_cc_sched_yield();
    return gs_cc_state.suspending;
}

/* So many calls that did not have to wait are a turn. */
#define CALLS 256

bool gs_cc_take_turn(struct thread *self)
{
    gs_cc_state.calls_left = CALLS;
    if (self->phase == PHASE_NEW || self->phase == PHASE_SECOND)
        gs_cc_sched_yield();
    return gs_cc_state.suspending;
}

/* Turns are less frequent while no other thread uses them. */
#define TURNS_MIN 32
#define TURNS_MAX 1024

static void count_turns(struct gs_cc_state *state, bool was_used)
{
    static _Thread_local int32_t turns = TURNS_MIN;
    if (was_used)
        turns = TURNS_MIN;
    else if (turns < TURNS_MAX)
        turns *= 2;
    state->turns = turns - 1;
}

/* The plugin adds it to loops that wait for what another thread does, without a call that waits:
 * compiled code makes the call when it has counted down the turns. */
void gs_cc___waiting_loop(void)
{
    struct gs_cc_state *state = &gs_cc_state;
    struct thread *self = state->self;
    if (!self) {
        state->turns = TURNS_MIN;
        return;
    }
    if (self->stack) {
        uint32_t steps = state->steps;
        gs_cc_sched_yield();
        count_turns(state, state->steps != steps);
        return;
    }
    if (self->phase == PHASE_NEW)
        self->progress = state->steps;
    gs_cc_sched_yield();
    if (state->suspending)
        return;
    count_turns(state, state->steps - (uint32_t)self->progress != 1);
    self->progress = 0;
}
