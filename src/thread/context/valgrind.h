/* Tells valgrind where stacks are: otherwise it takes a switch for a frame of that size, and the
 * memory between the stacks for unused. The requests are a few instructions without effect in a
 * program that does not run under valgrind; without its header in the build, they are nothing. */
#ifndef GS_THREAD_VALGRIND_H
#define GS_THREAD_VALGRIND_H

#ifdef GS_VALGRIND
#include <valgrind/valgrind.h>
#endif

/* Returns a number for valgrind_remove_stack. */
static inline unsigned valgrind_add_stack(const void *bottom, const void *top)
{
    (void)bottom, (void)top;
#ifdef GS_VALGRIND
    return VALGRIND_STACK_REGISTER(bottom, top);
#else
    return 0;
#endif
}

static inline void valgrind_remove_stack(unsigned number)
{
    (void)number;
#ifdef GS_VALGRIND
    VALGRIND_STACK_DEREGISTER(number);
#endif
}

static inline int valgrind_is_running(void)
{
#ifdef GS_VALGRIND
    return (int)RUNNING_ON_VALGRIND;
#else
    return 0;
#endif
}

#endif
