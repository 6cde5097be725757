/* The memory of the runtime in this library. */
#ifndef GS_COMPAT_PTHREAD_MEMORY_H
#define GS_COMPAT_PTHREAD_MEMORY_H

#include <stddef.h>

void *malloc(size_t n) __attribute__((visibility("hidden")));
void free(void *memory) __attribute__((visibility("hidden")));
void *calloc(size_t count, size_t n) __attribute__((visibility("hidden")));
void *realloc(void *memory, size_t n) __attribute__((visibility("hidden")));
void *aligned_alloc(size_t alignment, size_t n) __attribute__((visibility("hidden")));

/* Around a fork, so that the child finds the lists whole. */
void gs_memory_lock(void);
void gs_memory_unlock(void);

#endif
