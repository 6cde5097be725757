/* How a call is ended that a kernel thread of the pool makes: a signal of the runtime has it fail
 * with EINTR.
 *
 * The signal may come before the call waits in the kernel, and would be lost. So a timer sends
 * it, again and again until the call has returned. The thread, the kernel thread that makes the
 * call, and those that interrupt it agree by one word:
 *
 *     thread         sets STARTED, then looks whether it was canceled or a signal was handled
 *     interrupter    has set the flag of that, then looks for STARTED: so one of the two sees what
 *                    the other one has set, and sets WANTED
 *     kernel thread  sets RUNS; if WANTED is set, it starts the timer itself
 *     interrupter    finds RUNS, sets WANTED and SENDS in one step, starts the timer, and clears
 *                    SENDS
 *     kernel thread  the call has returned: clears STARTED and RUNS, waits until SENDS is clear,
 *                    stops the timer, and takes what is still pending
 *
 * Only the one that sets WANTED starts a timer. While SENDS is set the kernel thread does not end,
 * nor make another call, so no signal reaches one that it is not meant for; an interrupter has all
 * signals blocked then, as a handler might not return to it. */
#include "compiler/runtime/threads/pool.h"
#include "compiler/runtime/signals/own_signals.h"
#include "compiler/runtime/signals/signals.h"

#include <gossamer/io.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { STARTED = 1, RUNS = 2, WANTED = 4, SENDS = 8, OPTIONS = 4 }; /* above: pool_options */

/* Of the call that this kernel thread makes. */
static _Thread_local struct thread *served;

static void do_nothing(int number, siginfo_t *information, void *context)
{
    (void)number, (void)information, (void)context;
}

static bool is_to_end(const struct thread *thread, unsigned options)
{
    bool ends = options & POOL_CANCELS ? must_cancel(thread) : must_leave(thread);
    if (ends || !(options & (POOL_SIGNALS | POOL_EVERY_SIGNAL)))
        return ends;
    return gs_cc_is_interrupted(thread, !(options & POOL_EVERY_SIGNAL));
}

/* The first signal comes at once, in case that the call waits already. */
static void start_timer(struct extra *extra)
{
    static const struct itimerspec soon = {{0, 10 * (long)GS_MILLISECOND}, {0, 1}};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = extra->pool_signal};
    event._sigev_un._tid = extra->pool_thread;
    extra->has_pool_timer = !timer_create(CLOCK_MONOTONIC, &event, &extra->pool_timer);
    if (extra->has_pool_timer)
        timer_settime(extra->pool_timer, 0, &soon, NULL);
    else
        tgkill(getpid(), extra->pool_thread, extra->pool_signal);
}

/* ---- In the kernel thread ---- */

struct pooled {
    struct thread *thread;
    void (*call)(void *);
    void *argument;
};

/* Without a timer, the signal was sent once. */
static void stop_timer(struct extra *extra, const sigset_t *set)
{
    static const struct timespec none;
    if (extra->has_pool_timer)
        timer_delete(extra->pool_timer);
    while (sigtimedwait(set, NULL, &none) > 0)
        continue;
}

static void make(void *argument)
{
    const struct pooled *pooled = argument;
    struct extra *extra = pooled->thread->extra;
    sigset_t set;
    sigemptyset(&set);
    if (extra->pool_signal)
        sigaddset(&set, extra->pool_signal);
    extra->pool_thread = gettid();
    served = pooled->thread;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    if (atomic_fetch_or(&extra->pool, RUNS) & WANTED && extra->pool_signal)
        start_timer(extra);
    pooled->call(pooled->argument);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    unsigned state = atomic_fetch_and(&extra->pool, ~(unsigned)(STARTED | RUNS));
    while (atomic_load(&extra->pool) & SENDS)
        sched_yield();
    if (state & WANTED && extra->pool_signal)
        stop_timer(extra, &set);
    served = NULL;
}

bool gs_cc_pool_is_canceled(void)
{
    return served && is_canceled(served);
}

/* ---- In the thread ---- */

static void begin(struct thread *self, unsigned options)
{
    struct extra *extra = gs_cc_extra(self);
    gs_cc_own_signal_start(OWN_POOL, do_nothing, 0);
    extra->pool_signal = gs_cc_own_signal(OWN_POOL);
    extra->has_pool_timer = false;
    gs_cc_signals_begin_wait(self);
    atomic_store(&extra->pool, STARTED | options << OPTIONS);
    atomic_thread_fence(memory_order_seq_cst);
    if (is_to_end(self, options))
        atomic_fetch_or(&extra->pool, WANTED);
}

/* The library does not give the call up: it ends by itself, as it is interrupted. */
void gs_cc_run_in_pool(void (*call)(void *), void *argument, unsigned options)
{
    struct thread *self = thread_self();
    struct pooled pooled = {self, call, argument};
    begin(self, options);
    leave_stack(self);
    bool was_cancelable = gs_thread_set_cancelable(false);
    int err = gs_run_blocking(make, &pooled, GS_NEVER);
    gs_thread_set_cancelable(was_cancelable);
    return_to_stack(self);
    atomic_store(&self->extra->pool, 0);
    if (err)
        call(argument); /* no kernel thread: the worker waits with it */
}

bool gs_cc_end_in_pool(struct thread *self)
{
    jump_if_told(self);
    return errno == EINTR && gs_cc_test_cancel(self);
}

/* ---- In those that interrupt it ---- */

/* Returns whether the caller starts the timer. */
static bool want(struct extra *extra)
{
    unsigned state = atomic_load(&extra->pool), next;
    do {
        if (!(state & STARTED) || state & WANTED)
            return false;
        next = state | WANTED | (state & RUNS ? SENDS : 0);
    } while (!atomic_compare_exchange_weak(&extra->pool, &state, next));
    return next & SENDS;
}

void gs_cc_pool_interrupt(struct thread *thread)
{
    struct extra *extra = thread->extra;
    unsigned state = extra ? atomic_load(&extra->pool) : 0;
    sigset_t all, before;
    if (!(state & STARTED) || !is_to_end(thread, state >> OPTIONS))
        return;
    int err = errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (want(extra)) {
        /* A signal that the program has taken since is not the runtime's any more. */
        if (extra->pool_signal && extra->pool_signal == gs_cc_own_signal(OWN_POOL))
            start_timer(extra);
        atomic_fetch_and(&extra->pool, ~(unsigned)SENDS);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = err;
}
