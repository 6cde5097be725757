/* Turns of threads that would not wait by themselves. */
#include "compiler/runtime/thread.h"

#include <sched.h>

int gs_cc_sched_yield(void);

int gs_cc_sched_yield(void)
{
    struct thread *self = thread_self();
    if (!self)
        return sched_yield();
    if (self->stack) {
        int err = errno;
        leave_stack(self);
        gs_thread_yield();
        return_to_stack(self);
        errno = err;
        return 0;
    }
    if (self->phase == PHASE_NEW) {
        set_phase(self, PHASE_SECOND);
        gs_resumable_again(&self->resumable);
        gs_cc_state.suspending = 1;
        return 0;
    }
    set_phase(self, PHASE_NEW);
    return 0;
}

int gs_cc_pthread_yield(void)
{
    return gs_cc_sched_yield();
}

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

/* The plugin adds it to loops that wait for what another thread does, without a call that waits. */
void gs_cc___waiting_loop(void)
{
    struct thread *self = thread_self();
    if (self && self->phase == PHASE_SECOND)
        set_phase(self, PHASE_NEW);
    else
        gs_cc_turn(self);
}
