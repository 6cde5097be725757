/* Signals. A handler of the program runs at once, as the kernel calls it, but outside of the
 * threads: functions of the runtime make system calls there as they are. The first thread stands
 * for the process: if it waits, its call is interrupted, as it would be with POSIX threads if all
 * others block signals. A signal to another thread is none for the kernel: its sender calls the
 * handler, and interrupts what that thread waits for. */
#include "compiler/runtime/signals.h"

#include <gossamer/io.h>
#include <gossamer/loop_signal.h>
#include <gossamer/own_descriptors.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <ucontext.h>
#include <unistd.h>

static struct sigaction actions[NSIG]; /* as the program has set them */
static struct gs_async handled;
static struct thread *first;
/* Waits with a mask of its own, in place of the first thread. NULL: none. */
static struct thread *receiver;
static atomic_bool has_started, has_handlers;
/* What the first thread waits for on its stack, beside another descriptor; -1: none so far. */
static int interrupting = -1;
static atomic_bool is_interrupting;
/* The mask of the process, a bit for each signal from 1 on. The kernel has it for the first worker
 * only; all others block everything. */
static _Atomic(uint64_t) process_mask;

/* ---- What interrupts a thread ---- */

/* A thread that polls has lent itself a stack, which is not used any more. */
static void interrupt(struct thread *thread)
{
    struct gs_thread *stack = __atomic_load_n(&thread->stack, __ATOMIC_ACQUIRE);
    if (stack && thread->is_polling) {
        gs_thread_cancel(stack);
        return;
    }
    static const uint64_t one = 1;
    if (stack && thread == first && interrupting >= 0 && !atomic_exchange(&is_interrupting, true))
        (void)!write(interrupting, &one, sizeof one);
    gs_cc_wake(thread);
}

static void on_handled(struct gs_async *async)
{
    (void)async;
    gs_cc_hand_over_posted();
    if (first && (first->stack || atomic_load(&first->phase) != PHASE_NEW))
        interrupt(first);
    if (receiver && receiver != first)
        interrupt(receiver);
}

static void remember_mask(void)
{
    sigset_t mask;
    uint64_t bits;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    memcpy(&bits, &mask, sizeof bits);
    atomic_store(&process_mask, bits);
}

