#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <event2/event.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *(*program_malloc)(size_t size);
static void *(*program_realloc)(void *memory, size_t size);
static void (*program_free)(void *memory);

void event_set_mem_functions(void *(*malloc_fn)(size_t sz),
                             void *(*realloc_fn)(void *ptr, size_t sz), void (*free_fn)(void *ptr))
{
    program_malloc = malloc_fn;
    program_realloc = realloc_fn;
    program_free = free_fn;
}

void *gs_ev_malloc(size_t size)
{
    if (!size)
        return NULL;
    void *memory = program_malloc ? program_malloc(size) : malloc(size);
    if (!memory)
        errno = ENOMEM;
    return memory;
}

void *gs_ev_calloc(size_t count, size_t size)
{
    if (!count || !size)
        return NULL;
    if (!program_malloc)
        return calloc(count, size);
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *memory = gs_ev_malloc(bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

/* The program's functions get no NULL: not all that it may have can do with that. */
void *gs_ev_realloc(void *memory, size_t size)
{
    if (!memory)
        return gs_ev_malloc(size);
    void *moved = program_realloc ? program_realloc(memory, size) : realloc(memory, size);
    if (!moved && size)
        errno = ENOMEM;
    return moved;
}

char *gs_ev_strdup(const char *text)
{
    if (!text) {
        errno = EINVAL;
        return NULL;
    }
    size_t size = strlen(text) + 1;
    char *copy = gs_ev_malloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void gs_ev_free(void *memory)
{
    if (!memory)
        return;
    if (program_free)
        program_free(memory);
    else
        free(memory);
}
