/* Signals to one thread are none for the kernel: the sender calls the handler, and interrupts what
 * the thread waits for. Those that the thread blocks are kept with it. */
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/threads/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

/* A signal with a value. */
struct queued_signal {
    struct queued_signal *next;
    siginfo_t information;
};
static atomic_flag queues = ATOMIC_FLAG_INIT; /* of all threads */

/* ---- Masks ---- */

int gs_cc_pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_old)
{
    struct thread *self = gs_cc_signals_self();
    if (!self)
        return pthread_sigmask(how, set, ret_old);
    uint64_t before = gs_cc_mask_of(self), mask = before;
    if (set) {
        uint64_t bits = gs_cc_signal_bits(set);
        if (how == SIG_BLOCK)
            mask |= bits;
        else if (how == SIG_UNBLOCK)
            mask &= ~bits;
        else if (how == SIG_SETMASK)
            mask = bits;
        else
            return EINVAL;
    }
    if (ret_old)
        *ret_old = gs_cc_signal_set(before);
    gs_cc_mask_set(self, mask);
    return 0;
}

int gs_cc_sigprocmask(int how, const sigset_t *set, sigset_t *ret_old)
{
    int err = gs_cc_pthread_sigmask(how, set, ret_old);
    return result_of(err);
}

/* ---- What is pending for a thread ---- */

static uint64_t pending_of(const struct thread *thread)
{
    return thread->extra ? atomic_load(&thread->extra->pending) : 0;
}

int gs_cc_sigpending(sigset_t *ret_set)
{
    const struct thread *self = gs_cc_signals_self();
    if (sigpending(ret_set))
        return -1;
    if (self)
        *ret_set =
            gs_cc_signal_set((gs_cc_signal_bits(ret_set) & gs_cc_mask_of(self)) | pending_of(self));
    return 0;
}

/* Returns what was queued first, or NULL; ret_has_more: another one is left. */
static struct queued_signal *take_queued(struct thread *thread, int number, bool *ret_has_more)
{
    struct queued_signal **found = NULL, *taken = NULL;
    *ret_has_more = false;
    spin_lock(&queues);
    for (struct queued_signal **place = &thread->extra->queued; *place; place = &(*place)->next) {
        if ((*place)->information.si_signo != number)
            continue;
        *ret_has_more = found != NULL;
        found = place;
    }
    if (found) {
        taken = *found;
        *found = taken->next;
    }
    spin_unlock(&queues);
    return taken;
}

int gs_cc_take_pending(struct thread *thread, uint64_t set, siginfo_t *ret_information)
{
    uint64_t bits = pending_of(thread) & set;
    if (!bits)
        return 0;
    bool has_more;
    int number = __builtin_ctzll(bits) + 1;
    uint64_t bit = gs_cc_signal_bit(number);
    if (!(atomic_fetch_and(&thread->extra->pending, ~bit) & bit))
        return 0; /* another one has taken it */
    struct queued_signal *queued = take_queued(thread, number, &has_more);
    siginfo_t information = {.si_signo = number, .si_code = SI_TKILL};
    information.si_pid = getpid();
    information.si_uid = getuid();
    if (queued)
        information = queued->information;
    free(queued);
    if (has_more)
        atomic_fetch_or(&thread->extra->pending, bit);
    if (ret_information)
        *ret_information = information;
    return number;
}

void gs_cc_free_pending(struct thread *thread)
{
    if (!thread->extra)
        return;
    atomic_store(&thread->extra->pending, 0);
    struct queued_signal *queued = thread->extra->queued;
    thread->extra->queued = NULL;
    while (queued) {
        struct queued_signal *next = queued->next;
        free(queued);
        queued = next;
    }
}

/* Those from SIGRTMIN on are kept with their values, others once. */
static int keep(struct thread *thread, const siginfo_t *information)
{
    struct extra *extra = gs_cc_extra(thread);
    uint64_t bit = gs_cc_signal_bit(information->si_signo);
    bool is_known = atomic_load(&extra->pending) & bit;
    if (information->si_code == SI_QUEUE && (!is_known || information->si_signo >= SIGRTMIN)) {
        struct queued_signal *queued = malloc(sizeof *queued);
        if (!queued)
            return EAGAIN;
        queued->information = *information;
        spin_lock(&queues);
        queued->next = extra->queued;
        extra->queued = queued;
        spin_unlock(&queues);
    }
    atomic_fetch_or(&extra->pending, bit);
    return 0;
}

/* ---- Delivery ---- */

static bool is_blocked(const struct thread *thread, int number)
{
    return gs_cc_mask_of(thread) & gs_cc_signal_bit(number);
}

