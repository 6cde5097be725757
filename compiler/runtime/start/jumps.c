/* setjmp and longjmp. The C library's would save and restore the mask of the worker, and a jump out
 * of a handler would leave the thread as one that does not run. So what setjmp is to save of the
 * thread is in the buffer, where the C library would save the mask, and it saves none.
 *
 * A handler may jump to where a thread is to go on that waits, or that another worker runs. Then
 * the handler ends, and the thread jumps itself, when its wait has ended. */
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/signals/signals.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

struct saved {
    uint64_t magic; /* other buffers are those of libraries */
    struct thread *self;
    struct handling handling;
    uint64_t mask; /* of the thread, or, in a handler that the kernel has called, of that */
    uint64_t *replaced_mask; /* by a wait in which setjmp is called, by its handler */
    bool has_mask;
};
#define MAGIC UINT64_C(0x6a756d7073617665)
#define SAVED(tag) ((struct saved *)&(tag)->__saved_mask)

_Noreturn void gs_cc_siglongjmp(struct __jmp_buf_tag *buffer, int result);

static uint64_t *replaced_mask_of(const struct thread *self)
{
    return self && self->extra ? self->extra->replaced_mask : NULL;
}

/* Called before setjmp is, which does not write there. */
void gs_cc___set_jump(struct __jmp_buf_tag *buffer, int saves_mask);
void gs_cc___set_jump(struct __jmp_buf_tag *buffer, int saves_mask)
{
    _Static_assert(sizeof(struct saved) <= sizeof buffer->__saved_mask, "there is room");
    sigset_t mask;
    const struct thread *self = gs_cc_signals_self();
    *SAVED(buffer) = (struct saved){.magic = MAGIC,
                                    .self = thread_self(),
                                    .handling = gs_cc_handling,
                                    .replaced_mask = replaced_mask_of(self),
                                    .has_mask = saves_mask != 0};
    if (!saves_mask)
        return;
    if (!self)
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
    SAVED(buffer)->mask = self ? gs_cc_mask_of(self) : gs_cc_signal_bits(&mask);
}

/* What the handlers have blocked that the kernel has called, which has this mask now. */
static uint64_t blocked_by_handlers(const sigset_t *mask)
{
    return gs_cc_signal_bits(mask) & ~gs_cc_handling.mask;
}

/* Leave handlers for the thread that they have interrupted. Returns what they have blocked. */
static uint64_t leave_handlers(const struct saved *saved)
{
    struct gs_cc_state *state = &gs_cc_state;
    uint64_t blocked = 0;
    sigset_t mask;
    const sigset_t before = gs_cc_signal_set(gs_cc_handling.mask);
    if (gs_cc_handling.has_mask && !saved->handling.has_mask) {
        pthread_sigmask(SIG_SETMASK, &before, &mask);
        blocked = blocked_by_handlers(&mask);
    }
    gs_cc_handling = saved->handling;
    if (saved->self) {
        state->self = saved->self;
        state->suspending = state->may_leave = 0;
    }
    return blocked;
}

/* It is in a call of the runtime that may wait, or holds a lock of it. */
static bool is_in_call(const struct thread *thread)
{
    return thread->phase != PHASE_NEW || thread->progress || gs_cc_state.locks;
}

/* The handler was not called where the thread runs, or in the middle of a call that waits. */
static bool is_elsewhere(const struct saved *saved)
{
    const struct handling *handling = &gs_cc_handling;
    return saved->self && !thread_self() && handling->leave && handling->target == saved->self &&
           (handling->interrupted != saved->self || is_in_call(saved->self));
}

static _Noreturn void jump_later(struct __jmp_buf_tag *buffer, int result)
{
    struct thread *thread = SAVED(buffer)->self;
    sigset_t mask;
    uint64_t blocked = 0;
    if (gs_cc_handling.has_mask && !pthread_sigmask(SIG_SETMASK, NULL, &mask))
        blocked = blocked_by_handlers(&mask);
    thread->extra->jump = buffer;
    thread->extra->jump_result = result;
    thread->extra->jump_blocked = blocked;
    atomic_fetch_or(&thread->cancel, JUMP);
    gs_cc_jump(gs_cc_handling.leave, 1);
}

void gs_cc_jump_for_handler(struct thread *self)
{
    atomic_fetch_and(&self->cancel, (unsigned char)~JUMP);
    if (!self->stack)
        return; /* the call that has called setjmp is over */
    struct __jmp_buf_tag *buffer = self->extra->jump;
    uint64_t *replaced = self->extra->replaced_mask;
    self->extra->replaced_mask = NULL;
    if (replaced)
        gs_cc_box_free(replaced, sizeof *replaced);
    gs_cc_complete(self);
    if (!SAVED(buffer)->has_mask)
        gs_cc_mask_set(self, gs_cc_mask_of(self) | self->extra->jump_blocked);
    gs_cc_siglongjmp(buffer, self->extra->jump_result);
}

/* The jump leaves a wait, in which the thread has handled a signal itself. */
static void leave_wait(struct thread *self, const struct saved *saved)
{
    uint64_t *replaced = replaced_mask_of(self);
    if (!replaced || self != saved->self || replaced == saved->replaced_mask)
        return;
    self->extra->replaced_mask = saved->replaced_mask;
    gs_cc_box_free(replaced, sizeof *replaced);
}

static void restore(const struct saved *saved)
{
    uint64_t blocked = 0;
    if (!thread_self() && (!saved->self || gs_cc_handling.interrupted == saved->self))
        blocked = leave_handlers(saved);
    struct thread *self = gs_cc_signals_self();
    const sigset_t mask = gs_cc_signal_set(saved->mask);
    leave_wait(self, saved);
    if (self)
        gs_cc_mask_set(self, saved->has_mask ? saved->mask : gs_cc_mask_of(self) | blocked);
    else if (saved->has_mask)
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

_Noreturn void gs_cc_siglongjmp(struct __jmp_buf_tag *buffer, int result)
{
    const struct saved saved = *SAVED(buffer);
    if (saved.magic == MAGIC && is_elsewhere(&saved))
        jump_later(buffer, result);
    if (saved.magic == MAGIC)
        restore(&saved);
    siglongjmp(buffer, result);
}

_Noreturn void gs_cc_longjmp(struct __jmp_buf_tag *buffer, int result) ALIAS(gs_cc_siglongjmp);
_Noreturn void gs_cc__longjmp(struct __jmp_buf_tag *buffer, int result) ALIAS(gs_cc_siglongjmp);
_Noreturn void gs_cc___longjmp_chk(struct __jmp_buf_tag *buffer, int result)
    ALIAS(gs_cc_siglongjmp);
