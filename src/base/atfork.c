#include "base/atfork.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

static const struct atfork *parts[ATFORK_PLACES];

void gs_atfork_add(enum atfork_place place, const struct atfork *functions)
{
    parts[place] = functions;
}

static void before(void)
{
    for (int place = 0; place < ATFORK_PLACES; place++)
        if (parts[place])
            parts[place]->before();
}

static void in_parent(void)
{
    for (int place = ATFORK_PLACES; place-- > 0;)
        if (parts[place])
            parts[place]->in_parent();
}

static void in_child(void)
{
    for (int place = ATFORK_PLACES; place-- > 0;)
        if (parts[place])
            parts[place]->in_child();
}

static bool is_started;
static int err;

/* The allocator registers its handlers first, unless it has done so already. There is one kernel
 * thread until the constructor has run, so that this needs no pthread_once; nor could it use that:
 * the thread sanitizer's has other values than the C library's, and `gossamer run` calls first the
 * one and then the other. */
int gs_atfork_start(void)
{
    if (is_started)
        return err;
    is_started = true;
    void *volatile block = malloc(1);
    free(block);
    err = -pthread_atfork(before, in_parent, in_child);
    return err;
}

/* Before constructors of the program. */
enum { FIRST_PRIORITY = 101 };
__attribute__((constructor(FIRST_PRIORITY))) static void start_early(void)
{
    (void)gs_atfork_start();
}
