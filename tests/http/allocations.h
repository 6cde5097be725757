/* Wrappers (--wrap) of the allocator, which count, and can fail. For one file of a test, which is
 * linked with `malloc`, `calloc`, `realloc` and `free` wrapped. */
#ifndef GS_TESTS_HTTP_ALLOCATIONS_H
#define GS_TESTS_HTTP_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of allocations, from 1 on: those from the first to the last, exclusively, fail. */
static unsigned long allocations, fails_from = UINT64_MAX, fails_to = UINT64_MAX;
static size_t exempt_n; /* allocations of this size are not counted, and do not fail; 0: none */
static long live;       /* allocations that are not freed */

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *memory, size_t n);
void __real_free(void *memory);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *memory, size_t n);
void __wrap_free(void *memory);

static inline bool fails(size_t n)
{
    if (exempt_n && n == exempt_n)
        return false;
    allocations++;
    return allocations >= fails_from && allocations < fails_to;
}

void *__wrap_malloc(size_t n)
{
    void *memory = fails(n) ? NULL : __real_malloc(n);
    live += memory != NULL;
    return memory;
}

void *__wrap_calloc(size_t count, size_t n)
{
    void *memory = fails(count * n) ? NULL : __real_calloc(count, n);
    live += memory != NULL;
    return memory;
}

void *__wrap_realloc(void *memory, size_t n)
{
    void *moved = fails(n) ? NULL : __real_realloc(memory, n);
    live += moved && !memory;
    return moved;
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

#endif
