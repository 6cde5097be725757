/* Memory functions that fail after a number of allocations, and count the blocks that are left. */
#ifndef GS_TESTS_LIBEVENT_FAILING_MEMORY_H
#define GS_TESTS_LIBEVENT_FAILING_MEMORY_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>

/* How many allocations succeed before all others fail; -1: no limit. */
static int allowed = -1;
static bool has_failed;
static int blocks;

static bool is_allowed(void)
{
    if (allowed > 0)
        allowed--;
    else if (!allowed)
        return !(has_failed = true);
    return true;
}

static void *count_malloc(size_t size)
{
    void *memory = is_allowed() ? malloc(size) : NULL;
    blocks += memory != NULL;
    return memory;
}

static void *count_realloc(void *memory, size_t size)
{
    void *moved = is_allowed() ? realloc(memory, size) : NULL;
    blocks += !memory && moved;
    return moved;
}

static void count_free(void *memory)
{
    blocks -= memory != NULL;
    free(memory);
}

static void count_memory(void)
{
    event_set_mem_functions(count_malloc, count_realloc, count_free);
}

#endif
