/* Wrappers (--wrap) of the allocator: after `allowed` allocations one fails. For one file of a
 * test. */
#ifndef GS_TESTS_HTTP_SERVER_ALLOCATIONS_H
#define GS_TESTS_HTTP_SERVER_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>

static _Atomic(long) allowed = -1; /* allocations until one fails; -1: none does */
static _Atomic(unsigned) failures;
static size_t exempt_n; /* allocations of this size do not fail, and are not counted; 0: none */

static inline bool may_allocate(size_t n)
{
    if (allowed < 0 || (exempt_n && n == exempt_n) || allowed-- > 0)
        return true;
    failures++;
    return false;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *bytes, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *bytes, size_t n);

void *__wrap_malloc(size_t n)
{
    return may_allocate(n) ? __real_malloc(n) : NULL;
}

void *__wrap_calloc(size_t count, size_t n)
{
    return may_allocate(count * n) ? __real_calloc(count, n) : NULL;
}

void *__wrap_realloc(void *bytes, size_t n)
{
    return may_allocate(n) ? __real_realloc(bytes, n) : NULL;
}

#endif
