/* Signals. The loops that watch signals are in a list. A signal handler traverses it and sets a bit
 * in the mailbox of each loop that watches the signal. (tests/model/signals.pml) */
#include "base/atfork.h"
#include "base/chaos.h"
#include "loop/state.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#define NUMBERS 64

static _Atomic(struct gs_loop *) signal_loops;

/* The number of handlers running in any thread. A loop may only be freed when it is 0. */
static atomic_uint running_handlers;

/* Protects `installed` and changes of the list. Handlers take no lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The index is the signal number less one. */
static struct {
    unsigned loops;
    struct sigaction old_action;
} installed[NUMBERS];

static uint64_t bit_of(int number)
{
    return UINT64_C(1) << (number - 1);
}

static void handle(int number)
{
    atomic_fetch_add(&running_handlers, 1);
    gs_chaos(CHAOS_PUBLISH);
    struct gs_loop *loop = atomic_load(&signal_loops);
    for (; loop; loop = atomic_load(&loop->next_signal_loop)) {
        if (!(atomic_load(&loop->mailbox.watched_signals) & bit_of(number)))
            continue;
        atomic_fetch_or(&loop->mailbox.caught_signals, bit_of(number));
        gs_loop_wake_if_asleep(loop);
    }
    atomic_fetch_sub(&running_handlers, 1);
}

/* Called for the first loop that watches the signal. On the alternate stack, if there is one: what
 * is interrupted may be a user thread with a small stack. */
static int install(int number)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    return sigaction(number, &action, &installed[number - 1].old_action) ? -EINVAL : 0;
}

/* ---- After a fork ----
 * Other kernel threads may have been in the handler or have held the lock during the fork. They do
 * not exist in the child. */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    atomic_store(&running_handlers, 0);
    in_parent();
}

__attribute__((constructor)) static void prepare_for_forks(void)
{
    static const struct atfork functions = {before_fork, in_parent, in_child};
    gs_atfork_add(ATFORK_SIGNALS, &functions);
}

/* ---- Numbers ---- */

static int watch_number(struct gs_loop *loop, int number)
{
    uint64_t watched = atomic_load(&loop->mailbox.watched_signals);
    if (watched & bit_of(number))
        return 0;
    pthread_mutex_lock(&lock);
    int err = gs_atfork_start();
    if (!err && !installed[number - 1].loops)
        err = install(number);
    if (!err) {
        installed[number - 1].loops++;
        atomic_fetch_or(&loop->mailbox.watched_signals, bit_of(number));
        if (!watched) {
            atomic_store(&loop->next_signal_loop, atomic_load(&signal_loops));
            atomic_store(&signal_loops, loop);
        }
    }
    pthread_mutex_unlock(&lock);
    return err;
}

static bool is_watched(const struct gs_loop *loop, int number)
{
    for (const struct gs_signal *signal = loop->signals; signal; signal = signal->next)
        if (signal->number == number)
            return true;
    return false;
}

static void unlink_loop(struct gs_loop *loop)
{
    _Atomic(struct gs_loop *) *link = &signal_loops;
    while (atomic_load(link) != loop)
        link = &atomic_load(link)->next_signal_loop;
    atomic_store(link, atomic_load(&loop->next_signal_loop));
}

static void unwatch_number(struct gs_loop *loop, int number)
{
    pthread_mutex_lock(&lock);
    if (!--installed[number - 1].loops)
        sigaction(number, &installed[number - 1].old_action, NULL);
    atomic_fetch_and(&loop->mailbox.watched_signals, ~bit_of(number));
    if (!atomic_load(&loop->mailbox.watched_signals))
        unlink_loop(loop);
    pthread_mutex_unlock(&lock);
    while (atomic_load(&running_handlers))
        sched_yield();
    atomic_fetch_and(&loop->mailbox.caught_signals, ~bit_of(number));
}

/* In a child of one kernel thread, which needs no lock. */
void gs_loop_forget_signals(struct gs_loop *loop)
{
    CHECKED_FORGET_LOOP(loop);
    uint64_t watched = atomic_load(&loop->mailbox.watched_signals);
    atomic_store(&loop->mailbox.watched_signals, 0);
    for (int number = 1; number <= NUMBERS; number++)
        if (watched & bit_of(number) && !--installed[number - 1].loops)
            sigaction(number, &installed[number - 1].old_action, NULL);
    if (watched)
        unlink_loop(loop);
}

void gs_signal_init(struct gs_signal *signal, struct gs_loop *loop, gs_signal_fn *callback)
{
    CHECKED_INIT(&signal->watcher);
    *signal = (struct gs_signal){
        .watcher = {.loop = loop, .kind = KIND_SIGNAL},
        .callback = callback,
    };
}

int gs_signal_start(struct gs_signal *signal, int number)
{
    CHECKED_START(&signal->watcher, KIND_SIGNAL);
    if (signal->watcher.active)
        return 0;
    if (number < 1 || number > NUMBERS)
        return -EINVAL;
    int err = watch_number(signal->watcher.loop, number);
    if (err)
        return err;
    struct gs_signal **end = &signal->watcher.loop->signals;
    while (*end)
        end = &(*end)->next;
    *end = signal;
    signal->next = NULL;
    signal->number = number;
    gs_loop_activate(&signal->watcher);
    return 0;
}

void gs_signal_stop(struct gs_signal *signal)
{
    CHECKED_STOP(&signal->watcher);
    struct gs_loop *loop = signal->watcher.loop;
    if (!signal->watcher.active)
        return;
    struct gs_signal **link = &loop->signals;
    while (*link != signal)
        link = &(*link)->next;
    *link = signal->next;
    gs_loop_deactivate(&signal->watcher);
    if (!is_watched(loop, signal->number))
        unwatch_number(loop, signal->number);
}

void gs_loop_collect_signals(struct gs_loop *loop)
{
    if (LIKELY(!atomic_load_explicit(&loop->mailbox.caught_signals, memory_order_relaxed)))
        return;
    uint64_t caught = atomic_exchange(&loop->mailbox.caught_signals, 0);
    for (struct gs_signal *signal = loop->signals; signal; signal = signal->next)
        if (caught & bit_of(signal->number))
            gs_loop_set_pending(&signal->watcher, 0);
}
