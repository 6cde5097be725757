/* Masks of the calling thread, signal by signal. */
#ifndef GS_TESTS_COMPILER_MASK_H
#define GS_TESTS_COMPILER_MASK_H

#include "program.h"

static inline sigset_t set_of(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    return set;
}

static inline void change(int how, int number)
{
    const sigset_t set = set_of(number);
    pthread_sigmask(how, &set, NULL);
}

static inline int is_blocked(int number)
{
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    return sigismember(&mask, number);
}

#endif
