/* A store for the contents of stacks that are away: pieces of memory in size classes of 32 bytes,
 * packed without headers. A piece is never unmapped, so that reports may read one that is freed at
 * the same time. May be used by any kernel thread. */
#ifndef GS_THREAD_STACK_STORE_H
#define GS_THREAD_STACK_STORE_H

#include "thread/sanitizer.h"

#include <stdbool.h>
#include <stddef.h>

/* Frames of instrumented code are larger. */
#define STORE_PIECE_MAX ((size_t)(GS_ASAN || GS_TSAN ? 8192 : 2048))

/* Returns NULL if memory or addresses are exhausted, or limited (RLIMIT_AS). size: at most
 * STORE_PIECE_MAX. */
void *gs_stack_store_get(size_t size);
void gs_stack_store_put(void *piece, size_t size);

/* Whether `size` bytes from there on belong to the store, and may be read. */
bool gs_stack_store_has(const void *address, size_t size);

/* The memory that pieces and their slabs take. */
size_t gs_stack_store_bytes(void);

/* For a fork. */
void gs_stack_store_lock(void);
void gs_stack_store_unlock(void);

#endif
