/* Starts a thread, which must be possible. */
#ifndef GS_TESTS_COMPILER_START_H
#define GS_TESTS_COMPILER_START_H

#include "program.h"

static inline pthread_t start(void *(*fn)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fn, argument))
        abort();
    return thread;
}

#endif
