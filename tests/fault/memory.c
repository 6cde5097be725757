/* Wrappers (--wrap) for the allocator that count live allocations and inject failures. The C
 * library's own calls are not wrapped, except that of strdup, whose result is freed by the
 * server. */
#include "tests/fault/faults.h"

#include <stddef.h>
#include <string.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *old, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void __real_free(void *memory);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *old, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);

static void *count(void *memory)
{
    fault_count_live(memory != NULL);
    return memory;
}

/* The memory is filled with a pattern, so that a stale copy of a file's bytes cannot pass for a
 * successful read. */
void *__wrap_malloc(size_t n)
{
    void *memory = fault_take(FAULT_ALLOCATION) ? NULL : count(__real_malloc(n));
    return memory ? memset(memory, 0xa5, n) : NULL;
}

void *__wrap_calloc(size_t number, size_t n)
{
    return fault_take(FAULT_ALLOCATION) ? NULL : count(__real_calloc(number, n));
}

void *__wrap_realloc(void *old, size_t n)
{
    if (fault_take(FAULT_ALLOCATION))
        return NULL;
    void *memory = __real_realloc(old, n);
    return old ? memory : count(memory);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return fault_take(FAULT_ALLOCATION) ? NULL : count(__real_aligned_alloc(alignment, n));
}

char *__wrap_strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = __wrap_malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

void __wrap_free(void *memory)
{
    fault_count_live(memory ? -1 : 0);
    __real_free(memory);
}