/* As the kernel does it: the thread blocks what the action says for the time of the handler. */
static void call_own_handler(struct thread *thread, const struct sigaction *action,
                             siginfo_t *information)
{
    struct gs_cc_state *state = &gs_cc_state;
    const struct handling outer = gs_cc_handling;
    uint64_t before = gs_cc_mask_of(thread), blocked = gs_cc_signal_bits(&action->sa_mask);
    ucontext_t context = {.uc_sigmask = gs_cc_signal_set(before)};
    if (!(action->sa_flags & (int)SA_NODEFER))
        blocked |= gs_cc_signal_bit(information->si_signo);
    gs_cc_mask_set(thread, before | blocked);
    if (state->self)
        gs_cc_handling.interrupted = thread;
    gs_cc_handling.own = gs_cc_handling.target = thread;
    if (thread != outer.target)
        gs_cc_handling.leave = NULL;
    gs_cc_signals_call(action, information, &context);
    gs_cc_handling = outer;
    gs_cc_signals_mark(thread, action->sa_flags);
    gs_cc_mask_set(thread, gs_cc_signal_bits(&context.uc_sigmask));
}

static int hand_over(struct thread *thread, const siginfo_t *information)
{
    int err = keep(thread, information);
    if (err)
        return err;
    atomic_fetch_or(&thread->cancel, HANDED);
    gs_cc_signals_interrupt(thread);
    return 0;
}

/* The thread does not block it. Without a handler of the program it is the process's. */
static int act(struct thread *thread, siginfo_t *information)
{
    struct sigaction action;
    ucontext_t context = {0};
    int number = information->si_signo;
    if (thread != gs_cc_signals_self() && gs_cc_signals_is_hand_over(thread) &&
        gs_cc_signals_has_handler(number))
        return hand_over(thread, information);
    if (!gs_cc_signals_is_handled(number, &action)) {
        bool is_ignored = action.sa_handler == SIG_IGN;
        return !is_ignored && kill(getpid(), number) ? errno : 0;
    }
    if (thread == gs_cc_signals_self()) {
        call_own_handler(thread, &action, information);
        return 0;
    }
    const struct handling outer = gs_cc_handling;
    gs_cc_handling.target = thread;
    if (thread != outer.target)
        gs_cc_handling.leave = NULL;
    gs_cc_signals_call(&action, information, &context);
    gs_cc_handling = outer;
    gs_cc_signals_handled(thread, action.sa_flags);
    return 0;
}

void gs_cc_deliver_pending(struct thread *self)
{
    siginfo_t information;
    int err = errno;
    while (gs_cc_take_pending(self, ~gs_cc_mask_of(self), &information))
        (void)act(self, &information);
    errno = err;
}

static int deliver(struct thread *thread, siginfo_t *information)
{
    int number = information->si_signo;
    if (number < 0 || number >= NSIG)
        return EINVAL;
    if (!thread)
        return ESRCH;
    if (!number || atomic_load(&thread->join) == JOIN_DONE)
        return 0;
    information->si_pid = getpid();
    information->si_uid = getuid();
    if (!is_blocked(thread, number))
        return act(thread, information);
    int err = keep(thread, information);
    if (thread == gs_cc_signals_self() || err)
        return err;
    if (!is_blocked(thread, number)) /* it has looked in between, perhaps too early */
        return gs_cc_take_pending(thread, gs_cc_signal_bit(number), information)
                   ? act(thread, information)
                   : 0;
    gs_cc_signals_interrupt(thread); /* it may wait for this signal */
    return 0;
}

/* In a handler that the kernel has called it may be the kernel's, which delays it as long as the
 * handler blocks it. */
static bool is_of_kernel(const struct thread *thread)
{
    return !thread_self() && thread && gs_cc_handling.has_mask && !gs_cc_handling.own &&
           gs_cc_handling.target == thread;
}

int gs_cc_pthread_kill(pthread_t id, int number)
{
    if (id && !gs_cc_is_thread(id))
        return pthread_kill(id, number);
    if (number > 0 && number < NSIG && is_of_kernel((struct thread *)id) &&
        !(gs_cc_handling.mask & gs_cc_signal_bit(number)))
        return raise(number) ? errno : 0;
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
    struct thread *self = gs_cc_signals_self();
    if (!self)
        return raise(number);
    int err = gs_cc_pthread_kill((pthread_t)self, number);
    return result_of(err);
}

/* ---- Writing where nobody reads ---- */

void gs_cc_raise_pipe(void)
{
    siginfo_t information = {.si_signo = SIGPIPE, .si_code = SI_USER};
    struct thread *self = thread_self();
    int err = errno;
    if (self)
        (void)deliver(self, &information);
    errno = err;
}

bool gs_cc_took_pipe(void)
{
    static const struct timespec none;
    const sigset_t set = gs_cc_signal_set(gs_cc_signal_bit(SIGPIPE));
    int err = errno;
    bool was_pending = sigtimedwait(&set, NULL, &none) == SIGPIPE;
    errno = err;
    return was_pending;
}

/* This kernel thread blocks the signal, or the kernel has delivered it already. */
void gs_cc_take_pipe(void)
{
    if (gs_cc_took_pipe())
        gs_cc_raise_pipe();
}
