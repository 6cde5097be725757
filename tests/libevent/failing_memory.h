/* Memory functions that fail after a number of allocations, count the blocks that are left, and
 * abort if they get what they have not given. */
#ifndef GS_TESTS_LIBEVENT_FAILING_MEMORY_H
#define GS_TESTS_LIBEVENT_FAILING_MEMORY_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

/* Before each block is a mark: what is freed must have been allocated here. */
enum { MARK_SIZE = 16 };
static const char mark[MARK_SIZE] = "of the program.";
static bool refuses_null; /* libevent frees NULL, too */

static void *put_mark(char *memory)
{
    if (!memory)
        return NULL;
    memcpy(memory, mark, MARK_SIZE);
    return memory + MARK_SIZE;
}

static char *take_mark(void *block)
{
    if (!block && !refuses_null)
        return NULL;
    char *memory = (char *)block - MARK_SIZE;
    if (!block || memcmp(memory, mark, MARK_SIZE) != 0)
        abort();
    memset(memory, 0, MARK_SIZE);
    return memory;
}

static void *count_malloc(size_t size)
{
    void *memory = is_allowed() ? put_mark(malloc(size + MARK_SIZE)) : NULL;
    blocks += memory != NULL;
    return memory;
}

static void *count_realloc(void *memory, size_t size)
{
    if (!is_allowed())
        return NULL;
    void *moved = put_mark(realloc(take_mark(memory), size + MARK_SIZE));
    blocks += !memory && moved;
    return moved;
}

static void count_free(void *memory)
{
    blocks -= memory != NULL;
    free(take_mark(memory));
}

static void count_memory(void)
{
    event_set_mem_functions(count_malloc, count_realloc, count_free);
}

#endif
