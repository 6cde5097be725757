/* Signals. A handler of the program runs at once, as the kernel calls it, but outside of the
 * threads: functions of the runtime make system calls there as they are. It interrupts what the
 * first thread waits for, or, if that blocks the signal, another one. */
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/signals/own_signals.h"
#include "compiler/runtime/start/stack_size.h"
#include "compiler/runtime/threads/pool.h"

#include <gossamer/io.h>
#include <gossamer/loop_signal.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

static struct sigaction actions[NSIG]; /* as the program has set them */
static struct gs_async handled;
static struct thread *first;
static atomic_bool has_started, has_handlers;
/* Handled signals that interrupt another thread than the first: with SA_RESTART, and without. */
static _Atomic(uint64_t) to_others[2];

/* ---- What interrupts a thread ---- */

/* A thread that polls has lent itself a stack, which is not used any more. */
void gs_cc_signals_interrupt(struct thread *thread)
{
    gs_cc_pool_interrupt(thread);
    struct gs_thread *stack = __atomic_load_n(&thread->stack, __ATOMIC_ACQUIRE);
    if (stack && thread->is_polling) {
        gs_thread_cancel(stack);
        return;
    }
    struct extra *extra = stack ? thread->extra : NULL;
    int fd = extra ? atomic_load(&extra->waited_fd) : 0;
    if (fd > 0)
        gs_forget(fd - 1);
    if (extra)
        gs_interrupt(&extra->interrupt);
    gs_cc_wake(thread);
}

void gs_cc_signals_mark(struct thread *thread, int flags)
{
    unsigned char marks = flags & SA_RESTART ? INTERRUPT_RESTARTS : INTERRUPT;
    atomic_fetch_or(&thread->cancel, marks);
}

void gs_cc_signals_handled(struct thread *thread, int flags)
{
    gs_cc_signals_mark(thread, flags);
    gs_cc_signals_interrupt(thread);
}

static void on_handled(struct gs_async *async)
{
    (void)async;
    gs_cc_hand_over_posted();
    if (first && (first->stack || atomic_load(&first->phase) != PHASE_NEW))
        gs_cc_signals_interrupt(first);
    for (int restarts = 0; restarts < 2; restarts++) {
        uint64_t bits = atomic_exchange(&to_others[restarts], 0);
        for (int number = 1; bits; number++, bits >>= 1)
            if (bits & 1)
                gs_cc_masks_find(number, gs_cc_signals_handled, restarts ? SA_RESTART : 0);
    }
}

void gs_cc_signals_start(struct thread *thread, bool has_mask)
{
    first = thread;
    gs_cc_free_pending(thread);
    gs_cc_masks_start(thread, has_mask);
    gs_async_init(&handled, gs_threads_loop(), on_handled);
    gs_async_start(&handled);
    atomic_store(&has_started, true);
}

void gs_cc_signals_forget(const struct thread *thread)
{
    if (first == thread)
        first = NULL;
}

bool gs_cc_has_handlers(void)
{
    return atomic_load_explicit(&has_handlers, memory_order_relaxed);
}

void gs_cc_signals_send(void)
{
    if (atomic_load(&has_started))
        gs_async_send(&handled);
}

void gs_cc_signals_begin_wait(struct thread *self)
{
    unsigned char marks = INTERRUPT | INTERRUPT_RESTARTS;
    if (atomic_load_explicit(&self->cancel, memory_order_relaxed) & marks)
        atomic_fetch_and(&self->cancel, (unsigned char)~marks);
}

bool gs_cc_is_interrupted(const struct thread *self, bool may_restart)
{
    unsigned marks = atomic_load_explicit(&self->cancel, memory_order_relaxed);
    return marks & (may_restart ? INTERRUPT : INTERRUPT | INTERRUPT_RESTARTS);
}

/* ---- Handlers ---- */

_Thread_local struct handling gs_cc_handling __attribute__((tls_model("initial-exec")));

struct thread *gs_cc_signals_self(void)
{
    struct thread *self = thread_self();
    return self ? self : gs_cc_handling.own;
}

/* A handler that jumps to where another thread goes on ends here; so do those that it has
 * interrupted, if they are of the same thread. */
static void call_handler(const struct sigaction *action, siginfo_t *information, void *context)
{
    struct __jmp_buf_tag leave[1];
    bool is_outermost = !gs_cc_handling.leave;
    if (is_outermost && _setjmp(leave))
        return;
    if (is_outermost)
        gs_cc_handling.leave = leave;
    gs_cc_call_handler(action, information, context);
}

