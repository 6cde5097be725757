/* Signals: the handler leaves a bit in the mailbox of the loop that the number belongs to. */
#include "loop/state.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

#define NUMBERS 64

/* Of each signal's number less one. `former` belongs to the loop that has the number. */
static struct {
    _Atomic(struct gs_loop *) loop;
    struct sigaction former;
} owners[NUMBERS];

/* Handlers that are running, in whatever thread: a loop may go away only after they have. */
static atomic_uint handlers;

static uint64_t bit_of(int number)
{
    return UINT64_C(1) << (number - 1);
}

static void handle(int number)
{
    atomic_fetch_add(&handlers, 1);
    struct gs_loop *loop = atomic_load(&owners[number - 1].loop);
    if (loop) {
        atomic_fetch_or(&loop->mailbox.caught, bit_of(number));
        gs_loop_end_wait(loop);
    }
    atomic_fetch_sub(&handlers, 1);
}

static int take_number(struct gs_loop *loop, int number)
{
    struct gs_loop *owner = NULL;
    if (!atomic_compare_exchange_strong(&owners[number - 1].loop, &owner, loop))
        return owner == loop ? 0 : -EBUSY;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    if (sigaction(number, &action, &owners[number - 1].former)) {
        atomic_store(&owners[number - 1].loop, NULL);
        return -EINVAL;
    }
    return 0;
}

static bool is_watched(const struct gs_loop *loop, int number)
{
    for (const struct gs_signal *signal = loop->signals; signal; signal = signal->next)
        if (signal->number == number)
            return true;
    return false;
}

static void give_number_back(struct gs_loop *loop, int number)
{
    sigaction(number, &owners[number - 1].former, NULL);
    atomic_store(&owners[number - 1].loop, NULL);
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
