#include "compiler/runtime/signals/own_signals.h"

#include <stdatomic.h>
#include <stdbool.h>

static struct own {
    atomic_int number; /* 0: none */
    void (*handler)(int, siginfo_t *, void *);
    int flags;
} own[OWN_SIGNALS];
/* Of all; nobody waits for it, as a handler may have interrupted who has it. */
static atomic_flag is_choosing = ATOMIC_FLAG_INIT;

static bool is_own(int number)
{
    for (int i = 0; i < OWN_SIGNALS; i++)
        if (atomic_load(&own[i].number) == number)
            return true;
    return false;
}

static void choose(struct own *one, int but)
{
    struct sigaction action = {.sa_sigaction = one->handler, .sa_flags = one->flags}, before;
    sigfillset(&action.sa_mask);
    for (int i = SIGRTMAX; i >= SIGRTMIN; i--) {
        if (i == but || is_own(i) || sigaction(i, NULL, &before) || before.sa_handler != SIG_DFL)
            continue;
        if (!sigaction(i, &action, NULL))
            atomic_store(&one->number, i);
        return;
    }
}

void gs_cc_own_signal_start(enum own_signal which, void (*handler)(int, siginfo_t *, void *),
                            int flags)
{
    if (atomic_load(&own[which].number) || atomic_flag_test_and_set(&is_choosing))
        return;
    own[which].handler = handler;
    own[which].flags = flags | SA_SIGINFO | SA_ONSTACK;
    if (!atomic_load(&own[which].number))
        choose(&own[which], 0);
    atomic_flag_clear(&is_choosing);
}

int gs_cc_own_signal(enum own_signal which)
{
    return atomic_load(&own[which].number);
}

void gs_cc_own_signals_leave(int number)
{
    const struct sigaction none = {.sa_handler = SIG_DFL};
    for (int i = 0; i < OWN_SIGNALS; i++) {
        int expected = number;
        if (!number || !atomic_compare_exchange_strong(&own[i].number, &expected, 0))
            continue;
        sigaction(number, &none, NULL);
        if (atomic_flag_test_and_set(&is_choosing))
            return;
        choose(&own[i], number);
        atomic_flag_clear(&is_choosing);
    }
}