/* The interrupted thread may be in the middle of anything. */
void gs_cc_signals_call(const struct sigaction *action, siginfo_t *information, void *context)
{
    struct gs_cc_state *state = &gs_cc_state;
    struct thread *self = state->self;
    uint32_t suspending = state->suspending, may_leave = state->may_leave;
    int err = errno;
    state->self = NULL;
    state->suspending = state->may_leave = 0;
    call_handler(action, information, context);
    state->self = self;
    state->suspending = suspending;
    state->may_leave = may_leave;
    errno = err;
}

static bool blocks(const struct thread *thread, int number)
{
    return gs_cc_mask_of(thread) & gs_cc_signal_bit(number);
}

/* What the instruction does that a thread has reached. */
static bool is_of_instruction(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
           number == SIGTRAP || number == SIGSYS;
}

/* The thread whose signal it is: the first one that does not block it. */
static struct thread *target_of(int number)
{
    struct thread *interrupted = gs_cc_handling.interrupted;
    if (is_of_instruction(number))
        return interrupted;
    if (first && !blocks(first, number))
        return first;
    struct thread *other =
        interrupted && !blocks(interrupted, number) ? NULL : gs_cc_masks_try_find(number);
    return other ? other : interrupted;
}

/* The kernel has changed the mask of the kernel thread for the time of the handler. */
static void call_for_kernel(int number, siginfo_t *information, ucontext_t *context)
{
    const struct sigaction action = actions[number];
    const struct handling outer = gs_cc_handling;
    struct thread *self = gs_cc_state.self;
    if (self)
        gs_cc_handling.interrupted = self;
    gs_cc_handling.own = NULL;
    gs_cc_handling.target = target_of(number);
    if (gs_cc_handling.target != outer.target)
        gs_cc_handling.leave = NULL;
    if (!gs_cc_handling.has_mask) {
        gs_cc_handling.has_mask = true;
        gs_cc_handling.mask = gs_cc_signal_bits(&context->uc_sigmask);
    }
    gs_cc_signals_call(&action, information, context);
    gs_cc_handling = outer;
}

static void handle(int number, siginfo_t *information, void *context)
{
    const struct sigaction action = actions[number];
    call_for_kernel(number, information, context);
    if (first && !blocks(first, number)) {
        gs_cc_signals_mark(first, action.sa_flags);
    } else {
        bool restarts = action.sa_flags & SA_RESTART;
        atomic_fetch_or(&to_others[restarts], gs_cc_signal_bit(number));
    }
    gs_cc_signals_send();
}

bool gs_cc_signals_is_handled(int number, struct sigaction *ret_action)
{
    if (sigaction(number, NULL, ret_action) || ret_action->sa_sigaction != handle)
        return false;
    const struct sigaction none = {.sa_handler = SIG_DFL};
    *ret_action = actions[number];
    if (ret_action->sa_flags & (int)SA_RESETHAND)
        sigaction(number, &none, NULL);
    return true;
}

bool gs_cc_signals_has_handler(int number)
{
    struct sigaction action;
    return !sigaction(number, NULL, &action) && action.sa_sigaction == handle;
}

int gs_cc_sigaction(int number, const struct sigaction *action, struct sigaction *ret_old)
{
    struct sigaction real, old;
    if (number <= 0 || number >= NSIG)
        return sigaction(number, action, ret_old);
    struct sigaction before = actions[number];
    gs_cc_own_signals_leave(number);
    if (action) {
        real = *action;
        if (real.sa_handler != SIG_DFL && real.sa_handler != SIG_IGN) {
            actions[number] = *action;
            real.sa_sigaction = handle;
            real.sa_flags |= SA_SIGINFO;
            atomic_store(&has_handlers, true);
            if (real.sa_flags & (int)SA_NODEFER)
                gs_cc_stack_sizes_forget();
        }
    }
    if (sigaction(number, action ? &real : NULL, &old)) {
        actions[number] = before;
        return -1;
    }
    if (ret_old)
        *ret_old = old.sa_sigaction == handle ? before : old;
    return 0;
}

static void (*set_handler(int number, void (*handler)(int), int flags))(int)
{
    struct sigaction action = {.sa_flags = flags}, old;
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    return gs_cc_sigaction(number, &action, &old) ? SIG_ERR : old.sa_handler;
}

void (*gs_cc_signal(int number, void (*handler)(int)))(int)
{
    return set_handler(number, handler, SA_RESTART);
}

/* As signal is with -std=c11 and _XOPEN_SOURCE. */
void (*gs_cc___sysv_signal(int number, void (*handler)(int)))(int)
{
    return set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}