void gs_cc_signals_start(struct thread *thread)
{
    first = thread;
    remember_mask();
    receiver = NULL;
    if (interrupting >= 0)
        gs_own_descriptor_close(interrupting); /* in the child of a fork: it is the parent's */
    interrupting = -1;
    atomic_store(&is_interrupting, false);
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

static void mark(struct thread *thread, int flags)
{
    unsigned char marks = flags & SA_RESTART ? INTERRUPT_RESTARTS : INTERRUPT;
    if (thread)
        atomic_fetch_or(&thread->cancel, marks);
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

int gs_cc_signals_descriptor(const struct thread *self)
{
    if (self != first || !gs_cc_has_handlers())
        return -1;
    uint64_t count;
    if (interrupting < 0)
        interrupting = gs_own_descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    else if (atomic_exchange(&is_interrupting, false))
        (void)!read(interrupting, &count, sizeof count);
    return interrupting;
}

/* ---- Handlers ---- */

/* The interrupted thread may be in the middle of anything. */
static void call_handler(const struct sigaction *action, siginfo_t *information, void *context)
{
    struct gs_cc_state *state = &gs_cc_state;
    struct thread *self = state->self;
    uint32_t suspending = state->suspending, may_leave = state->may_leave;
    int err = errno;
    state->self = NULL;
    state->suspending = state->may_leave = 0;
    sanitizer_acquire(actions);
    if (action->sa_flags & SA_SIGINFO)
        action->sa_sigaction(information->si_signo, information, context);
    else
        action->sa_handler(information->si_signo);
    sanitizer_release(actions);
    state->self = self;
    state->suspending = suspending;
    state->may_leave = may_leave;
    errno = err;
}

static void handle(int number, siginfo_t *information, void *context)
{
    const struct sigaction action = actions[number];
    call_handler(&action, information, context);
    struct thread *interrupted = receiver ? receiver : first;
    if (interrupted)
        sanitizer_release(interrupted);
    mark(interrupted, action.sa_flags);
    gs_cc_signals_send();
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
            atomic_store(&has_handlers, true);
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
    if (!self || self == first) {
        int err = pthread_sigmask(how, set, ret_old);
        if (!err && self && set)
            remember_mask();
        return err;
    }
    struct extra *extra = gs_cc_extra(self);
    if (!extra->has_mask) {
        uint64_t bits = atomic_load(&process_mask);
        sigemptyset(&extra->mask);
        memcpy(&extra->mask, &bits, sizeof bits);
    }
    extra->has_mask = set || extra->has_mask;
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

/* ---- Signals to threads ---- */

static bool is_blocked(const struct thread *thread, int number)
{
    if (thread != first && thread->extra && thread->extra->has_mask)
        return sigismember(&thread->extra->mask, number) == 1;
    return atomic_load(&process_mask) >> (number - 1) & 1;
}

/* One that is not handled, or blocked, is the process's. */
static int deliver(struct thread *thread, siginfo_t *information)
{
    int number = information->si_signo;
    struct sigaction now;
    ucontext_t context = {0};
    if (number < 0 || number >= NSIG)
        return EINVAL;
    if (!thread)
        return ESRCH;
    if (!number || atomic_load(&thread->join) == JOIN_DONE)
        return 0;
    if (sigaction(number, NULL, &now) || now.sa_sigaction != handle || is_blocked(thread, number))
        return kill(getpid(), number) ? errno : 0;
    const struct sigaction action = actions[number], none = {.sa_handler = SIG_DFL};
    if (action.sa_flags & (int)SA_RESETHAND)
        sigaction(number, &none, NULL);
    information->si_pid = getpid();
    information->si_uid = getuid();
    call_handler(&action, information, &context);
    if (thread == thread_self())
        return 0;
    mark(thread, action.sa_flags);
    interrupt(thread);
    return 0;
}

int gs_cc_pthread_kill(pthread_t id, int number)
{
    siginfo_t information = {.si_signo = number, .si_code = SI_TKILL};
    return deliver((struct thread *)id, &information);
}

int gs_cc_pthread_sigqueue(pthread_t id, int number, const union sigval value)
{
    siginfo_t information = {.si_signo = number, .si_code = SI_QUEUE};
    information.si_value = value;
    return deliver((struct thread *)id, &information);
}

int gs_cc_raise(int number)
{
    struct thread *self = thread_self();
    if (!self)
        return raise(number);
    int err = gs_cc_pthread_kill((pthread_t)self, number);
    if (!err)
        return 0;
    errno = err;
    return -1;
}

/* ---- Waiting for signals ---- */

sigset_t *gs_cc_signals_replace(struct thread *self, const sigset_t *mask)
{
    if (self->phase != PHASE_NEW)
        return (sigset_t *)self->progress;
    sigset_t *before = gs_cc_box(sizeof *before);
    gs_cc_signals_begin_wait(self);
    set_phase(self, PHASE_WAITING);
    if (self != first)
        receiver = self;
    pthread_sigmask(SIG_SETMASK, mask, before);
    if (self == first)
        remember_mask();
    self->progress = self->stack ? 0 : (size_t)before;
    return before;
}

void gs_cc_signals_restore(const struct thread *self, sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
    if (self == first)
        remember_mask();
    if (receiver == self)
        receiver = NULL;
    gs_cc_box_free(before, sizeof *before);
}

int gs_cc_sigsuspend(const sigset_t *mask)
{
    struct thread *self = thread_self();
    if (!self)
        return sigsuspend(mask);
    sigset_t *before = gs_cc_signals_replace(self, mask);
    while (!gs_cc_is_interrupted(self, false) && !must_cancel(self))
        if (gs_cc_wait(self, true))
            return 0;
    gs_cc_signals_restore(self, before);
    gs_cc_complete(self);
    if (gs_cc_test_cancel(self))
        return 0;
    errno = EINTR;
    return -1;
}

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
    uint64_t deadline_ns;
    int number;
};

static void wait_on_stack(void *argument)
{
    struct signal_wait *wait = argument;
    leave_stack(wait->self);
    wait->number = gs_wait_signals(wait->set, wait->deadline_ns);
    return_to_stack(wait->self);
}

/* Returns the signal or -errno; 0: the caller must return. What it waits for is kept in its
 * progress meanwhile. */
static int wait_for_signal(struct thread *self, const sigset_t *set, uint64_t deadline_ns)
{
    struct signal_wait *wait = (struct signal_wait *)self->progress;
    if (self->stack || self->phase == PHASE_NEW) {
        wait = gs_cc_box(sizeof *wait);
        *wait = (struct signal_wait){self, set, deadline_ns, 0};
        self->progress = self->stack ? 0 : (size_t)wait;
    }
    gs_cc_wait_on_stack(wait_on_stack, wait);
    if (gs_cc_state.suspending)
        return 0;
    int number = wait->number;
    gs_cc_box_free(wait, sizeof *wait);
    return number;
}

int gs_cc_sigwait(const sigset_t *set, int *ret_number)
{
    struct thread *self = thread_self();
    if (!self)
        return sigwait(set, ret_number);
    int number = wait_for_signal(self, set, GS_NEVER);
    if (number < 0)
        return -number;
    if (number)
        *ret_number = number;
    return 0;
}

/* A signal that is pending is taken with all that is known of it. */
int gs_cc_sigtimedwait(const sigset_t *set, siginfo_t *ret_information, const struct timespec *time)
{
    static const struct timespec none;
    struct thread *self = thread_self();
    if (!self || (time && (!is_valid_time(time) || time->tv_sec < 0)))
        return sigtimedwait(set, ret_information, time);
    if (self->phase == PHASE_NEW) {
        int taken = sigtimedwait(set, ret_information, &none);
        if (taken > 0)
            return taken;
    }
    uint64_t wait_ns = GS_NEVER;
    if (time && time->tv_sec < INT32_MAX)
        wait_ns = (uint64_t)time->tv_sec * GS_SECOND + (uint64_t)time->tv_nsec;
    int number = wait_for_signal(self, set, gs_clock_after(gs_clock_now(), wait_ns));
    if (number > 0 && ret_information)
        *ret_information = (siginfo_t){.si_signo = number};
    if (number >= 0)
        return number;
    errno = number == -ETIMEDOUT ? EAGAIN : -number;
    return -1;
}

int gs_cc_sigwaitinfo(const sigset_t *set, siginfo_t *ret_information)
{
    return gs_cc_sigtimedwait(set, ret_information, NULL);
}
