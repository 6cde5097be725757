/* Real-time signals by which the runtime reaches one of its kernel threads: the last ones that the
 * program does not use. */
#ifndef GS_COMPILER_OWN_SIGNALS_H
#define GS_COMPILER_OWN_SIGNALS_H

#include <signal.h>

enum own_signal {
    OWN_MASK, /* the first worker sets its mask (masks.c) */
    OWN_POOL, /* a kernel thread of the pool ends its call (pool.c) */
    OWN_SIGNALS,
};

/* Choose a signal, and have this handler called for it. Does nothing if there is one already, or
 * another kernel thread chooses. */
void gs_cc_own_signal_start(enum own_signal which, void (*handler)(int, siginfo_t *, void *),
                            int flags);

/* 0: none. */
int gs_cc_own_signal(enum own_signal which);

/* The program wants to use this signal: another one is chosen. */
void gs_cc_own_signals_leave(int number);

#endif
