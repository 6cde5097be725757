/* Signals. A handler of the program runs at once, as the kernel calls it, but outside of the
 * threads: functions of the runtime make system calls there as they are. The first thread stands
 * for the process: if it waits, its call is interrupted, as it would be with POSIX threads if all
 * others block signals. */
#include "compiler/runtime/signals.h"

#include <gossamer/io.h>
#include <gossamer/loop_signal.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

static struct sigaction actions[NSIG]; /* as the program has set them */
static struct gs_async handled;
static struct thread *first;
/* Handlers that have run since the first thread began to wait: with SA_RESTART, and without. */
static atomic_bool restarting, interrupting;

/* ---- What interrupts the first thread ---- */

static void on_handled(struct gs_async *async)
{
    (void)async;
    if (first && atomic_load(&first->phase) != PHASE_NEW)
        gs_cc_wake(first);
}

void gs_cc_signals_start(struct thread *thread)
{
    first = thread;
    gs_async_init(&handled, gs_threads_loop(), on_handled);
    gs_async_start(&handled);
}

void gs_cc_signals_begin_wait(const struct thread *self)
{
    if (self != first)
        return;
    atomic_store_explicit(&restarting, false, memory_order_relaxed);
    atomic_store_explicit(&interrupting, false, memory_order_relaxed);
}

bool gs_cc_is_interrupted(const struct thread *self, bool may_restart)
{
    return self == first && (atomic_load_explicit(&interrupting, memory_order_relaxed) ||
                             (!may_restart && atomic_load_explicit(&restarting, //
                                                                   memory_order_relaxed)));
}

/* ---- Handlers ---- */

/* The interrupted thread may be in the middle of anything. */
static void handle(int number, siginfo_t *information, void *context)
{
    struct gs_cc_state *state = &gs_cc_state, before = *state;
    int err = errno;
    const struct sigaction action = actions[number];
    state->self = NULL;
    state->suspending = 0;
    if (action.sa_flags & SA_SIGINFO)
        action.sa_sigaction(number, information, context);
    else
        action.sa_handler(number);
    state->self = before.self;
    state->suspending = before.suspending;
    atomic_store(action.sa_flags & SA_RESTART ? &restarting : &interrupting, true);
    gs_async_send(&handled);
    errno = err;
}

int gs_cc_sigaction(int number, const struct sigaction *action, struct sigaction *ret_old)
{
    struct sigaction real, old;
    if (number <= 0 || number >= NSIG)
        return sigaction(number, action, ret_old);
    struct sigaction before = actions[number];
    if (action) {
        real = *action;
        if (real.sa_handler != SIG_DFL && real.sa_handler != SIG_IGN) {
            actions[number] = *action;
            real.sa_sigaction = handle;
            real.sa_flags |= SA_SIGINFO;
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

void (*gs_cc_signal(int number, void (*handler)(int)))(int)
{
    struct sigaction action = {.sa_flags = SA_RESTART}, old;
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    return gs_cc_sigaction(number, &action, &old) ? SIG_ERR : old.sa_handler;
}

/* ---- Masks ----
 * That of the process is the mask of the first thread; the others only remember theirs.
 */

static void change(sigset_t *mask, int how, const sigset_t *set)
{
    for (int i = 1; i < NSIG; i++) {
        int is_in = sigismember(set, i) == 1;
        if (how == SIG_UNBLOCK ? is_in : how == SIG_SETMASK && !is_in)
            sigdelset(mask, i);
        else if (is_in)
            sigaddset(mask, i);
    }
}

int gs_cc_pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_old)
{
    struct thread *self = thread_self();
    if (!self || self == first)
        return pthread_sigmask(how, set, ret_old);
    struct extra *extra = gs_cc_extra(self);
    if (!extra->has_mask)
        pthread_sigmask(SIG_SETMASK, NULL, &extra->mask);
    extra->has_mask = true;
    if (ret_old)
        *ret_old = extra->mask;
    if (set)
        change(&extra->mask, how, set);
    return 0;
}

int gs_cc_sigprocmask(int how, const sigset_t *set, sigset_t *ret_old)
{
    int err = gs_cc_pthread_sigmask(how, set, ret_old);
    if (!err)
        return 0;
    errno = err;
    return -1;
}

/* ---- Waiting for signals ---- */

int gs_cc_pause(void)
{
    struct thread *self = thread_self();
    if (!self)
        return pause();
    if (gs_cc_test_cancel(self))
        return 0;
    if (self->phase == PHASE_NEW)
        gs_cc_signals_begin_wait(self);
    set_phase(self, PHASE_WAITING);
    while (!gs_cc_is_interrupted(self, false))
        if (gs_cc_wait(self, true) || gs_cc_test_cancel(self))
            return 0;
    gs_cc_complete(self);
    errno = EINTR;
    return -1;
}

struct signal_wait {
    struct thread *self;
    const sigset_t *set;
    int number;
};

static void wait_on_stack(void *argument)
{
    struct signal_wait *wait = argument;
    wait->number = gs_wait_signals(wait->set, GS_NEVER);
    gs_cc_state.self = wait->self;
}

/* What it waits for is kept in its progress meanwhile. */
int gs_cc_sigwait(const sigset_t *set, int *ret_number)
{
    struct thread *self = thread_self();
    if (!self)
        return sigwait(set, ret_number);
    struct signal_wait *wait = (struct signal_wait *)self->progress;
    if (self->stack || self->phase == PHASE_NEW) {
        wait = gs_cc_box(sizeof *wait);
        *wait = (struct signal_wait){self, set, 0};
        self->progress = self->stack ? 0 : (size_t)wait;
    }
    gs_cc___on_stack(wait_on_stack, wait);
    if (gs_cc_state.suspending)
        return 0;
    int number = wait->number;
    gs_cc_box_free(wait, sizeof *wait);
    if (number < 0)
        return -number;
    *ret_number = number;
    return 0;
}
