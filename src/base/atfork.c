#include "base/atfork.h"

#include <pthread.h>
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

static int err;

/* The allocator registers its handlers, unless it has done so already. */
static void start(void)
{
    void *volatile block = malloc(1);
    free(block);
    err = -pthread_atfork(before, in_parent, in_child);
}

int gs_atfork_start(void)
{
    static pthread_once_t is_started = PTHREAD_ONCE_INIT;
    pthread_once(&is_started, start);
    return err;
}

/* Before constructors of the program. */
enum { FIRST_PRIORITY = 101 };
__attribute__((constructor(FIRST_PRIORITY))) static void start_early(void)
{
    (void)gs_atfork_start();
}
