/* A signal that another thread sends to one that waits for a descriptor is handed over: the thread
 * handles it itself, so that its handler may wait, be canceled there, and jump. The wait goes on
 * when the handler has returned, or fails.
 *
 * A thread that has left its stack does so on another one, and what its wait remembers is set aside
 * meanwhile: other threads do not touch that, as it is in no queue of an object.
 *
 * The sender only guesses that the thread waits. If it does not any more, it finds the signal when
 * it waits for a descriptor the next time, or, without a stack, when it runs the next time. */
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/signals/signals.h"

#include <ucontext.h>

bool gs_cc_signals_is_hand_over(const struct thread *thread)
{
    const struct gs_thread *stack = __atomic_load_n(&thread->stack, __ATOMIC_ACQUIRE);
    if (!thread->extra && (stack || gs_cc_workers > 1))
        return false; /* where the signal would be kept */
    return stack ? atomic_load(&thread->extra->waited_fd) != 0 : thread->resumable.fd >= 0;
}

/* ---- In the thread ---- */

static void call(struct thread *self, const struct sigaction *action, siginfo_t *information)
{
    uint64_t before = gs_cc_mask_of(self), blocked = gs_cc_signal_bits(&action->sa_mask);
    ucontext_t context = {.uc_sigmask = gs_cc_signal_set(before)};
    if (!(action->sa_flags & (int)SA_NODEFER))
        blocked |= gs_cc_signal_bit(information->si_signo);
    gs_cc_mask_set(self, before | blocked);
    if (action->sa_flags & SA_SIGINFO)
        action->sa_sigaction(information->si_signo, information, &context);
    else
        action->sa_handler(information->si_signo);
    gs_cc_signals_mark(self, action->sa_flags);
    gs_cc_mask_set(self, gs_cc_signal_bits(&context.uc_sigmask));
}

/* It may have been handled or ignored since it was sent. */
static void handle_all(void *argument)
{
    struct thread *self = argument;
    struct sigaction action;
    siginfo_t information;
    int err = errno;
    while (gs_cc_take_pending(self, ~gs_cc_mask_of(self), &information))
        if (gs_cc_signals_is_handled(information.si_signo, &action))
            call(self, &action, &information);
    errno = err;
}

static bool take_flag(struct thread *self)
{
    return atomic_fetch_and(&self->cancel, (unsigned char)~HANDED) & HANDED;
}

static struct handed_wait set_aside(struct thread *self)
{
    struct extra *extra = self->extra;
    struct handed_wait wait = {self->progress, extra->deadline_ns, self->phase};
    self->progress = 0;
    extra->deadline_ns = 0;
    set_phase(self, PHASE_NEW);
    return wait;
}

static void bring_back(struct thread *self, const struct handed_wait *wait)
{
    self->progress = wait->progress;
    self->extra->deadline_ns = wait->deadline_ns;
    set_phase(self, wait->phase);
}

void gs_cc_signals_handle_on_stack(struct thread *self)
{
    while (take_flag(self)) {
        struct handed_wait wait = set_aside(self);
        handle_all(self);
        bring_back(self, &wait);
    }
}

static bool has_deliverable(const struct thread *self)
{
    return atomic_load(&self->extra->pending) & ~gs_cc_mask_of(self);
}

/* Its waits take what it is handed meanwhile; the flag has it come back to its own. */
static void handle_apart(void *argument)
{
    struct thread *self = argument;
    handle_all(self);
    atomic_fetch_or(&self->cancel, HANDED);
}

/* Returns whether it runs now, on a stack. */
static bool begin(struct thread *self)
{
    struct extra *extra = self->extra;
    extra->handed_wait = set_aside(self);
    extra->is_handling = true;
    gs_cc_call_on_stack(handle_apart, self);
    if (gs_cc_state.suspending)
        return true;
    extra->is_handling = false;
    bring_back(self, &extra->handed_wait);
    (void)take_flag(self);
    return false;
}

bool gs_cc_signals_handle_in_step(struct thread *self, bool was_at_descriptor)
{
    struct extra *extra = self->extra;
    bool was_handling = extra->is_handling;
    extra->is_handling = false;
    (void)take_flag(self);
    if (self->is_exiting)
        return false; /* the handler has ended it */
    if (was_handling) {
        gs_cc_call_on_stack(handle_apart, self); /* which is complete */
        bring_back(self, &extra->handed_wait);
    }
    if (!has_deliverable(self))
        return false;
    if (was_handling || was_at_descriptor)
        return begin(self);
    gs_cc_deliver_pending(self);
    return false;
}
