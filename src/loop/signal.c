/* Signals. The loops that watch any are in a list, which handlers go through: they leave a bit in
 * the mailbox of each loop that watches the signal. */
#include "loop/state.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#define NUMBERS 64

static _Atomic(struct gs_loop *) catchers;

/* Handlers that are running, in whatever thread: a loop may go away only after they have. */
static atomic_uint handlers;

/* Guards what follows, and changes of the list. Handlers take no lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Of each signal's number less one. */
static struct {
    unsigned loops;
    struct sigaction former;
} owners[NUMBERS];

static uint64_t bit_of(int number)
{
    return UINT64_C(1) << (number - 1);
}

static void handle(int number)
{
    atomic_fetch_add(&handlers, 1);
    struct gs_loop *loop = atomic_load(&catchers);
    for (; loop; loop = atomic_load(&loop->next_catcher)) {
        if (!(atomic_load(&loop->mailbox.watched) & bit_of(number)))
            continue;
        atomic_fetch_or(&loop->mailbox.caught, bit_of(number));
        gs_loop_end_wait(loop);
    }
    atomic_fetch_sub(&handlers, 1);
}

/* The first loop to watch it. */
static int catch (int number)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    return sigaction(number, &action, &owners[number - 1].former) ? -EINVAL : 0;
}

static int take_number(struct gs_loop *loop, int number)
{
    uint64_t watched = atomic_load(&loop->mailbox.watched);
    if (watched & bit_of(number))
        return 0;
    pthread_mutex_lock(&lock);
    int err = owners[number - 1].loops ? 0 : catch (number);
    if (!err) {
        owners[number - 1].loops++;
        atomic_fetch_or(&loop->mailbox.watched, bit_of(number));
        if (!watched) {
            atomic_store(&loop->next_catcher, atomic_load(&catchers));
            atomic_store(&catchers, loop);
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

static void unlink_catcher(struct gs_loop *loop)
{
    _Atomic(struct gs_loop *) *link = &catchers;
    while (atomic_load(link) != loop)
        link = &atomic_load(link)->next_catcher;
    atomic_store(link, atomic_load(&loop->next_catcher));
}

static void give_number_back(struct gs_loop *loop, int number)
{
    pthread_mutex_lock(&lock);
    if (!--owners[number - 1].loops)
        sigaction(number, &owners[number - 1].former, NULL);
    atomic_fetch_and(&loop->mailbox.watched, ~bit_of(number));
    if (!atomic_load(&loop->mailbox.watched))
        unlink_catcher(loop);
    pthread_mutex_unlock(&lock);
    while (atomic_load(&handlers))
        sched_yield();
    atomic_fetch_and(&loop->mailbox.caught, ~bit_of(number));
}

void gs_signal_init(struct gs_signal *signal, struct gs_loop *loop, gs_signal_fn *callback)
{
    *signal = (struct gs_signal){
        .watcher = {.loop = loop, .kind = KIND_SIGNAL},
        .callback = callback,
    };
}

int gs_signal_start(struct gs_signal *signal, int number)
{
    if (signal->watcher.active)
        return 0;
    if (number < 1 || number > NUMBERS)
        return -EINVAL;
    int err = take_number(signal->watcher.loop, number);
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
    struct gs_loop *loop = signal->watcher.loop;
    if (!signal->watcher.active)
        return;
    struct gs_signal **link = &loop->signals;
    while (*link != signal)
        link = &(*link)->next;
    *link = signal->next;
    gs_loop_deactivate(&signal->watcher);
    if (!is_watched(loop, signal->number))
        give_number_back(loop, signal->number);
}

void gs_loop_collect_signals(struct gs_loop *loop)
{
    if (LIKELY(!atomic_load_explicit(&loop->mailbox.caught, memory_order_relaxed)))
        return;
    uint64_t caught = atomic_exchange(&loop->mailbox.caught, 0);
    for (struct gs_signal *signal = loop->signals; signal; signal = signal->next)
        if (caught & bit_of(signal->number))
            gs_loop_pend(&signal->watcher, 0);
}
